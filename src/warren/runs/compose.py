"""Putting the parts of one run together, and simulating it; ``train`` has the live part.

``PreparedRun`` resolves the inputs of a run's schedule, in both worlds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from warren.core.journal_reader import read_history
from warren.core.loop import Core, Observer
from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.events import AnyEvent
from warren.model.past import Past
from warren.model.run import Run
from warren.policy.protocol import measures_costs
from warren.report.record import LIVE, Record
from warren.runs.bound_of_run import Solve, bound_ahead, lower_bound
from warren.runs.choose_policy import ChosenPolicies, TimedPolicies, check_carried, choose_all
from warren.runs.notices import COMPILING
from warren.runs.results import result_files
from warren.store.run_folder import RunFolder
from warren.store.signals import raise_if_told

if TYPE_CHECKING:
    from warren.policy.protocol import AnyPolicy

SIMULATED: Final = "sim"
Attend = Callable[[Core], AbstractContextManager[Observer | None]]
"""Given the core, a context that watches every step (progress bar, live table)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run, apart from the run itself.

    ``compiled``: whether a plan may run in compiled code. ``check``: whether the core's invariants
    are checked after every step. ``attend``: an observer of the steps.
    """

    compiled: bool = True
    check: bool = False
    attend: Attend | None = None
    ahead: bool = False
    """Whether the lower bound of a simulation may be computed beside it, by another process."""


@dataclass(frozen=True, kw_only=True)
class PreparedRun:
    """A run with the policies, the past and the costs it is scheduled by, each resolved once.

    Each is resolved when it is first asked for, so that nothing is measured for a run that is only
    checked, and kept for all that asks again: notes on the run's size, checks, and the run itself.

    ``world``: ``LIVE`` or ``SIMULATED``. ``history``: whether measuring may use the history
    database. ``recorded``: the costs that a run which goes on was scheduled with when it began.
    """

    run: Run
    world: str = SIMULATED
    history: bool = True
    recorded: CostTable | None = None

    @property
    def is_plain(self) -> bool:
        """Tell whether the plain engine trains the run: it ignores the run's policy and costs."""
        return self.world == LIVE and not self.run.cluster.is_scheduled

    @cached_property
    def named_policies(self) -> ChosenPolicies:
        """The policies that the run file names, checked against the run's jobs.

        Raises
        ------
        SpecError
            As ``choose_all`` and ``check_carried`` do.
        """
        policies = choose_all(self.run)
        check_carried(self.run, policies, live=self.world == LIVE)
        return policies

    @property
    def named_policy(self) -> AnyPolicy:
        """The policy that the run file names to place tasks; raises as ``named_policies``."""
        return self.named_policies.place

    @property
    def policies(self) -> ChosenPolicies:
        """The policies that decide in this world."""
        if not self.is_plain:
            return self.named_policies
        from warren.policy.registry import place_policy

        return ChosenPolicies(place=place_policy("plain"))

    @cached_property
    def past(self) -> Past:
        """The jobs of the run's history, priced.

        Raises
        ------
        SpecError
            As ``past_of`` does.
        """
        from warren.profile.cost_table import past_of

        return past_of(self.run)

    @cached_property
    def stated_costs(self) -> CostTable | None:
        """T^c and T^s by profile rows alone; None if a job has none and must be measured.

        Raises
        ------
        SpecError
            As ``cost_table`` does.
        """
        from warren.profile.cost_table import cost_table, missing

        return None if missing(self.run) else cost_table(self.run)

    @cached_property
    def costs(self) -> CostTable:
        """The costs for the schedule: with measured rows, rings and charged switching.

        Raises
        ------
        SpecError
            As ``cost_table`` does, or if a job fails while it is measured for a simulation.
        """
        if self.world == LIVE:
            from warren.cost.run_rings import with_rings
            from warren.cost.run_servers import with_servers
            from warren.live.emulated_times import on_links

            costs = with_rings(self.run, self._costs_of_tasks())
            # As in a simulation: real bytes on known links take the place of T^s.
            return with_servers(self.run, costs) if on_links(self.run.cluster) else costs
        from warren.sim.build import simulated_costs

        return simulated_costs(self.run, self._costs_of_tasks())

    @property
    def _is_measured_by_policy(self) -> bool:
        """Tell whether the run needs no costs ahead: copies of late tasks do, to know what is late.

        A live run's own tasks take what they take.
        """
        return measures_costs(self.named_policy) and self.run.scheduler.copies_after is None

    def _costs_of_tasks(self) -> CostTable:
        """Costs before rings and switching; jobs without a profile row are measured for them.

        Not where no policy asks for them.
        """
        if self.recorded is not None:
            return self.recorded
        if self.stated_costs is not None:
            return self.stated_costs
        from warren.profile.cost_table import cost_table
        from warren.runs.profiles.measured_rows import measured_rows, placeholder_rows

        live = self.world == LIVE
        if self.is_plain or (live and self._is_measured_by_policy):
            return cost_table(self.run, placeholder_rows(self.run))
        return cost_table(self.run, measured_rows(self.run, history=self.history, live=live))

    def check_policy(self) -> AnyPolicy:
        """Refuse a wrong policy, whatever the costs are.

        Raises
        ------
        SpecError
            As ``named_policy`` does.
        """
        return self.named_policy

    def check(self) -> tuple[AnyPolicy, Past, CostTable | None]:
        """Refuse a policy or costs that are wrong, before anything is said, measured or made.

        Raises
        ------
        SpecError
            As the three properties do that are returned.
        """
        return self.named_policy, self.past, self.stated_costs

    def trainable(self) -> PreparedRun:
        """Return the same for the run with the texts of its apps, if it can be trained here.

        Raises
        ------
        SpecError
            If an app, the measured jitter or a device type is wrong or missing.
        """
        from warren.live.emulated_times import check_jitter
        from warren.runs.check_apps import check_apps
        from warren.runs.machine import check_device_types

        run = check_apps(self.run)
        check_jitter(run)
        check_device_types(run.cluster, run.name, "cluster.hosts")
        checked = replace(self, run=run)
        # Policy, past and profile rows do not depend on the texts of apps, so their resolved values
        # stay; ``cached_property`` keeps them in ``__dict__``. Nothing was measured so far.
        vars(checked).update({name: one for name, one in vars(self).items() if name in _UNTRAINED})
        return checked


