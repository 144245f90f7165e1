"""``warren simulate`` and ``warren run``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated, Any, Final

import typer

from warren.cli.options import Json, Set, Since, examples, one_command, service_record
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.progress import simulation_view
from warren.cli.views.yaml_answer import answer_yaml
from warren.model.errors import Problem, SpecError
from warren.model.events import RoundsDone
from warren.model.run import Run
from warren.report.number_text import count
from warren.report.record import LIVE, Record
from warren.runs.check_apps import absent_note
from warren.runs.compose import Attend, Options, PreparedRun
from warren.runs.compose import simulate as simulate_run
from warren.runs.inputs import named_after, run_of
from warren.store.run_folder import ReopenedFolder, RunFolder, default_dir

_RUN: Final = "examples/quickstart/run.yaml"
app: Final = one_command()
simulate_app: Final = one_command()


RunFile = Annotated[str, typer.Argument(metavar="RUN.yaml", help="Run file.", show_default=False)]
RunOrService = Annotated[
    str,
    typer.Argument(
        metavar="RUN.yaml|SERVICE",
        help="Run file, or the home of a service (or its queue.db).",
        show_default=False,
    ),
]
Place = Annotated[
    str | None,
    typer.Option(
        "--place",
        metavar="NAME",
        help=(
            "Place policy: a name from `warren policies`, or FILE.py:Class. Default: the "
            "run file's."
        ),
    ),
]
Flow = Annotated[
    str | None, typer.Option("--flow", metavar="NAME", help="Flow policy. Default: the run file's.")
]
Group = Annotated[
    str | None,
    typer.Option("--group", metavar="NAME", help="Group policy. Default: the run file's."),
]
Shape = Annotated[
    str | None,
    typer.Option("--shape", metavar="NAME", help="Shape policy. Default: the run file's."),
]
Joint = Annotated[
    str | None,
    typer.Option(
        "--joint", metavar="NAME", help="Joint policy, which answers several of these questions."
    ),
]
Resume = Annotated[
    str | None,
    typer.Option("--resume", metavar="DIR", help="Continue the run in this folder."),
]
Apps = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="pinned|new",
        help=(
            "With --resume: use the run's own copy of the apps (pinned), or the files on "
            "disk (new). Default: pinned."
        ),
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Check all input and print the resolved run file. Run nothing."),
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Seed of the run, as `--set seed=N`.")
]
Check = Annotated[
    bool, typer.Option("--check", help="Check the invariants of the core after every step.")
]
Share = Annotated[
    bool,
    typer.Option("--share", help="Also use devices that another run on this machine has claimed."),
]
NoHistory = Annotated[
    bool, typer.Option("--no-history", help="Neither read nor write the history database.")
]


@simulate_app.command(
    epilog=examples(
        f"warren simulate {_RUN}",
        f"warren simulate {_RUN} --place srtf --out sim-srtf",
        f"warren simulate {_RUN} --set cluster.network.model=lane --json",
        "warren simulate ~/.warren/serve --place gavel-fifo --since 7d",
    )
)
@answers_alone()
def simulate(
    run_file: RunOrService,
    place: Place = None,
    flow: Flow = None,
    group: Group = None,
    shape: Shape = None,
    joint: Joint = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="New folder for the results. Default: none."
        ),
    ] = None,
    seed: Seed = None,
    since: Since = None,
    set_: Set = None,
    dry_run: DryRun = False,
    events: Annotated[
        bool, typer.Option("--events", help="Simulate event by event, without compiled code.")
    ] = False,
    check: Check = False,
    json_: Json = False,
) -> None:
    """Predict a run in virtual time.

    For a service, play what it recorded under another policy, and show both side by side.
    """
    others = {"flow": flow, "group": group, "shape": shape, "joint": joint}
    service = service_record(run_file, since)
    if service is None:
        run = run_of(run_file, place, _overrides(set_, seed), others=others)
    elif place is None and joint is None:
        message = "is missing: name the policy to play the service under; `warren policies`"
        raise SpecError(Problem(file="simulate", field="--place", message=message))
    else:
        from warren.runs.comparison.observed import replayed

        run = replayed(service.record.run, place, _overrides(set_, seed), others)
    prepared = PreparedRun(run=run)
    _say_size(prepared, events=events)
    if dry_run:
        with named_after(run_file, run):
            _show_resolved(prepared, out, json_)
        return
    # ``ahead``: nothing else goes on here, so another process may compute the lower bound now.
    options = Options(compiled=not events, check=check, attend=simulation_view, ahead=True)
    with named_after(run_file, run), RunFolder(out) if out else nullcontext(None) as folder:
        record = simulate_run(prepared, folder, options)
    if service is not None:
        _show_beside(service.record, record, run_file, out, json_)
        return
    finish(record, out, json_, absent_note(run))


def _show_beside(recorded: Record, record: Record, path: str, out: str | None, json_: bool) -> None:
    """Print what a service did beside a simulation of it."""
    # Imported here: most simulations are of run files.
    from warren.cli.views.replay_text import replay_lines
    from warren.report.metrics import summary
    from warren.runs.comparison.compared import ComparedRun, Comparison
    from warren.runs.comparison.users_compared import user_rows

    if json_:
        users = user_rows([recorded, record])
        print_json({**summary(record), "service": summary(recorded), "beside": users})
    else:
        runs = (ComparedRun(record=recorded, folder=path), ComparedRun(record=record, folder=None))
        for line in replay_lines(Comparison(runs=runs)):
            answer(line)
    if out:
        say(f"report: {out}/report.html")


@app.command(
    epilog=examples(
        f"warren run {_RUN} --out live-hare",
        f"warren run {_RUN} --place srtf --set cluster.emulate.time_scale=0.1 --out live-srtf",
        "warren run --resume live-hare",
    )
)
@answers_alone()
def run(
    run_file: Annotated[
        str | None, typer.Argument(metavar="RUN.yaml", help="Run file.", show_default=False)
    ] = None,
    place: Place = None,
    flow: Flow = None,
    group: Group = None,
    shape: Shape = None,
    joint: Joint = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="New folder for the results. Default: out/NAME-PLACE.",
        ),
    ] = None,
    seed: Seed = None,
    set_: Set = None,
    resume: Resume = None,
    app_: Apps = None,
    dry_run: DryRun = False,
    check: Check = False,
    share: Share = False,
    no_history: NoHistory = False,
    json_: Json = False,
) -> None:
    """Train for real under a scheduler.

    Ctrl-C stops the run. No process stays, and DIR holds the journal and the tables so far.
    --resume DIR continues a stopped or killed run, each job from its checkpoint.
    """
    others = {"flow": flow, "group": group, "shape": shape, "joint": joint}
    # A run that goes on is the one of its folder, whatever else is typed.
    if resume is not None:
        given: dict[str, Any] = {"RUN.yaml": run_file, "--place": place}
        given |= {f"--{one}": name for one, name in others.items()}
        given |= {"--out": out, "--seed": seed is not None, "--set": set_, "--dry-run": dry_run}
        _go_on(resume, given, check, json_, not no_history, app_ or "pinned", share)
        return
    if app_ is not None:
        raise SpecError(Problem(file="run", field="--app", message="goes with --resume DIR"))
    if run_file is None:
        message = "RUN.yaml is missing; allowed: RUN.yaml, or --resume DIR"
        raise SpecError(Problem(file="run", message=message))
    run = run_of(run_file, place, _overrides(set_, seed), history=not no_history, others=others)
    prepared = PreparedRun(run=run, world=LIVE, history=not no_history)
    _say_size(prepared, events=True)
    if dry_run:
        with named_after(run_file, run):
            _show_resolved(prepared.trainable(), out, json_)
            _say_what_ray_is_asked(run)
        return
    # Durable: a run that is killed loses no record, and can go on.
    folder = RunFolder(out or default_dir(run), durable=True, numbered=not out)
    # Imported here: the same file has the command that simulates.
    from warren.runs.train import train

    watched: Any = {"watch": _watch_start, "on_error": say_what_is_left}
    record = train(prepared, folder, file=run_file, check=check, share=share, **watched)
    finish(record, str(folder.path), json_)


def _overrides(set_: Sequence[str] | None, seed: int | None) -> list[str]:
    """Return the options' changes to the run file."""
    return [*(set_ or ()), *(() if seed is None else (f"seed={seed}",))]


