"""``warren profile``: tasks are measured, and what was measured is shown, removed or handed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from warren.cli.errors import complain
from warren.cli.options import GROUP, Json, examples
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.model.cluster import Cluster
from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.history_rows import Profile
from warren.model.job import Job, Workload
from warren.model.run import Run
from warren.profile.history import exported, on_types, snapshot, with_own_names
from warren.report.number_text import count
from warren.runs.check_apps import check_apps
from warren.runs.inputs import jobs_of, named_after, some_of, with_absolute_base
from warren.runs.machine import check_device_types
from warren.store.files import read, refused, write_atomic
from warren.store.history_database import Database, default_file, known_jobs, known_profiles

_COMMANDS = "measure, list, show, forget, export"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of ``warren profile export`` as typed."""

    out: str | None
    cluster: str | None
    averages: bool
    jobs: str | None


@answers_alone()
def measure_command(
    job_file: str,
    cluster: str | None,
    names: Sequence[str],
    tasks: int,
    db: str | None,
    json_: bool,
) -> None:
    """Measure the jobs of a file, but for what is known; exit code 1 if one of them fails."""
    from warren.runs.measure_profiles import profiles_of, row_of_run

    run = _run(job_file, cluster, names)
    with named_after(job_file, run):
        run = check_apps(run)
        found, failed = profiles_of(run, run.workload.jobs, _file(db), tasks, asked=True)
    jobs = [job for job in run.workload.jobs if job.index in found]
    rows = {job.name: row_of_run(run, job, found[job.index]) for job in jobs}
    if json_:
        print_json([_measured(job, found[job.index], rows[job.name]) for job in jobs])
    elif jobs and run.cluster.emulate is not None:
        scale = run.cluster.emulate.time_scale
        say(f"times are cluster seconds: those of this machine's processor / {scale:g}")
    for job in [] if json_ else jobs:
        for line in _lines(job, found[job.index], rows[job.name]):
            answer(line)
    if failed:
        complain(str(SpecError(failed)))
        raise typer.Exit(1)


@answers_alone()
def list_command(db: str | None, json_: bool) -> None:
    """All profiles, the latest first."""
    rows = sorted(known_profiles(_there(db)), key=lambda row: (-row.updated_at, row.key))
    if json_:
        print_json([asdict(row) for row in rows])
        return
    if not rows:
        say("nothing was measured yet")
        return
    answer(f"{'key':12}  {'type':6}  {'comp':>10}  {'sync':>10}  {'memory':>8}  app, job")
    for row in rows:
        comp_s, sync_s = row.comp_s or row.comp_avg_s, row.sync_s
        sync_s = row.sync_avg_s if row.comp_s is None else sync_s
        answer(
            f"{row.key[:12]}  {row.device_type:6}  {_time(comp_s):>10}  {_time(sync_s):>10}  "
            f"{_size(row.memory_bytes):>8}  {row.app}, {row.job}"
        )


@answers_alone()
def show_command(key: str, db: str | None, json_: bool) -> None:
    """One key, every column."""
    rows = _of_key(known_profiles(_there(db)), key)
    if json_:
        print_json([asdict(row) for row in rows])
        return
    for row in rows:
        for name, value in {**asdict(row), "updated_at": _date(row.updated_at)}.items():
            answer(f"{name:13}  {'-' if value is None else value}")


@answers_alone()
def forget_command(key: str, db: str | None, json_: bool) -> None:
    """Remove one key."""
    path = _there(db)
    rows = _of_key(known_profiles(path), key)
    with Database(path) as database, database.transaction():
        database.forget(rows[0].key)
    say(f"forgotten: {rows[0].key[:12]}, {rows[0].app}, {rows[0].job}")
    if json_:
        print_json({"forgotten": rows[0].key})


