"""The seam every policy stands behind: view in, decision out, memory passed by value."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Protocol, TypeVar

from warren.model.decision import PLACE_ALONE, Decision, Question
from warren.model.events import Event
from warren.model.view import View

M = TypeVar("M")


class Policy(Protocol, Generic[M]):
    """Answer one or more of the four questions: group, shape, place, flow.

    A class with capabilities as data and three pure methods. ``decide`` may not read a
    clock, draw from a global generator or change the view or ``memory`` (it returns the new
    memory), so replay and what-if can carry it. A memory belongs to one list of jobs and their
    costs, which may become longer: values that follow from these alone it may keep by a job's
    index, once computed.

    Attributes
    ----------
    name
        The name under which run files, journals and reports know the policy.
    source
        The paper, section or algorithm that it implements.
    offline
        Whether it knows all arrivals in advance and is asked before time starts; after that by its
        triggers, unless it has given a plan.
    needs_rounds
        Whether it refuses jobs whose number of rounds is unknown.
    triggers
        The event types after which it wants to be asked; a ``RolledBack`` always is one for a
        policy that answers place.

    More capabilities may be stated, as class attributes. They are not part of the protocol, so a
    class that lacks them is a policy, too; read them by the functions of these names.

    - ``answers: ClassVar[frozenset[Question]]``: the questions that it answers; place alone where
        it says nothing. What it answers beyond them is refused.
    - ``plans_rings``: it places a ring as a whole, each of its tasks on a device of its own.
    - ``holds_devices``: its jobs keep their devices from start to end, as ``gang_holding`` has it,
        so at any grain but 1 it hands out all rounds of a job at once.
    - ``binds_workers``: its shapes leave to a job's tasks some hosts alone, and change them; and
        ``keeps_to_shapes``: it places tasks on those, round by round.
    - ``measures_costs``: it uses no cost of a job that was known before the job runs.
    - ``checks_all_jobs``: before time starts it looks at jobs to come, and refuses some of them.
    - ``follows_hosts``: when an opportunistic host comes or goes (``HostJoined``, ``HostLeft``),
      its shapes leave no job a host that is not there.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    offline: ClassVar[bool]
    needs_rounds: ClassVar[bool]
    triggers: ClassVar[frozenset[type[Event]]]

    def initial(self, view: View) -> M:
        """Return the memory before the first decision."""
        ...

    def decide(self, view: View, memory: M) -> tuple[Decision, M]:
        """Answer one view, and return the memory for the next.

        Assignments take effect in the order given, after shapes and groups of the same decision.
        """
        ...

    def explain(self, view: View, memory: M, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        ...


AnyPolicy = Policy[Any]


def answers(policy: AnyPolicy | type[AnyPolicy]) -> frozenset[Question]:
    """Return the questions that a policy, or its class, answers; place where it says nothing."""
    stated: frozenset[Question] = getattr(policy, "answers", PLACE_ALONE)
    return stated


def is_blind(policy: AnyPolicy) -> bool:
    """Tell whether a policy is to know nothing of the future, nor how long a job will run."""
    return not policy.offline and not policy.needs_rounds


def takes_new_jobs(policy: AnyPolicy | type[AnyPolicy]) -> bool:
    """Tell whether jobs may come that a policy did not know before time started.

    Not if it plans ahead, and not if it looks at all jobs before time starts, to refuse some.
    """
    return not policy.offline and not bool(getattr(policy, "checks_all_jobs", False))


def plans_rings(policy: AnyPolicy | type[AnyPolicy]) -> bool:
    """Tell whether a policy, or its class, places rings as a whole; False where it says nothing."""
    return bool(getattr(policy, "plans_rings", False))


def holds_devices(policy: AnyPolicy | type[AnyPolicy]) -> bool:
    """Tell whether a policy's jobs keep their devices; False where it says nothing."""
    return bool(getattr(policy, "holds_devices", False))


def binds_workers(policy: AnyPolicy) -> bool:
    """Tell whether a policy's shapes change the hosts of workers; False where it says nothing."""
    return bool(getattr(policy, "binds_workers", False))


def follows_hosts(policy: AnyPolicy) -> bool:
    """Tell whether a policy's shapes follow hosts that come and go; False where it says nothing."""
    return bool(getattr(policy, "follows_hosts", False))


def keeps_to_shapes(policy: AnyPolicy | type[AnyPolicy]) -> bool:
    """Tell whether a place policy keeps to the hosts of shapes; False where it says nothing."""
    return bool(getattr(policy, "keeps_to_shapes", False))


def measures_costs(policy: AnyPolicy) -> bool:
    """Tell whether a policy needs no cost ahead of a job's run; False where it says nothing."""
    return bool(getattr(policy, "measures_costs", False))