def _watch_start(run: Run, path: str, past: Sequence[RoundsDone]) -> Attend:
    """Say that a live run begins, and return the function that then shows its progress."""
    from warren.cli.views.live_view import live_view

    _say_start(run)
    return live_view(run, path, past)


def _go_on(
    path: str,
    given: Mapping[str, Any],
    check: bool,
    json_: bool,
    history: bool,
    app: str,
    share: bool,
) -> None:
    """Go on with the run of a folder.

    ``given``: arguments that do not go with it, by name; any of them that was typed is refused.
    """
    from warren.cli.views.live_view import live_view
    from warren.runs.resume import resume

    wrong = [name for name, value in given.items() if value]
    if wrong:
        message = f"takes the run, its policy and its folder from DIR; leave out {', '.join(wrong)}"
        raise SpecError(Problem(file="--resume", message=message))
    record = resume(
        path,
        check=check,
        watch=live_view,
        remember=history,
        app=app,
        share=share,
        on_error=say_what_is_left,
    )
    finish(record, path, json_)


def _say_size(prepared: PreparedRun, *, events: bool = False) -> None:
    """Say of a run of very many stretches how many there are, and which grain has fewer."""
    from warren.runs.grain_advice import MANY_BY_EVENTS, size_note

    if prepared.run.stated_tasks <= MANY_BY_EVENTS:
        return
    if note := size_note(prepared, events=events):
        say(note)


