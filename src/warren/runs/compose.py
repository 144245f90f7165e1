"""Putting the parts of one run together. Nothing else knows both worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from warren.core.journal_reader import read_history
from warren.core.loop import Core, Observer
from warren.core.state import State
from warren.model.costs import CostTable, ProfileRow
from warren.model.errors import JournalError, WarrenError
from warren.model.events import AnyEvent
from warren.model.past import Past
from warren.model.run import Run
from warren.report.record import LIVE, Record
from warren.runs.choose_policy import TimedPolicy, choose
from warren.runs.lower_bound import Solve, bound_ahead, lower_bound
from warren.runs.pinned_apps import text_files
from warren.runs.results import hash_of, input_files, result_files
from warren.store.files import DISK_ERRORS, refused, unwritable
from warren.store.run_folder import RunFolder
from warren.store.signals import held, raise_if_told

if TYPE_CHECKING:
    from warren.live.control.local_engine import LivePort
    from warren.live.control.plain_engine import PlainPort
    from warren.policy.protocol import AnyPolicy

SIMULATED: Final = "sim"
Attend = Callable[[Core], AbstractContextManager[Observer | None]]
"""Given the core, a context that watches every step (progress bar, live table)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run, apart from what to run."""

    compiled: bool = True
    check: bool = False
    attend: Attend | None = None
    ahead: bool = False
    """Whether the lower bound of a simulation may be computed beside it, by another process."""
    history: bool = True
    """Whether what measuring takes from the history database, and leaves there, may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    """What a run that was cut off left: its journal, and the costs it was scheduled with."""

    journal: bytes
    costs: CostTable


@dataclass(slots=True)
class _Memory:
    """A journal kept in memory, for runs that write no folder."""

    data: bytearray = field(default_factory=bytearray)

    def journal(self, data: bytes) -> None:
        self.data += data

    def journal_bytes(self) -> memoryview:
        return memoryview(self.data)


@dataclass(slots=True, kw_only=True)
class _Parts:
    """One run put together, before and while it goes."""

    run: Run
    costs: CostTable
    past: Past
    policy: TimedPolicy
    port: Any
    world: str
    journal: RunFolder | _Memory
    options: Options
    begin: float
    inputs: str = ""
    core: Core = field(init=False)

    def __post_init__(self) -> None:
        self.core = Core(
            run=self.run,
            costs=self.costs,
            past=self.past,
            policy=self.policy,  # type: ignore[arg-type]
            port=self.port,
            sink=self.journal.journal,
            world=self.world,
            inputs=self.inputs,
            check=self.options.check,
            compiled=self.options.compiled,
        )
        if self.world == LIVE and self.run.cluster.engine == "plain":
            self.core.copier = None  # jobs run whole, one after the other

    def execute(self) -> None:
        """From the first decision to the last event."""
        options = self.options
        attend = options.attend(self.core) if options.attend else nullcontext(None)
        with attend as observe:
            self.core.observe = _attentive(observe)
            self.core.execute()

    def record(self, solve: Solve | None = None) -> Record:
        """What the journal tells so far."""
        history = read_history(self.journal.journal_bytes())
        extra = {"decide_s": self.policy.decide_s, "wall_s": perf_counter() - self.begin}
        measured = getattr(self.port, "measured", None)
        if measured is not None:
            extra |= measured()
        bound = lower_bound(self.run, self.costs, history, solve)
        return Record(run=self.run, history=history, costs=self.costs, extra=extra, bound=bound)


def simulate(run: Run, out: RunFolder | None = None, options: Options | None = None) -> Record:
    """Run in virtual time and return the record; ``out``, when given, is kept once it is whole."""
    from warren.profile.cost_table import cost_table, past_of
    from warren.sim.build import sim_port, simulated_costs

    begin, options = perf_counter(), options or Options()
    costs = simulated_costs(run, cost_table(run, _measured(run, options)))
    policy = TimedPolicy(choose(run))
    parts = _Parts(
        run=run,
        costs=costs,
        past=past_of(run),
        policy=policy,
        port=sim_port(run, costs),
        world=SIMULATED,
        journal=out or _Memory(),
        options=options,
        begin=begin,
    )
    if policy.offline:  # a plan needs it; now, so that the other process has it too
        import_module("warren.solve.common.compile")
    with bound_ahead(run, costs, SIMULATED) if parts.options.ahead else nullcontext(None) as solve:
        parts.execute()
        record = parts.record(solve)
    if out is not None:
        out.write(result_files(record))
        out.whole = True
        out.keep()
    return record


