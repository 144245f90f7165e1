"""Training a run for real: the engine is started, the run goes, and all of its processes end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Final

from warren.live.extras import need
from warren.model.costs import CostTable
from warren.model.errors import JournalError, WarrenError
from warren.model.events import RoundsDone
from warren.model.job import Workload
from warren.model.run import Run
from warren.report.record import Record
from warren.runs.choose_policy import TimedPolicies
from warren.runs.compose import Attend, Options, PreparedRun, RunParts, simulate
from warren.runs.inputs import named_after
from warren.runs.notices import COMPILING, say
from warren.runs.pinned_apps import text_files
from warren.runs.results import hash_of, input_files, result_files
from warren.runs.user_policies.from_python import is_users
from warren.store.files import DISK_ERRORS, refused, unwritable
from warren.store.run_folder import RunFolder
from warren.store.signals import held

if TYPE_CHECKING:
    from warren.live.control.local_engine import LivePort
    from warren.live.control.plain_engine import PlainPort

_REHEARSED_JOBS: Final = 8
_REHEARSED_ROUNDS: Final = 2
Watch = Callable[[Run, str, Sequence[RoundsDone]], Attend]
"""Given a live run, its folder and the rounds done before it was cut off: watches each step."""
OnError = Callable[[RunFolder, BaseException], None]
"""Called with the folder of a live run and the error that ended it, to report to a person."""


def train(
    prepared: PreparedRun,
    folder: RunFolder,
    *,
    file: str | None = None,
    check: bool = False,
    share: bool = False,
    watch: Watch | None = None,
    on_error: OnError | None = None,
) -> Record:
    """Check a run, train it for real into a new folder, and remember what ended in the history.

    Parameters
    ----------
    folder
        The folder, which may be an empty one, not entered; a durable one.
    file
        The run file that problems of the run name; None: they name the run.
    check
        Whether the core's invariants are checked after every step.
    share
        Whether it uses devices that another run on this machine holds.
    watch
        A person's view of the run.
    on_error
        Called with the folder, open no more, when the run is cut off.

    Raises
    ------
    SpecError
        If an input is wrong or missing, PyTorch is not installed, or a file cannot be written.
    InfeasibleDecision
        If the policy breaks a rule.
    """
    from warren.live.process.device_claims import devices_held
    from warren.live.process.host_placement import placement_of
    from warren.runs.history_writer import remembered

    with ExitStack() as held:
        with named_after(file, prepared.run):
            need("live")
            # Before anything is measured, and to the end.
            held.enter_context(devices_held(prepared.run, str(folder.path), share=share))
            prepared = prepared.trainable()
            if prepared.run.cluster.ray is not None:
                need("ray")
            if not prepared.is_plain:
                prepared.check()
                if prepared.run.cluster.local.testbed is not None:
                    placement_of(prepared.run.cluster)  # is it up: asked before jobs are measured
        run = prepared.run
        try:
            with (
                named_after(file, run),
                folder,
                remembered(run, folder, wanted=prepared.history),
            ):
                attend = watch(run, str(folder.path), ()) if watch else None
                return run_live(prepared, folder, Options(check=check, attend=attend))
        except BaseException as error:
            if on_error is not None:
                on_error(folder, error)
            raise


def run_live(
    prepared: PreparedRun,
    out: RunFolder,
    options: Options | None = None,
    journal: bytes | None = None,
) -> Record:
    """Train for real and return the record; with the ``journal`` of a run cut off, go on from it.

    However it ends once it has begun, no process stays, and ``out`` is kept with its journal and
    the tables of the stretches that ran.

    Raises
    ------
    SpecError
        If an input is wrong or missing, or a file cannot be written.
    InfeasibleDecision
        If the policy breaks a rule, or decides differently than before.
    """
    from warren.live.process.device_claims import claimed_by_others

    begin, options = perf_counter(), options or Options()
    COMPILING.watch()
    run, costs = prepared.run, prepared.costs
    # Emulated devices are not claimed: they are many on few processors.
    if run.cluster.live_emulate is not None and (whose := claimed_by_others()):
        say(f"processors are taken: {whose}; emulated times may not be kept")
    policies = TimedPolicies(prepared.policies)
    port = _live_port(run, costs, out)
    # Their hash stands in the journal, by which a run that goes on knows that they are the same.
    inputs = input_files(run, costs)
    parts = RunParts(
        prepared=prepared,
        policies=policies,
        port=port,
        journal=out,
        options=options,
        begin=begin,
        inputs=hash_of(inputs),
    )
    # The policy is asked again about all that happened, before any process starts.
    size = None if journal is None else _catch_up(parts, journal, out)
    # A run that its policy refuses starts no process and leaves no folder.
    if not parts.core.begun:
        parts.core.ask_first()
    _rehearse(prepared)
    try:
        _train(parts, port, out, inputs, size)
    # Also Ctrl-C, which is no Exception, leaves the tables of the stretches that ran.
    except BaseException as error:
        if out.kept:
            with held():
                _export_what_ran(parts, out)
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            raise unwritable(out.path, error) from None
        raise
    with held():
        record = parts.record()
        out.write(result_files(record))
        out.whole = True
    return record


def _rehearse(prepared: PreparedRun) -> None:
    """Let the policy decide over a few rounds in virtual time, before the clock of a run starts.

    Its libraries are then loaded, or compiled if that was never done, which takes many seconds: in
    the run itself devices would wait for that.
    """
    run, policy = prepared.run, prepared.policies.place
    scheduler = run.scheduler
    named = (scheduler.place, scheduler.flow, scheduler.group, scheduler.shape)
    # A plan was made already; and policies of users are called only for real events.
    own = any(map(is_users, (*named, scheduler.joint or "")))
    if prepared.is_plain or policy.offline or own:
        return
    few = run.workload.jobs[:_REHEARSED_JOBS]
    jobs = tuple(
        replace(job, rounds=min(job.rounds or _REHEARSED_ROUNDS, _REHEARSED_ROUNDS), stop=None)
        for job in few
    )
    rehearsed = PreparedRun(
        run=replace(run, workload=Workload(jobs=jobs)), recorded=prepared.costs.first(len(jobs))
    )
    # Policies keep their knowledge in memories of a run; so these objects may serve two runs.
    vars(rehearsed).update(named_policies=prepared.named_policies, past=prepared.past)
    # An error here returns in the run, or does not matter to a live run.
    with suppress(WarrenError):
        simulate(rehearsed)


def _catch_up(parts: RunParts, journal: bytes, out: RunFolder) -> int:
    """Lead the core and the port to the journal's end; return the number of its bytes that stay."""
    from warren.core.resume import catch_up

    try:
        restart, size = catch_up(parts.core, journal)
    except JournalError as error:
        raise refused(out.path / "journal", str(error)) from None
    parts.port.resume(restart)
    return size