def _say_start(run: Run) -> None:
    """Say at once that a run begins: its plan, and the libraries of devices, may take long."""
    jobs, devices = count(len(run.workload.jobs), "job"), count(len(run.cluster.devices), "device")
    say(f"{run.name}: planning {jobs}, starting {devices}")


def say_what_is_left(folder: RunFolder, error: BaseException) -> None:
    """Say after a live run that was cut off what is in its folder, and how it can go on."""
    path, going_on = folder.path, isinstance(folder, ReopenedFolder)
    way = f"`warren run --resume {shlex.quote(str(path))}` goes on"
    # Three ends: its tables were written too, its journal alone, or nothing had begun.
    if folder.whole:
        say(f"cut off; the journal and the tables of what ran are in {path}; {way}")
    elif folder.kept:
        say(f"cut off; the journal of what ran is in {path}; {way}, `warren report` makes the rest")
    elif isinstance(error, KeyboardInterrupt):
        left = "nothing was changed" if going_on else "no folder was made"
        say(f"stopped before anything ran; {left}")


def _show_resolved(prepared: PreparedRun, out: str | None, json_: bool) -> None:
    """Check all that a run needs, then print it as its folder would hold it."""
    # Imported here, since only a dry run needs it.
    from warren.runs.studies.dry_run import resolved_text

    answer_yaml(resolved_text(prepared, out), None, json_)


def _say_what_ray_is_asked(run: Run) -> None:
    """Say what a live run would ask of Ray, if it asks anything."""
    from warren.runs.studies.dry_run import asked_of_ray

    if asked := asked_of_ray(run.cluster):
        say(asked)


def finish(record: Record, out: str | None, json_: bool, note: str = "") -> None:
    """Print the summary and a note, if there is one; exit code 1 if a job did not finish."""
    from warren.cli.views.summary_text import summary_lines
    from warren.report.metrics import summary
    from warren.report.overruns import needed_time_scale
    from warren.runs.grain_advice import MANY_SINGLE, fine_note

    values = summary(record)
    if json_:
        print_json(values)
    else:
        scale = needed_time_scale(record) if values["overruns"] else None
        for line in summary_lines(values, _notes(record.run), scale):
            answer(line)
    if note:
        say(note)
    many = len(record.history.timeline.job_R) >= MANY_SINGLE
    if many and (grain := fine_note(record)):
        say(grain)
    if out:
        say(f"report: {out}/report.html")
    failed = _not_finished(values)
    if failed:
        say(f"{failed} of {values['jobs']} jobs did not finish; see {out or 'the summary'}")
        raise typer.Exit(1)


def _notes(run: Run) -> tuple[str, ...]:
    """Return the readers' remarks on the jobs, and on those of the history."""
    past = () if run.history is None else run.history.notes
    return (*run.workload.notes, *(f"history: {note}" for note in past))


def _not_finished(values: dict[str, Any]) -> int:
    """Return the number of jobs of a summary that failed, were cancelled or were not done."""
    return int(values["jobs"]) - int(values["finished"])
