"""What every registered policy of shape, group and flow owes the core, whatever its algorithm."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from warren.core.journal_reader import read_history
from warren.model.costs import CostTable
from warren.model.decision import Decision, Group, Question, Shape
from warren.model.errors import SpecError
from warren.model.run import Run
from warren.model.view import View
from warren.policy.protocol import AnyPolicy, answers
from warren.policy.registry import BASELINES, BY_QUESTION, JOINT, place_policy, policy_of
from warren.runs.choose_policy import foreign

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds as q
import worlds
from question_worlds import Bound

OTHERS = [
    (question, name)
    for question, known in BY_QUESTION.items()
    if question != "place"
    for name in sorted(known)
]
every_other = pytest.mark.parametrize(("question", "name"), OTHERS)
GROUPS = [{"jobs": ["j0", "j3"], "hosts": ["h0"]}, {"jobs": ["j1"], "hosts": ["h0", "h1"]}]


def made(question: str, name: str) -> AnyPolicy:
    """A policy that has something to answer in the worlds below."""
    return policy_of(question, name, OPTIONS.get((question, name), {}))


OPTIONS: dict[tuple[str, str], dict[str, object]] = {
    ("group", "fixed"): {"groups": GROUPS},
    # These worlds are over in seconds.
    ("flow", "maif"): {"period_s": 0.5},
}


def drawn_world(seed: int) -> tuple[Run, CostTable]:
    """A random world on two hosts; jobs state classes, servers and workers, some of them."""
    run, costs = q.on_hosts(*worlds.random_world(seed, jobs=6))
    # Each type on both hosts, so that a job fits somewhere wherever it is bound to.
    kinds = run.cluster.type_of_device
    costs = worlds.costs(
        [[1.0 + kinds[0]] * len(run.cluster.types)] * 6,
        [
            [
                0.25,
            ]
            * len(run.cluster.types)
        ]
        * 6,
    )
    # Bytes that a policy may go by; the port gives them no time.
    costs = replace(costs, model_bytes_J=np.full(6, 10**9))
    jobs = tuple(
        replace(
            job,
            flow_class=job.index % 4,
            server_hosts=("h1", "h0", "h1")[: job.index % 4],
            server_bytes=(5, 6, 7)[: job.index % 4] if job.index % 2 else (),
            worker_hosts=("h1",) if job.index == 2 else (),
        )
        for job in run.workload.jobs
    )
    return replace(run, workload=replace(run.workload, jobs=jobs)), costs


class Asked:
    """A policy that is asked everything twice, and remembers what it was asked and answered."""

    def __init__(self, policy: AnyPolicy) -> None:
        self.policy, self.answers = policy, answers(policy)
        self.name, self.source, self.triggers = policy.name, policy.source, policy.triggers
        self.offline, self.needs_rounds = policy.offline, policy.needs_rounds
        self.asked: list[tuple[View, Any, Decision]] = []

    def initial(self, view: View) -> Any:
        return self.policy.initial(view)

    def explain(self, view: View, memory: Any, job: int) -> str:
        return self.policy.explain(view, memory, job)

    def decide(self, view: View, memory: Any) -> tuple[Decision, Any]:
        still = {
            field: value.copy() if isinstance(value, np.ndarray) else value
            for field, value in msgspec.structs.asdict(view).items()
        }
        for field in ("shape_J", "servers_J"):
            still[field] = tuple(still[field])
        still["host_classes"] = dict(still["host_classes"])
        kept = View(**still)
        decision, left = self.policy.decide(view, memory)
        self.asked.append((kept, memory, decision))
        return decision, left


def placing(policy: AnyPolicy) -> tuple[AnyPolicy, tuple[AnyPolicy, ...]]:
    """The policy that places, which may be this one, and the others."""
    return (policy, ()) if Question.PLACE in answers(policy) else (Bound(), (policy,))


@cache
def asked_in(seed: int, question: str, name: str) -> tuple[Asked, bytes]:
    """The policy as it was asked in a drawn world, and the journal of that run."""
    policy = Asked(made(question, name))
    return policy, simulate(*drawn_world(seed), policy)[1]


def simulate(run: Run, costs: CostTable, policy: Any) -> tuple[q.RecordingPort, bytes]:
    core, port, journal = q.core_of(run, costs, *placing(policy))
    state = core.execute()
    assert state.done_J.all()
    return port, bytes(journal)


@every_other
def test_it_says_what_it_answers_and_where_it_comes_from(question: str, name: str) -> None:
    policy = policy_of(question, name)
    assert policy.name == name
    assert policy.source
    stated = answers(policy)
    assert stated == {Question(question)} if question != JOINT else len(stated) > 1
    text = inspect.getdoc(sys.modules[type(policy).__module__]) or ""
    assert "\nWhat\n" in text
    assert "\nSource\n" in text


@every_other
def test_every_job_ends_and_the_same_run_gives_the_same_journal(question: str, name: str) -> None:
    answered = 0
    for seed in range(8):
        _, first = asked_in(seed, question, name)
        assert simulate(*drawn_world(seed), made(question, name))[1] == first
        answered += len(read_history(first).answers)
    assert answered


@every_other
def test_a_view_and_a_memory_give_the_same_answer_whenever_they_are_asked(
    question: str, name: str
) -> None:
    """At once, and again when all is over: nobody has changed a memory that was handed out."""
    for seed in range(4):
        policy, _ = asked_in(seed, question, name)
        assert policy.asked
        for view, memory, decision in policy.asked:
            assert policy.policy.decide(view, memory)[0] == decision


@every_other
def test_the_order_of_names_does_not_matter(question: str, name: str) -> None:
    run, costs = drawn_world(5)
    port, _ = simulate(run, costs, made(question, name))
    users = tuple(replace(job, user=f"x{job.index}") for job in run.workload.jobs)
    renamed = replace(run, workload=replace(run.workload, jobs=users))
    assert simulate(renamed, costs, made(question, name))[0].commands == port.commands


@every_other
def test_it_has_a_sentence_for_every_job_at_every_step(question: str, name: str) -> None:
    run, costs = drawn_world(4)
    core, _, _ = q.core_of(run, costs, *placing(made(question, name)))
    asked = Question(question) if question != JOINT else min(answers(made(question, name)))

    def observe(state: Any, _: object) -> None:
        for job in range(len(state.phase_J)):
            told = core.explain(job, asked)
            assert told
            assert "\n" not in told

    core.observe = observe
    core.execute()


@every_other
def test_an_empty_workload_and_unknown_options(question: str, name: str) -> None:
    run = worlds.run(q.hosts(), [])
    none = np.zeros((0, 1))
    simulate(run, worlds.costs(none, none), policy_of(question, name))  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=f"policy: {question}.colour: {name} does not accept"):
        policy_of(question, name, {"colour": 3})


@pytest.mark.parametrize("question", sorted(BASELINES))
def test_an_unknown_name_is_refused_with_what_is_allowed(question: str) -> None:
    baseline = BASELINES[question][0]
    with pytest.raises(SpecError, match=f"scheduler: {question}: unknown policy 'fixd'; did you"):
        policy_of(question, "fixd")
    with pytest.raises(SpecError, match=f"allowed: .*{baseline}.*or FILE.py:Class"):
        policy_of(question, "fixd")


def test_fixed_classes_are_those_of_the_job_files() -> None:
    run, costs = drawn_world(1)
    port, journal = simulate(run, costs, made("flow", "fixed"))
    told: dict[int, int] = {}
    for classes, single in port.of("classify"):
        assert not single
        assert not told.keys() & classes.keys()
        told |= classes
    stated = {job.index: job.flow_class for job in run.workload.jobs if job.flow_class}
    assert told == stated
    history = read_history(journal)
    for job in run.workload.jobs:
        at = job.arrival_ns
        changes = [(at, job.flow_class)] if job.flow_class else []
        assert history.classes_of(job.index) == [(0, 0), *changes]


def test_fixed_shapes_are_those_of_the_job_files_before_time_starts() -> None:
    run, costs = drawn_world(1)
    port, journal = simulate(run, costs, made("shape", "fixed"))
    assert port.commands[0] == (
        "reshape",
        {
            1: Shape(None, (1,), (5,)),
            2: Shape((1,), (1, 0), None),
            3: Shape(None, (1, 0, 1), (5, 6, 7)),
            5: Shape(None, (1,), (5,)),
        },
    )
    assert len(port.of("reshape")) == 1
    line = read_history(journal).timeline
    hosts = {run.cluster.devices[device].host for device in line.device_R[line.job_R == 2]}
    assert hosts == {"h1"}


def test_fixed_groups_hold_the_jobs_that_are_there() -> None:
    run, costs = drawn_world(1)
    port, journal = simulate(run, costs, made("group", "fixed"))
    groups = port.of("regroup")
    assert groups
    for told in groups:
        for group in told:
            assert group.jobs
            assert group.hosts == ((0, 1) if 1 in group.jobs else (0,))
    assert {job for told in groups for group in told for job in group.jobs} == {0, 1, 3}
    line = read_history(journal).timeline
    for job in (0, 3):
        used = {run.cluster.devices[device].host for device in line.device_R[line.job_R == job]}
        assert used == {"h0"}
    assert all(isinstance(group, Group) for told in groups for group in told)


@pytest.mark.parametrize(
    "groups",
    [
        [{"jobs": ["j0"]}],
        [{"jobs": [], "hosts": ["h0"]}],
        [{"jobs": "j0", "hosts": ["h0"]}],
        [["j0"]],
        [{"jobs": [1], "hosts": ["h0"]}],
        {"jobs": ["j0"], "hosts": ["h0"]},
    ],
)
def test_groups_of_a_wrong_form_are_refused_when_they_are_made(groups: Any) -> None:
    with pytest.raises(SpecError, match=r"policy: group.groups: .*a group is {jobs: \[NAME, ...\]"):
        policy_of("group", "fixed", {"groups": groups})


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ({"jobs": ["j9"], "hosts": ["h0"]}, "there is no job 'j9'"),
        ({"jobs": ["j0"], "hosts": ["h7"]}, "there is no host 'h7'"),
    ],
)
def test_names_that_are_not_there_are_refused_before_time_starts(group: Any, words: str) -> None:
    policy = policy_of("group", "fixed", {"groups": [group]})
    core, port, journal = q.core_of(*drawn_world(0), Bound(), (policy,))
    with pytest.raises(SpecError, match=words):
        core.execute()
    assert not journal
    assert not port.commands
    run, costs = drawn_world(0)
    strange = replace(run.workload.jobs[0], server_hosts=("attic",))
    run = replace(run, workload=replace(run.workload, jobs=(strange, *run.workload.jobs[1:])))
    core, _, journal = q.core_of(run, costs, Bound(), (policy_of("shape", "fixed"),))
    with pytest.raises(
        SpecError, match=r"job j0: servers.hosts: there is no host 'attic'; allowed"
    ):
        core.execute()
    assert not journal


def test_fixed_classes_and_servers_stand_beside_every_kind_of_place_policy() -> None:
    run, costs = drawn_world(3)
    free = tuple(replace(job, worker_hosts=()) for job in run.workload.jobs)
    run = replace(run, workload=replace(run.workload, jobs=free))
    for place in ("hare", "srtf", "hlas", "gavel-fifo"):
        others = (policy_of("flow", "fixed"), policy_of("shape", "fixed"))
        alone, _, plain = q.core_of(run, costs, place_policy(place))
        alone.execute()
        core, port, journal = q.core_of(run, costs, place_policy(place), others)
        core.execute()
        assert port.of("classify")
        assert port.of("reshape")
        # They bind no task, and this port gives bytes no time: the schedule is the same.
        one, other = (read_history(bytes(data)) for data in (plain, journal))
        assert np.array_equal(one.finish_ns_J, other.finish_ns_J)
        assert np.array_equal(one.timeline.device_R, other.timeline.device_R)


def test_the_example_of_a_flow_policy_lets_the_job_with_fewest_rounds_go_first() -> None:
    path = Path(__file__).parents[2] / "examples/policies/fewest_rounds_first.py"
    policy = foreign(f"{path}:FewestRoundsFirst", {"levels": 2}, question="flow")
    listed = [worlds.job(index, rounds=rounds) for index, rounds in enumerate((9, 1, 3))]
    run, costs = worlds.run(q.hosts(), listed), worlds.costs([[1.0]] * 3, [[0.5]] * 3)
    port, journal = simulate(run, costs, policy)
    assert port.of("classify")[0] == ({1: 1, 2: 2, 0: 2}, {})
    history = read_history(journal)
    assert history.classes_of(0) == [(0, 0), (0, 2), (3 * 1_500_000_000, 1)]
    assert history.classes_of(2) == [(0, 0), (0, 2), (1_500_000_000, 1)]


def test_the_example_of_a_joint_policy_has_one_order_for_devices_and_for_links() -> None:
    path = Path(__file__).parents[2] / "examples/policies/least_work_first.py"
    policy = foreign(f"{path}:LeastWorkFirst", {"levels": 2}, question="joint")
    listed = [worlds.job(index, rounds=rounds) for index, rounds in enumerate((9, 1, 3))]
    run, costs = worlds.run(q.hosts(1, 1), listed), worlds.costs([[1.0]] * 3, [[0.5]] * 3)
    core, port, journal = q.core_of(run, costs, policy)
    assert core.execute().done_J.all()
    assert port.of("classify")[0] == ({1: 1, 2: 2, 0: 2}, {})
    history = read_history(bytes(journal))
    assert np.argsort(history.finish_ns_J).tolist() == [1, 2, 0]
    assert history.classes_of(2)[-1] == (1_500_000_000, 1)