def _live_port(run: Run, costs: CostTable, out: RunFolder) -> LivePort | PlainPort:
    from warren.live.control.local_engine import LivePort
    from warren.live.control.plain_engine import PlainPort

    if run.cluster.is_scheduled:
        return LivePort(run, costs, out.path)
    return PlainPort(run, out.path)


def _train(
    parts: RunParts,
    port: LivePort | PlainPort,
    out: RunFolder,
    inputs: Mapping[str, bytes | str],
    size: int | None,
) -> None:
    """Start the engine, run, and end all its processes, whatever happened.

    ``size``: bytes of the journal that stay, for a run that goes on; None: it is new.
    """

    def close() -> None:
        """End all processes; a second Ctrl-C does not stop that half-way."""
        with held():
            port.close()

    with ExitStack() as stack:
        stack.callback(close)
        # Before any process starts: a run that is cut off early can be read, and go on.
        if size is None:
            out.write(inputs)
        port.start()
        parts.core.numerics = port.numerics
        # Only now: until the engine has come up, a failed attempt leaves the journal as it was.
        if size is not None:
            out.cut(size)
        out.write(text_files(parts.prepared.run, out.path))
        out.keep()
        parts.execute()


def _export_what_ran(parts: RunParts, out: RunFolder) -> None:
    """Write the tables of an unfinished run, if they can be made.

    The error that ended the run matters more than one in here.
    """
    try:
        out.write(result_files(parts.record()))
        out.whole = True
    except (WarrenError, OSError):
        return
