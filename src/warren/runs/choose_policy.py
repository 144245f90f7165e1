"""The choice of a run's policies: shipped ones by name, and those that users write.

The answers of policies are checked in ``warren.core.decision_checks``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from warren.model.decision import Decision, Question
from warren.model.errors import Problem, SpecError, text_of
from warren.model.run import Run
from warren.model.view import View
from warren.policy.group.fixed import FixedGroups
from warren.policy.protocol import (
    AnyPolicy,
    answers,
    binds_workers,
    follows_hosts,
    keeps_to_shapes,
    plans_rings,
    takes_new_jobs,
)
from warren.policy.registry import (
    BASELINES,
    JOINT,
    policy_of,
    ring_policies,
    shaped_policies,
)
from warren.policy.shape.fixed import FixedShapes
from warren.runs.notices import COMPILING
from warren.runs.user_policies.from_file import foreign, is_foreign
from warren.runs.user_policies.from_python import given_policy, is_given, is_users
from warren.store.signals import raise_if_told


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPolicies:
    """The policies of a run: ``place`` places its tasks, ``others`` answer other questions.

    ``place_name``: the name of ``place`` in the run's records, where that is not its own.
    """

    place: AnyPolicy
    others: tuple[AnyPolicy, ...] = ()
    place_name: str | None = None


def choose(run: Run) -> AnyPolicy:
    """Make the policy of a run that places its tasks, checked against its jobs.

    Raises
    ------
    SpecError
        As ``choose_all`` does.
    """
    return choose_all(run).place


def choose_all(run: Run) -> ChosenPolicies:
    """Make the policies of a run, checked against its jobs and against each other.

    Raises
    ------
    SpecError
        If a policy is unknown, cannot be loaded, answers other questions than it is named for, or
        needs to know rounds that a job does not state; if jobs are rings that the place policy does
        not place, or rings larger than the cluster; or if shapes or groups name the hosts of tasks
        and the place policy does not keep to them.
    """
    scheduler = run.scheduler
    places_jointly = scheduler.joint is not None and scheduler.joint == scheduler.place
    named: dict[str, AnyPolicy] = {}
    if scheduler.joint is not None:
        options = scheduler.other_options.get(JOINT) or (
            scheduler.options if places_jointly else {}
        )
        named[JOINT] = _policy(JOINT, scheduler.joint, options, run.base)
    if not places_jointly:
        named["place"] = _policy("place", scheduler.place, scheduler.options, run.base)
    for question, (baseline, _) in BASELINES.items():
        name = getattr(scheduler, question)
        options = scheduler.other_options.get(question, {})
        if name != baseline:
            named[question] = _policy(question, name, options, run.base)
        elif options:
            message = f"{name} has no options, got {', '.join(options)}"
            raise SpecError(Problem(file="policy", field=question, message=message))
    _check_questions(run, named)
    for question, policy in named.items():
        _check_rounds(run, question, policy)
    place = named.pop(JOINT if places_jointly else "place")
    _check_rings(run, scheduler.place, place)
    _check_bound_hosts(run, place, named)
    _check_opportunistic(run, named)
    _check_after(run, place)
    given = scheduler.place if is_given(scheduler.place) else None
    return ChosenPolicies(place=place, others=tuple(named.values()), place_name=given)


def _check_questions(run: Run, named: Mapping[str, AnyPolicy]) -> None:
    """Refuse a policy that answers other questions than it is named for, or one answered twice."""
    joint = answers(named[JOINT]) if JOINT in named else frozenset()
    for question, policy in named.items():
        stated, answered = answers(policy), ", ".join(sorted(answers(policy)))
        if question == JOINT:
            wrong = len(stated) < 2
            message = f"{run.scheduler.joint} answers {answered} alone; name it for that"
        elif stated == {question}:
            wrong = question in joint
            message = f"is answered by joint: {run.scheduler.joint} already"
        else:
            wrong = True
            way = "name it as joint" if len(stated) > 1 else f"name it for {answered}"
            message = f"{getattr(run.scheduler, question)} answers {answered}; {way}"
        if wrong:
            field = f"scheduler.{question}"
            raise SpecError(Problem(file=run.name, field=field, message=message))
    if "place" not in named and Question.PLACE not in joint:
        message = f"{run.scheduler.joint} does not place tasks; name a place policy beside it"
        raise SpecError(Problem(file=run.name, field="scheduler.place", message=message))


def _check_rounds(run: Run, question: str, policy: AnyPolicy) -> None:
    """Refuse jobs of unknown rounds under a policy that must know them."""
    unknown = [job.name for job in run.workload.jobs if job.rounds is None]
    if policy.needs_rounds and unknown:
        message = (
            f"{policy.name} must know every job's rounds; unknown for {', '.join(unknown[:5])}"
        )
        raise SpecError(Problem(file=run.name, field=f"scheduler.{question}", message=message))


def _check_bound_hosts(run: Run, place: AnyPolicy, named: Mapping[str, AnyPolicy]) -> None:
    """Refuse shapes and groups that bind tasks to hosts beside a policy that ignores them."""
    name = run.scheduler.place
    if keeps_to_shapes(place) or is_users(name):
        return
    for question, policy in named.items():
        if not (binds_workers(policy) or _leaves_hosts_out(run, policy)):
            continue
        message = (
            f"{name} does not keep to the hosts that {question} "
            f"{getattr(run.scheduler, question)} leaves to tasks; "
            f"allowed: {', '.join(shaped_policies())}, or FILE.py:Class"
        )
        raise SpecError(Problem(file=run.name, field="scheduler.place", message=message))


def _check_opportunistic(run: Run, named: Mapping[str, AnyPolicy]) -> None:
    """Refuse hosts that come and go where no policy follows them, or a job is a ring."""
    if not run.cluster.opportunistic:
        return
    host = run.cluster.hosts[min(run.cluster.opportunistic)].name
    if not any(follows_hosts(policy) for policy in named.values()):
        message = (
            f"host {host} is opportunistic, and shape {run.scheduler.shape} does not follow hosts "
            "that come and go; allowed: cruise, cruise-published, or FILE.py:Class"
        )
        raise SpecError(Problem(file=run.name, field="scheduler.shape", message=message))
    ring = next((job for job in run.workload.jobs if job.sync == "ring"), None)
    if ring is not None:
        message = f"is a ring, which cannot lose a host, and host {host} is opportunistic"
        field = f"job {ring.name}: sync"
        raise SpecError(Problem(file=ring.source or run.name, field=field, message=message))


def _check_after(run: Run, place: AnyPolicy) -> None:
    """Refuse a policy that plans ahead where it is not known when jobs come."""
    if run.truth.after and place.offline:
        message = (
            f"jobs come when others have ended, and {place.name} plans all jobs before the first "
            "one starts; use an online policy (`warren policies`)"
        )
        raise SpecError(Problem(file=run.name, field="truth.after", message=message))


def _leaves_hosts_out(run: Run, policy: AnyPolicy) -> bool:
    """Tell whether the hosts that users state for tasks are fewer than all."""
    stated: Sequence[Sequence[str]] = ()
    if isinstance(policy, FixedShapes):
        stated = [job.worker_hosts for job in run.workload.jobs if job.worker_hosts]
    elif isinstance(policy, FixedGroups):
        stated = [one["hosts"] for one in policy.groups]
    hosts = {host.name for host in run.cluster.hosts}
    return any(hosts.difference(one) for one in stated)


def _check_rings(run: Run, name: str, policy: AnyPolicy) -> None:
    """Refuse rings that the policy does not place whole, or that the cluster is too small for."""
    rings = [job.name for job in run.workload.jobs if job.sync == "ring"]
    if rings and not plans_rings(policy) and not is_users(name):
        some = ", ".join(map(repr, rings[:5])) + (", ..." if len(rings) > 5 else "")
        jobs = f"job {some} has" if len(rings) == 1 else f"jobs {some} have"
        message = (
            f"policy {name!r} cannot place ring jobs ({jobs} sync: ring); "
            f"use {', '.join(ring_policies())} or FILE.py:Class"
        )
        raise SpecError(Problem(file=run.name, field="scheduler.place", message=message))
    devices = len(run.cluster.devices)
    large = [job for job in run.workload.jobs if job.sync == "ring" and job.scale > devices]
    if large:
        job = large[0]
        message = (
            f"a ring of {job.scale} needs as many devices, and the cluster has {devices}; "
            f"allowed: 1 to {devices}, or sync: ps"
        )
        place = job.source or run.name
        raise SpecError(Problem(file=place, field=f"job {job.name}: scale", message=message))


def _policy(question: str, name: str, options: Mapping[str, object], base: str) -> AnyPolicy:
    """Make the policy that a run names for a question, or as ``joint``."""
    if is_given(name):
        return given_policy(name, options, question)
    if is_foreign(name):
        return foreign(name, options, base, question)
    return policy_of(question, name, options)


def check_carried(run: Run, policies: ChosenPolicies, *, live: bool) -> None:
    """Refuse policies whose answers the simulator, or the live engine, cannot carry out.

    Raises
    ------
    SpecError
        Naming the first of these questions, and the allowed values.
    """
    # Nothing is imported for the usual run, of which place alone is answered: ``choose_all`` has
    # seen to it. The plain engine takes no policy of the run's.
    alone = not policies.others and run.scheduler.joint is None
    if alone or (live and not run.cluster.is_scheduled):
        return
    asked = (policies.place, *policies.others)
    answered = frozenset[Question]().union(*map(answers, asked)) - {Question.PLACE}
    for question in sorted(answered - _carried(run, live=live)):
        what, but = _world(run, question, live=live)
        name = getattr(run.scheduler, question)
        baseline = BASELINES[question][0]
        # Under ``joint`` the question keeps the name of its baseline.
        field = f"scheduler.{question}" if name != baseline else "scheduler.joint"
        message = (
            f"{what} cannot carry out answers to {question} yet: they would change nothing; "
            f"allowed: {question}: {baseline}{but}"
        )
        raise SpecError(Problem(file=run.name, field=field, message=message))


def _world(run: Run, question: Question, *, live: bool) -> tuple[str, str]:
    """Return the world that does not carry out a question's answers, and the alternative."""
    if live and question is Question.FLOW and run.cluster.local.testbed is None:
        return "a live run without local.testbed", ", or local: {testbed: NAME}"
    if not live and question is not Question.GROUP:
        what = f"a simulation under network: {run.cluster.network.model}"
        return what, ", or network: {model: fluid}"
    return ("a live run" if live else "a simulation"), ""


