"""``warren profile``: tasks are measured, and their times shown, removed or exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from warren.cli.errors import complain
from warren.cli.options import GROUP, Json, examples
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.yaml_answer import answer_yaml
from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.history_rows import Profile
from warren.model.job import Job
from warren.model.run import Run
from warren.report.number_text import count
from warren.runs.inputs import jobs_of
from warren.runs.profiles.known_profiles import (
    existing_database,
    export_jobs,
    export_profiles,
    forget_profiles,
    latest_profiles,
    profiles_under,
)
from warren.runs.profiles.measurement import measurable_jobs, measure_kept
from warren.store.files import refused

_COMMANDS = "measure, list, show, forget, export"


def _export_jobs(path: Path, to: Path, json_: bool) -> None:
    """Write the finished jobs of a database, and their costs."""
    found = export_jobs(path, to)
    say(f"written: {to}, {found.jobs} jobs; their costs, for `profiles:`, in {found.costs}")
    if json_:
        content = {"jobs": found.jobs, "to": str(to), "profiles": str(found.costs)}
        print_json({**content, "digest": found.digest})


def _run(job_file: str, cluster: str | None, names: Sequence[str]) -> Run:
    """Return the jobs to measure as a run; tell which have no app."""
    if not Path(job_file).exists():
        message = f"no such file; allowed: a job file with --cluster, or {_COMMANDS}"
        raise refused(Path(job_file), message)
    jobs = jobs_of(job_file, names)
    if cluster is None:
        message = "is missing; allowed: a cluster file"
        raise SpecError(Problem(file="profile", field="--cluster", message=message))
    found = measurable_jobs(jobs, job_file, cluster)
    if found.skipped:
        say(f"skipped, no app to measure: {found.skipped}")
    return found.run


def _measured(job: Job, profile: Profile, row: ProfileRow) -> dict[str, Any]:
    """Return a measured job for ``--json``."""
    times = {"comp_s": dict(row.comp_s), "sync_s": dict(row.sync_s)}
    sizes = {"model_bytes": row.model_bytes, "memory_bytes": row.memory_bytes}
    return {"job": job.name, "key": profile.key, **times, **sizes, "profile": asdict(profile)}


def _lines(job: Job, profile: Profile, row: ProfileRow) -> list[str]:
    """Return a measured job for people, a line a device type."""
    return [
        f"{job.name}  {kind}  comp {_time(row.comp_s[kind])}  sync {_time(row.sync_s.get(kind))}  "
        f"model {_size(row.model_bytes)}  memory {_size(row.memory_bytes)}  {profile.key[:12]}"
        for kind in row.comp_s
    ]


def _date(unix_s: float) -> str:
    """Return an instant as a date and a time of day, UTC."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(sep=" ", timespec="seconds")


def _time(seconds: float | None) -> str:
    """Return a time in seconds or milliseconds; ``-`` where it is not known."""
    if seconds is None:
        return "-"
    return f"{seconds:.3f} s" if seconds >= 1 else f"{1000 * seconds:.3f} ms"


def _size(size_bytes: int) -> str:
    """Return a size in MB or kB; ``-`` where it is not known."""
    if not size_bytes:
        return "-"
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.1f} kB"


_JOBS: Final = "examples/quickstart/jobs.yaml"
_CLUSTER: Final = "examples/quickstart/cluster.yaml"
_MEASURE: Final = "measure"