@answers_alone()
def export_command(asked: ExportOptions, db: str | None, json_: bool) -> None:
    """Profiles as a file of rows, or ended jobs as a jobs file."""
    import yaml

    from warren.workload.specs.write import dump_profiles

    if asked.jobs is not None:
        _export_jobs(asked, _there(db), json_)
        return
    found = exported(known_profiles(_there(db)), averages=asked.averages)
    rows = found.rows
    if asked.cluster is not None:
        cluster = _cluster(asked.cluster)
        scale = cluster.emulate.time_scale if cluster.emulate else 1.0
        rows = tuple(on_types(row, cluster.type_names, scale) for row in rows)
    seconds = "real" if asked.cluster is None else f"{asked.cluster}'s"
    text = dump_profiles(rows, f"Made by `warren profile export`, in {seconds} seconds.")
    if asked.out is not None:
        write_atomic(Path(asked.out), text)
        say(f"written: {asked.out}, {count(len(rows), 'row')}")
    if found.spare:
        say(
            f"no job uses {'; '.join(found.spare)}: the app's file, the numerics or the machine "
            "was another, or it is another file of that name; named measured:NAME it prices job "
            "NAME"
        )
    if json_:
        print_json(yaml.safe_load(text))
    elif asked.out is None:
        answer(text.rstrip("\n"))


def _export_jobs(asked: ExportOptions, path: Path, json_: bool) -> None:
    from warren.workload.specs.write import dump_profiles
    from warren.workload.traces.convert import jobs_csv

    if asked.out is not None or asked.cluster is not None or asked.averages:
        message = "writes jobs; leave out --out, --cluster and --averages"
        raise SpecError(Problem(file="--jobs", message=message))
    to = Path(asked.jobs or "")
    if to.suffix != ".csv":
        raise refused(to, "allowed: a table of jobs, .csv")
    try:
        past = snapshot(known_jobs(path))
    except ValueError as error:
        raise refused(path, str(error)) from None
    costs = to.with_suffix(".profiles.yaml")
    write_atomic(costs, dump_profiles(past.rows, f"Costs of {to.name}, jobs of live runs."))
    write_atomic(to, jobs_csv(with_own_names(past.jobs)))
    say(f"written: {to}, {len(past.jobs)} jobs; their costs, for `profiles:`, in {costs}")
    if json_:
        content = {"jobs": len(past.jobs), "to": str(to), "profiles": str(costs)}
        print_json({**content, "digest": past.digest})


def _file(db: str | None) -> Path:
    try:
        return default_file() if db is None else Path(db)
    except OSError as error:
        raise SpecError(Problem(file="--db", message=str(error))) from None


def _there(db: str | None) -> Path:
    """The database to look into: one's own, which need not be there yet, or a file that is."""
    path = _file(db)
    if db is not None and not path.exists():
        raise refused(path, "no such file")
    return path


def _run(job_file: str, cluster: str | None, names: Sequence[str]) -> Run:
    """The jobs of a file that have an app, on a cluster that this machine has, or plays."""
    if not Path(job_file).exists():
        message = f"no such file; allowed: a job file with --cluster, or {_COMMANDS}"
        raise refused(Path(job_file), message)
    chosen = jobs_of(job_file, names)
    if cluster is None:
        message = "is missing; allowed: a cluster file"
        raise SpecError(Problem(file="profile", field="--cluster", message=message))
    found = replace(_cluster(cluster), switching=None)  # which only simulations charge
    check_device_types(found, cluster, "hosts")
    without = some_of([job.name for job in chosen if job.app is None])
    training = [job for job in chosen if job.app is not None]
    if not training:
        raise SpecError(
            Problem(file=job_file, field="app", message=f"no app to measure in {without}")
        )
    if without:
        say(f"skipped, no app to measure: {without}")
    jobs = tuple(replace(job, index=index) for index, job in enumerate(training))
    base = str(Path(job_file).parent)
    run = Run(name=job_file, cluster=found, workload=Workload(jobs=jobs), base=base)
    return with_absolute_base(run)


def _cluster(path: str) -> Cluster:
    from warren.workload.run_file import load_cluster

    return load_cluster(path, read)


def _of_key(rows: Sequence[Profile], key: str) -> list[Profile]:
    found = sorted({row.key for row in rows if (key and row.key.startswith(key)) or row.job == key})
    if len(found) != 1:
        some = some_of([one[:12] for one in found or sorted({row.key for row in rows})], 8)
        what = "stands for several keys" if found else "no such key and no such job"
        message = f"{key!r}: {what}; allowed: {some}" if some else "nothing was measured yet"
        raise SpecError(Problem(file="profile", field="KEY", message=message))
    return [row for row in rows if row.key == found[0]]


def _measured(job: Job, profile: Profile, row: ProfileRow) -> dict[str, Any]:
    times = {"comp_s": dict(row.comp_s), "sync_s": dict(row.sync_s)}
    sizes = {"model_bytes": row.model_bytes, "memory_bytes": row.memory_bytes}
    return {"job": job.name, "key": profile.key, **times, **sizes, "profile": asdict(profile)}


