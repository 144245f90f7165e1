"""What contention has to do with it: plans of rings where sharing a link costs, and where not.

``xi1: 0, alpha: 0`` leaves rings all of a link, whoever else is on it; between hosts they still go
over it. A plan's *cost of sharing* is what its makespan is longer with contention than without.
*Blind*: ``braid`` plans as if sharing cost nothing; its plan then meets the contention there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.cost.run_rings import with_rings
from warren.model.decision import Decision, Plan
from warren.model.events import Event
from warren.model.run import Run
from warren.policy.protocol import AnyPolicy
from warren.profile.cost_table import cost_table
from warren.runs.choose_policy import choose
from warren.runs.inputs import run_of
from warren.sim.build import sim_port

Row = dict[str, Any]
BLIND: Final = "braid that knows no contention"


@dataclass(frozen=True, slots=True)
class Planned:
    """A policy that answers a plan which was made before."""

    plan: Plan
    name: ClassVar[str] = "planned"
    source: ClassVar[str] = "Warren"
    offline: ClassVar[bool] = True
    needs_rounds: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset()

    def initial(self, view: object) -> None:
        """Nothing to remember."""

    def decide(self, view: object, memory: None) -> tuple[Decision, None]:
        """The plan."""
        return Decision(plan=self.plan), None

    def explain(self, view: object, memory: None, job: int) -> str:
        """As planned."""
        return "as planned"


def free(run: Run) -> Run:
    """The run on links that every ring has to itself."""
    network = replace(run.cluster.network, xi1=0.0, alpha=0.0)
    return replace(run, cluster=replace(run.cluster, network=network))


def plan_of(run: Run) -> Plan:
    """What the run's policy plans; no time passes."""
    core = _core(run, choose(run))
    core.ask_first()
    assert core._first is not None
    plan = core._first[0].plan
    assert plan is not None
    return plan


def times_s(run: Run, plan: Plan) -> tuple[float, float]:
    """Makespan and mean JCT of a plan."""
    journal = bytearray()
    _core(run, Planned(plan), journal.extend).execute()
    end_ns_J = read_history(bytes(journal)).finish_ns_J
    jct_ns = [end - job.arrival_ns for end, job in zip(end_ns_J, run.workload.jobs, strict=True)]
    first_ns = min(job.arrival_ns for job in run.workload.jobs)
    return float(end_ns_J.max() - first_ns) / 1e9, float(sum(jct_ns)) / len(jct_ns) / 1e9


def _core(run: Run, policy: AnyPolicy, sink: Callable[[bytes], object] = len) -> Core:
    costs = with_rings(run, cost_table(run))
    return Core(
        run=run, costs=costs, policy=policy, port=sim_port(run, costs), sink=sink, world="sim"
    )


def cell(path: str, place: str, cell: object, sets: Sequence[Sequence[str]]) -> Row:
    """A policy's plans, one for each of ``sets``, in both worlds."""
    known: list[Mapping[str, float]] = []
    for one in sets:
        run = run_of(path, "braid" if place == BLIND else place.partition(" of ")[0], one)
        plan = plan_of(free(run) if place == BLIND else run)
        makespan_s, jct_s = times_s(run, plan)
        alone_s, _ = times_s(free(run), plan)
        known.append({"makespan_s": makespan_s, "jct_s": jct_s, "alone_s": alone_s})
    row = {
        "cell": str(cell),
        "place": place,
        "by_seed_s": [one["makespan_s"] for one in known],
        "jct_by_seed_s": [one["jct_s"] for one in known],
        "without_by_seed_s": [one["alone_s"] for one in known],
        "sharing_pct": [100 * (one["makespan_s"] / one["alone_s"] - 1) for one in known],
    }
    told = ", ".join(f"{pct:.2f}" for pct in row["sharing_pct"])
    print(f"servers {cell}: {place}: sharing costs {told} %", flush=True)
    return row