class _JobOrCommand(TyperGroup):
    """A group in which anything except the name of a command is an argument of ``measure``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``measure`` before a job file and its options."""
        # The library would take the name of the file for that of a command.
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [_MEASURE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="profile",
    cls=_JobOrCommand,
    help="Measure the cost of tasks, and manage the measurements.\n\n"
    "`warren profile JOB.yaml --cluster C.yaml` measures. The history database keeps the results, "
    "and live runs add to it.",
    epilog=examples(
        f"warren profile {_JOBS} --job diabetes --cluster {_CLUSTER}", "warren profile list"
    ),
    subcommand_metavar="JOB.yaml --cluster C.yaml | COMMAND",
    **GROUP,
)

Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="FILE", help="History database. Default: $WARREN_HISTORY, else your own."
    ),
]
Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="Key, the beginning of a key, or a job that `list` shows.",
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
@answers_alone()
def measure(
    job_file: Annotated[
        str, typer.Argument(metavar="JOB.yaml", help="Job file.", show_default=False)
    ],
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="C.yaml", help="Cluster file. Required.")
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option(
            "--job",
            metavar="NAME",
            help="Only this job of the file. Repeatable. Default: all jobs.",
        ),
    ] = None,
    tasks: Annotated[
        int,
        typer.Option("--tasks", metavar="N", min=1, max=1000, help="Number of tasks of each job."),
    ] = 3,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Measure a few tasks of each job.

    `warren profile JOB.yaml` is the same as `warren profile measure JOB.yaml`.
    Tasks with as many measurements are not measured again, if app, parameters, batch, numerics and
    machine are the same. A job without an app is skipped. A failed job gives exit code 1.
    Device types that this machine lacks need `emulate` in the cluster.
    """
    run = _run(job_file, cluster, job or [])
    found = measure_kept(run, job_file, db, tasks)
    jobs, profiles, rows = found.jobs, found.profiles, found.rows
    if json_:
        print_json([_measured(one, profiles[one.index], rows[one.name]) for one in jobs])
    elif jobs and run.cluster.emulate is not None:
        scale = run.cluster.emulate.time_scale
        say(f"times are cluster seconds: those of this machine's processor / {scale:g}")
    for one in [] if json_ else jobs:
        for line in _lines(one, profiles[one.index], rows[one.name]):
            answer(line)
    # The measured jobs are reported first: a job that fails costs the others nothing.
    if found.failed:
        complain(str(SpecError(found.failed)))
        raise typer.Exit(1)


@app.command("list", epilog=examples("warren profile list", "warren profile list --json"))
@answers_alone()
def list_(db: Db = None, json_: Json = False) -> None:
    """List all measurements, the latest first.

    Each line has the date, the machine and the load: the average number of busy processes in the
    minute before. Times measured beside busy programs are too long.
    """
    rows = latest_profiles(existing_database(db))
    if json_:
        print_json([asdict(row) for row in rows])
        return
    if not rows:
        say("nothing was measured yet")
        return
    # A key is a hash: its first 12 characters tell kinds of tasks apart, and ``show`` takes them.
    head = f"{'key':12}  {'type':6}  {'comp':>10}  {'sync':>10}  {'memory':>8}"
    answer(f"{head}  {'when (UTC)':16}  {'load':>5}  app, job; machine")
    for row in rows:
        # Of a kind that was never measured alone there are averages of live runs.
        comp_s, sync_s = row.comp_s or row.comp_avg_s, row.sync_s
        sync_s = row.sync_avg_s if row.comp_s is None else sync_s
        answer(
            f"{row.key[:12]}  {row.device_type:6}  {_time(comp_s):>10}  {_time(sync_s):>10}  "
            f"{_size(row.memory_bytes):>8}  {_date(row.updated_at)[:16]}  "
            f"{'-' if row.load is None else f'{row.load:.1f}':>5}  "
            f"{row.app}, {row.job}; {row.machine}"
        )


@app.command(epilog=examples("warren profile show 3f9a2c"))
@answers_alone()
def show(key: Key, db: Db = None, json_: Json = False) -> None:
    """Show the measurements under a key."""
    rows = profiles_under(existing_database(db), key)
    if json_:
        print_json([asdict(row) for row in rows])
        return
    # A kind of tasks may have been measured on several types of devices: a block each.
    for row in rows:
        for name, value in {**asdict(row), "updated_at": _date(row.updated_at)}.items():
            answer(f"{name:13}  {'-' if value is None else value}")


@app.command(epilog=examples("warren profile forget 3f9a2c"))
@answers_alone()
def forget(key: Key, db: Db = None, json_: Json = False) -> None:
    """Remove the measurements under a key."""
    gone = forget_profiles(existing_database(db), key)
    say(f"forgotten: {gone.key[:12]}, {gone.app}, {gone.job}")
    if json_:
        print_json({"forgotten": gone.key})


@app.command(
    epilog=examples(
        "warren profile export --out rows.yaml",
        f"warren profile export --cluster {_CLUSTER} --out rows.yaml",
        "warren profile export --jobs past.csv",
    )
)
@answers_alone()
def export(
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write to this file; it replaces an old one. Default: standard output.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="C.yaml",
            help="Only types of this cluster, with times in its cluster seconds.",
        ),
    ] = None,
    averages: Annotated[
        bool, typer.Option("--averages", help="Use averages of live runs before measured times.")
    ] = False,
    jobs: Annotated[
        str | None,
        typer.Option(
            "--jobs", metavar="FILE.csv", help="Write the finished jobs of live runs to this file."
        ),
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Print the measurements as rows for `profiles:` of a run.

    With --jobs, write the finished jobs of live runs as a jobs file, and their costs beside it as
    FILE.profiles.yaml.
    """
    path = existing_database(db)
    if jobs is not None:
        if out is not None or cluster is not None or averages:
            message = "writes jobs; leave out --out, --cluster and --averages"
            raise SpecError(Problem(file="--jobs", message=message))
        _export_jobs(path, Path(jobs), json_)
        return
    found = export_profiles(path, cluster, averages=averages)
    answer_yaml(found.text, out, json_, f", {count(found.rows, 'row')}")
    if found.spare:
        say(
            f"no job uses {'; '.join(found.spare)}: the app's file, the numerics or the machine "
            "was another, or it is another file of that name; named measured:NAME it prices job "
            "NAME"
        )