def _lines(job: Job, profile: Profile, row: ProfileRow) -> list[str]:
    return [
        f"{job.name}  {kind}  comp {_time(row.comp_s[kind])}  sync {_time(row.sync_s.get(kind))}  "
        f"model {_size(row.model_bytes)}  memory {_size(row.memory_bytes)}  {profile.key[:12]}"
        for kind in row.comp_s
    ]


def _date(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(sep=" ", timespec="seconds")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.3f} s" if seconds >= 1 else f"{1000 * seconds:.3f} ms"


def _size(size_bytes: int) -> str:
    if not size_bytes:
        return "-"
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.1f} kB"


_JOBS: Final = "examples/quickstart/jobs.yaml"
_CLUSTER: Final = "examples/quickstart/cluster.yaml"
_MEASURE: Final = "measure"


class _JobOrCommand(TyperGroup):
    """Anything but the name of a command is what ``measure`` takes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``measure`` before a job file and its options."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [_MEASURE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="profile",
    cls=_JobOrCommand,
    help="Measure what tasks cost, and look after what was measured.\n\n"
    "`warren profile JOB.yaml --cluster C.yaml` measures; what it finds is kept in the history "
    "database, and live runs add to it.",
    epilog=examples(
        f"warren profile {_JOBS} --job diabetes --cluster {_CLUSTER}", "warren profile list"
    ),
    subcommand_metavar="JOB.yaml --cluster C.yaml | COMMAND",
    **GROUP,
)

Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="FILE", help="The history database; else $WARREN_HISTORY, else your own."
    ),
]
Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="A key, its beginning, or the job that `list` shows.",
        show_default=False,
    ),
]


@app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    _MEASURE,
    epilog=examples(f"warren profile measure {_JOBS} --job diabetes --cluster {_CLUSTER}"),
)
def measure(
    job_file: Annotated[
        str, typer.Argument(metavar="JOB.yaml", help="Job file.", show_default=False)
    ],
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="C.yaml", help="Cluster file; required.")
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option("--job", metavar="NAME", help="This job of the file alone; may be repeated."),
    ] = None,
    tasks: Annotated[
        int, typer.Option("--tasks", metavar="N", min=1, max=1000, help="Tasks of each job.")
    ] = 3,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Measure a few tasks of each job.

    `warren profile JOB.yaml` is the same as `warren profile measure JOB.yaml`.
    What is known by as many tasks is not measured again: the same app, parameters, batch,
    numerics and machine. A job without an app is skipped; one that fails is told, with exit code 1.
    Device types that this machine lacks need `emulate` in the cluster.
    """
    measure_command(job_file, cluster, job or [], tasks, db, json_)


@app.command("list", epilog=examples("warren profile list", "warren profile list --json"))
def list_(db: Db = None, json_: Json = False) -> None:
    """List what was measured, the latest first."""
    list_command(db, json_)


@app.command(epilog=examples("warren profile show 3f9a2c"))
def show(key: Key, db: Db = None, json_: Json = False) -> None:
    """Show all that is known under a key."""
    show_command(key, db, json_)


@app.command(epilog=examples("warren profile forget 3f9a2c"))
def forget(key: Key, db: Db = None, json_: Json = False) -> None:
    """Remove what is known under a key, so that it is measured again."""
    forget_command(key, db, json_)


@app.command(
    epilog=examples(
        "warren profile export --out rows.yaml",
        f"warren profile export --cluster {_CLUSTER} --out rows.yaml",
        "warren profile export --jobs past.csv",
    )
)
def export(
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write a file (an old one goes)."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="C.yaml", help="For the types of this cluster, in its seconds."
        ),
    ] = None,
    averages: Annotated[
        bool, typer.Option("--averages", help="What live runs took, before what was measured.")
    ] = False,
    jobs: Annotated[
        str | None,
        typer.Option("--jobs", metavar="FILE.csv", help="Write the finished jobs instead."),
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Print what was measured as rows for `profiles:` of a run.

    With --jobs, write the finished jobs of live runs as a jobs file, and beside it their costs,
    FILE.profiles.yaml.
    """
    export_command(ExportOptions(out, cluster, averages, jobs), db, json_)
