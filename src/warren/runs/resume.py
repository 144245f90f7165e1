"""Going on with a run that was cut off, from its folder."""

from __future__ import annotations

from pathlib import Path

from warren.core.journal import Step
from warren.core.journal_reader import History, decode, is_empty
from warren.live.extras import need
from warren.model.errors import JournalError
from warren.model.run import Run
from warren.model.units import ns_to_seconds
from warren.report.record import LIVE, Record
from warren.runs.check_apps import check_apps
from warren.runs.compose import Options, PreparedRun
from warren.runs.history_writer import remembered
from warren.runs.inputs import named_after
from warren.runs.notices import say
from warren.runs.pinned_apps import (
    PINNED,
    check_choice,
    kept_apps,
    unfinished,
    with_kept_apps,
)
from warren.runs.results import (
    load_costs,
    load_folders_run,
    load_history,
    load_record,
    result_files,
)
from warren.runs.train import OnError, Watch, run_live
from warren.store.files import read_dir, refused
from warren.store.run_folder import ReopenedFolder


def resume(
    path: str,
    *,
    check: bool = False,
    watch: Watch | None = None,
    remember: bool = True,
    app: str = PINNED,
    share: bool = False,
    on_error: OnError | None = None,
) -> Record:
    """Go on with the run in a folder, from where it was cut off.

    Parameters
    ----------
    check
        Whether the core's invariants are checked after every step.
    watch
        A person's view of the run.
    remember
        Whether ended jobs go into the history database.
    app
        ``pinned``, with the texts of apps that the run has, or ``new``, with those on disk.
    share
        Whether it uses devices that another run on this machine holds.
    on_error
        Called with the folder, open no more, when the run is cut off.

    Raises
    ------
    SpecError
        If it is not the folder of a live run, or its files do not belong together.
    """
    check_choice(app)
    folder = ReopenedFolder(path)
    try:
        with folder:
            return _resume(path, folder, check, watch, remember, app, share)
    except BaseException as error:
        if on_error is not None:
            on_error(folder, error)
        raise


def _resume(
    path: str,
    folder: ReopenedFolder,
    check: bool,
    watch: Watch | None,
    remember: bool,
    app: str,
    share: bool,
) -> Record:
    """Go on with the run of an open folder."""
    from warren.live.emulated_times import check_jitter
    from warren.live.process.device_claims import devices_held

    files = read_dir(path)
    run = load_folders_run(path, files)
    history = _history(path, files["journal"], run)
    costs = load_costs(path, files, run)
    if history is not None and _is_over(history):
        say(f"{path}: every job has ended; nothing is left to run")
        # It may have been cut off between its last event and its tables, or the history.
        record = load_record(path, files)
        _set_aside(folder)
        folder.write(result_files(record))
        folder.keep()
        run = kept_apps(path, run, history)
        with remembered(run, folder, wanted=remember):
            return record
    need("live")
    if watch:
        _say_where(path, history, files["journal"])
    with named_after(f"{path}/run.yaml", run), devices_held(run, path, share=share):
        run = with_kept_apps(path, run, history, app)
        run = check_apps(run, unfinished(run, history))
        check_jitter(run)
        done = () if history is None else history.rounds
        attend = watch(run, path, done) if watch else None
        prepared = PreparedRun(run=run, world=LIVE, history=remember, recorded=costs)
        _set_aside(folder)
        if history is not None:
            _restore_metrics(path, run, history)
        with remembered(run, folder, wanted=remember):
            return run_live(prepared, folder, Options(check=check, attend=attend), files["journal"])


def _history(path: str, journal: bytes, run: Run) -> History | None:
    """Return the history in the journal; None if it was cut off within its header."""
    file = Path(path) / "journal"
    try:
        if is_empty(journal):
            return None
    except JournalError as error:
        raise refused(file, str(error)) from None
    history = load_history(path, journal, run)
    if history.header.world != LIVE:
        raise refused(file, "is of a simulation; only a run of `warren run` can go on")
    return history


def _set_aside(folder: ReopenedFolder) -> None:
    """Rename files in the way of the run's own, and report it."""
    for old, new in folder.set_aside().items():
        say(f"{old} is not what a run puts there; it is called {new.name} now")


def _restore_metrics(path: str, run: Run, history: History) -> None:
    """Write the metrics of jobs that go on again, as far as the journal tells of their rounds."""
    from warren.live.control.run_files import RunFiles

    outputs = RunFiles(Path(path), run.workload.jobs)
    for job in run.workload.jobs:
        if history.status(job.index) == "unfinished":
            outputs.restore_metrics(job.index, history.rounds)


def _is_over(history: History) -> bool:
    """Tell whether every job of the run has ended."""
    count = len(history.finish_ns_J)
    return all(history.status(job) != "unfinished" for job in range(count))


def _say_where(path: str, history: History | None, journal: bytes) -> None:
    """Say from which time on the run goes on, and the number of jobs that have ended."""
    steps = [] if history is None else [one for one in decode(journal) if isinstance(one, Step)]
    times_ns = [event.time_ns for step in steps for event in step.events]
    if history is None or not times_ns:
        say(f"{path}: nothing had run yet, starting at 0 s")
        return
    jobs = len(history.finish_ns_J)
    ended = sum(history.status(job) != "unfinished" for job in range(jobs))
    last_s = ns_to_seconds(max(times_ns))
    say(f"{path}: going on at {last_s:.1f} s, {ended} of {jobs} jobs have ended")