_UNTRAINED: Final = ("named_policies", "past", "stated_costs")
"""Properties of ``PreparedRun`` that do not depend on the texts of apps."""


class _Memory:
    """A journal kept in memory, for runs that write no folder; called as one of a ``RunFolder``."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.journal = self.data.extend

    def journal_bytes(self) -> memoryview:
        """Return all of the journal so far, without a copy."""
        return memoryview(self.data)


@dataclass(slots=True, kw_only=True)
class RunParts:
    """The parts of one run, put together before it goes; ``begin`` is when, in real seconds."""

    prepared: PreparedRun
    policies: TimedPolicies
    port: Any
    journal: RunFolder | _Memory
    options: Options
    begin: float
    inputs: str = ""
    core: Core = field(init=False)
    _compiled_s: float = field(init=False)

    def __post_init__(self) -> None:
        prepared, self._compiled_s = self.prepared, COMPILING.seconds
        self.core = Core(
            run=prepared.run,
            costs=prepared.costs,
            past=prepared.past,
            policy=self.policies.place,  # type: ignore[arg-type]
            others=self.policies.others,  # type: ignore[arg-type]
            port=self.port,
            sink=self.journal.journal,
            world=prepared.world,
            inputs=self.inputs,
            check=self.options.check,
            compiled=self.options.compiled,
        )
        if prepared.is_plain:
            self.core.copier = None  # jobs run whole, one after the other

    def execute(self) -> None:
        """Run from the first decision to the last event."""
        options = self.options
        attend = options.attend(self.core) if options.attend else nullcontext(None)
        with attend as observe:
            self.core.observe = _attentive(observe)
            self.core.execute()

    def record(self, solve: Solve | None = None) -> Record:
        """Return the record of the journal so far, with its lower bound."""
        run, costs = self.prepared.run, self.prepared.costs
        extra = {"decide_s": self.policies.decide_s}
        # Ports of live runs have measured figures of their own.
        measured = getattr(self.port, "measured", None)
        if measured is not None:
            extra |= measured()
        history = read_history(self.journal.journal_bytes())
        extra["wall_s"] = perf_counter() - self.begin
        if compile_s := COMPILING.seconds - self._compiled_s:
            extra["compile_s"] = compile_s
        bound = lower_bound(run, costs, history, solve)
        phases = getattr(self.port, "phases", {})
        return Record(
            run=run, history=history, costs=costs, extra=extra, bound=bound, phases=phases
        )


def simulate(
    run: Run | PreparedRun, out: RunFolder | None = None, options: Options | None = None
) -> Record:
    """Run in virtual time and return the record; ``out``, when given, is kept once it is whole."""
    from warren.sim.build import sim_port

    begin, options = perf_counter(), options or Options()
    COMPILING.watch()
    prepared = run if isinstance(run, PreparedRun) else PreparedRun(run=run)
    run, costs = prepared.run, prepared.costs
    policies = TimedPolicies(prepared.policies)
    prepared.check()  # a fault of the past is reported before the port is built
    parts = RunParts(
        prepared=prepared,
        policies=policies,
        port=sim_port(run, costs),
        journal=out or _Memory(),
        options=options,
        begin=begin,
    )
    # A plan needs compiled code. It is loaded before ``bound_ahead`` forks a process, so that the
    # process has it too.
    if policies.place.offline:
        import_module("warren.solve.common.compile")
    # The bound needs no schedule, so another process may compute it meanwhile.
    with bound_ahead(run, costs, SIMULATED) if parts.options.ahead else nullcontext(None) as solve:
        parts.execute()
        record = parts.record(solve)
    # Kept only now: a simulation that fails or is interrupted leaves no folder.
    if out is not None:
        out.write(result_files(record))
        out.whole = True
        out.keep()
    return record


def _attentive(observe: Observer | None) -> Observer:
    """Return the observer, which also notices signals whose exception was lost on its way."""
    if observe is None:
        return lambda _state, _events: raise_if_told()

    def both(state: State, events: tuple[AnyEvent, ...]) -> None:
        raise_if_told()
        observe(state, events)

    return both