def _carried(run: Run, *, live: bool) -> frozenset[Question]:
    """Return the questions whose answers a port carries out."""
    if live:
        from warren.live.control.local_engine import LivePort

        linked = run.cluster.local.testbed is not None
        return LivePort.carries - (set() if linked else {Question.FLOW})
    from warren.sim.port import questions_of_links

    return questions_of_links(run)


class TimedPolicy:
    """A policy that counts the seconds of its decisions; everything else is passed through.

    ``decide_s``: real seconds in ``initial`` and ``decide`` so far, without the compilation of
    kernels.
    """

    def __init__(self, policy: AnyPolicy, name: str | None = None) -> None:
        self._policy = policy
        self.name, self.source = name or policy.name, policy.source
        self.offline, self.needs_rounds = policy.offline, policy.needs_rounds
        self.triggers = policy.triggers
        self.answers = answers(policy)
        self.checks_all_jobs = not takes_new_jobs(policy)
        self.decide_s = 0.0

    def initial(self, view: View) -> Any:
        """Return the policy's first memory."""
        return self._timed(self._policy.initial, view)

    def decide(self, view: View, memory: Any) -> tuple[Decision, Any]:
        """Return the policy's decision and its next memory."""
        answer: tuple[Decision, Any] = self._timed(self._policy.decide, view, memory)
        return answer

    def explain(self, view: View, memory: Any, job: int) -> str:
        """Return the policy's sentence on a job."""
        return self._policy.explain(view, memory, job)

    def _timed(self, call: Any, *args: Any) -> Any:
        """Call a method of the policy and count its time."""
        raise_if_told()  # planning takes long, and an import may have swallowed a signal
        begin, compiled_s = perf_counter(), COMPILING.seconds
        try:
            return call(*args)
        # Not an Exception: it would end the command without a word. ``ask`` makes a line of it.
        except SystemExit as error:
            raise RuntimeError(f"it called sys.exit({text_of(error)})") from error
        finally:
            self.decide_s += perf_counter() - begin - (COMPILING.seconds - compiled_s)


class TimedPolicies:
    """The policies of a run, each counting the seconds that its decisions take."""

    def __init__(self, policies: ChosenPolicies) -> None:
        self.place = TimedPolicy(policies.place, policies.place_name)
        self.others = tuple(map(TimedPolicy, policies.others))

    @property
    def decide_s(self) -> float:
        """Return the real seconds that all policies took so far."""
        return sum(one.decide_s for one in (self.place, *self.others))