def run_live(
    run: Run, out: RunFolder, options: Options | None = None, cut_off: CutOff | None = None
) -> Record:
    """Train for real and return the record; with ``cut_off``, go on from there.

    However it ends once it has begun, no process stays, and ``out`` is kept with its journal and
    the tables of what ran.

    Raises
    ------
    SpecError
        If what the run needs is wrong or missing, or a file cannot be written.
    InfeasibleDecision
        If the policy breaks a rule, or decides otherwise than it did.
    """
    from warren.cost.run_rings import with_rings
    from warren.profile.cost_table import cost_table, past_of

    begin, options = perf_counter(), options or Options()
    costs = cost_table(run, _live_rows(run, options)) if cut_off is None else cut_off.costs
    costs, policy = with_rings(run, costs), TimedPolicy(_live_policy(run))
    port = _live_port(run, costs, out)
    inputs = input_files(run, costs)
    parts = _Parts(
        run=run,
        costs=costs,
        past=past_of(run),
        policy=policy,
        port=port,
        world=LIVE,
        journal=out,
        options=options,
        begin=begin,
        inputs=hash_of(inputs),
    )
    size = None if cut_off is None else _catch_up(parts, cut_off, out)
    if not parts.core.begun:
        parts.core.ask_first()
    try:
        _train(parts, port, out, inputs, size)
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


def _catch_up(parts: _Parts, cut_off: CutOff, out: RunFolder) -> int:
    """Lead the core and the port to where the journal ends; gives the bytes of it that stay."""
    from warren.core.resume import catch_up

    try:
        restart, size = catch_up(parts.core, cut_off.journal)
    except JournalError as error:
        raise refused(out.path / "journal", str(error)) from None
    parts.port.resume(restart)
    return size


def _live_port(run: Run, costs: CostTable, out: RunFolder) -> LivePort | PlainPort:
    from warren.live.control.local_engine import LivePort
    from warren.live.control.plain_engine import PlainPort

    if run.cluster.engine == "plain":
        return PlainPort(run, out.path)
    return LivePort(run, costs, out.path)


def _train(
    parts: _Parts,
    port: LivePort | PlainPort,
    out: RunFolder,
    inputs: Mapping[str, bytes | str],
    size: int | None,
) -> None:
    """Bring everything up, run, and end everything, whatever happened."""

    def close() -> None:
        with held():
            port.close()

    with ExitStack() as stack:
        stack.callback(close)
        if size is None:
            out.write(inputs)
        port.start()
        parts.core.numerics = port.numerics
        if size is not None:
            out.cut(size)
        out.write(text_files(parts.run, out.path))
        out.keep()
        parts.execute()


def _export_what_ran(parts: _Parts, out: RunFolder) -> None:
    """The tables of an unfinished run; the error that ended it matters more than one in here."""
    try:
        out.write(result_files(parts.record()))
        out.whole = True
    except (WarrenError, OSError):
        return


def _live_policy(run: Run) -> AnyPolicy:
    if run.cluster.engine == "plain":
        from warren.policy.registry import place_policy

        return place_policy("plain")
    return choose(run)


def _live_rows(run: Run, options: Options) -> Mapping[str, ProfileRow]:
    if run.cluster.engine == "plain":
        from warren.runs.measure_profiles import placeholder_rows

        return placeholder_rows(run)
    return _measured(run, options, live=True)


def _measured(run: Run, options: Options, *, live: bool = False) -> Mapping[str, ProfileRow]:
    from warren.profile.cost_table import missing

    if not missing(run):
        return {}
    from warren.runs.measure_profiles import measured_rows

    return measured_rows(run, history=options.history, live=live)


def _attentive(observe: Observer | None) -> Observer:
    """The observer, which also notices a signal whose exception was lost on its way."""
    if observe is None:
        return lambda _state, _events: raise_if_told()

    def both(state: State, events: tuple[AnyEvent, ...]) -> None:
        raise_if_told()
        observe(state, events)

    return both
