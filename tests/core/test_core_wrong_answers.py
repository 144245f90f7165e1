"""Answers to shape, group and flow that break a rule: one sentence each, and nothing is started."""

from __future__ import annotations

import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from warren.core.journal import Step
from warren.core.journal_reader import decode
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Decision, Group, Plan, Question, Reason, Shape
from warren.model.errors import InfeasibleDecision
from warren.model.events import JobArrived, RoundsDone
from warren.model.run import Run
from warren.model.view import View

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds as q
import worlds
from question_worlds import GB, Answering, Bound, RecordingPort

GROUP, SHAPE, PLACE, FLOW = Question
FIRST = Assignment(0, 0, 0, 1, (0,))


def world(*, sync: Any = "ps") -> tuple[Run, CostTable]:
    """Two jobs of a model of 6 GB, of which one is there, on two hosts of 5 GB."""
    listed = [worlds.job(index, rounds=2, arrival_ns=index * 10**15, sync=sync) for index in (0, 1)]
    costs = CostTable(
        comp_ns_JT=np.full((2, 1), 10**9), sync_ns_JT=np.full((2, 1), 10**8),
        fits_JT=np.full((2, 1), True), model_bytes_J=np.full(2, 6 * GB),
    )  # fmt: skip
    return worlds.run(q.hosts(memory=5 * GB), listed), costs


def refusal(
    answers: Any, answer: Any, place: Any = None, sync: Any = "ps", others: Any = ()
) -> tuple[str, RecordingPort, bytearray]:
    """What is said of an answer when the first job arrives, the port and the journal."""
    run, costs = world(sync=sync)
    # With these the policy itself tells what it was asked.
    said = answer if callable(answer) else lambda view, memory: answer
    asked = answers if isinstance(answers, tuple) else (answers,)
    wrong = Answering("wrong", said, *asked)
    core, port, journal = q.core_of(run, costs, place or Bound(), (*others, wrong))
    with pytest.raises(InfeasibleDecision) as caught:
        core.execute()
    return str(caught.value), port, journal


def shape(*servers: int, workers: Any = None, sizes: Any = None, job: Any = 0) -> Decision:
    return Decision(shapes={job: Shape(workers, servers, sizes)})


def group(*groups: Any) -> Decision:
    return Decision(groups=tuple(Group(*one) for one in groups))


WAYS: list[tuple[Question, Any, str]] = [
    # Of a wrong type.
    (FLOW, None, "decide returns (Decision, memory), got a NoneType first"),
    (FLOW, Decision(classes=[(0, 1)]), "classes map jobs to classes, got a list"),
    (FLOW, Decision(classes={0: 1.5}), "classes map a job's index to a whole number, got 1.5"),
    (FLOW, Decision(classes={"j0": 1}), "classes map a job's index to a whole number, got 'j0'"),
    (FLOW, Decision(classes={0: True}), "to a whole number, got True"),
    (FLOW, Decision(host_classes={0: 1}), "host_classes map (host, job), two indices, to a"),
    (FLOW, Decision(host_classes=[1]), "host_classes map (host, job) to classes, got a list"),
    (FLOW, Decision(delays_ns=[1]), "delays_ns map jobs to ns, got a list"),
    (FLOW, Decision(delays_ns={0: 1.5}), "delays_ns map a job's index to whole ns, got 1.5"),
    (SHAPE, Decision(shapes=[0]), "shapes map jobs to shapes, got a list"),
    (SHAPE, Decision(shapes={0: (0, 1)}), "shapes map a job's index to a Shape, got a tuple"),
    (SHAPE, shape(sizes=[1], job=0), "model_bytes are a tuple, got a list"),
    (SHAPE, shape(0.5), "servers are whole numbers, got 0.5"),
    (SHAPE, shape(0, workers={0}), "workers are a tuple, got a set"),
    (GROUP, Decision(groups=[Group((0,), (0,))]), "groups are a tuple of Groups, got a list"),
    (GROUP, Decision(groups=((0,),)), "groups are a tuple of Groups"),
    (GROUP, group(({0}, (0,))), "jobs of a group are a tuple, got a set"),
    # Of what there is not.
    (FLOW, Decision(classes={7: 1}), "class 1 of job 7: there is no job 7"),
    (FLOW, Decision(classes={-1: 1}), "class 1 of job -1: there is no job -1"),
    (FLOW, Decision(host_classes={(2, 0): 1}), "there is no host 2; allowed: 0 to 1"),
    (FLOW, Decision(host_classes={(0, 9): 1}), "there is no job 9"),
    (FLOW, Decision(delays_ns={9: 1}), "delay of 1 ns of job 9: there is no job 9"),
    (SHAPE, shape(0, job=9), "shape of job 9: there is no such job"),
    (SHAPE, shape(0, 5), "shape of job 0: servers: there is no host 5; allowed: 0 to 1"),
    (SHAPE, shape(0, workers=(0, -1)), "workers: there is no host -1; allowed: 0 to 1"),
    (GROUP, group(((0, 4), (0,))), "group 0: there is no job 4"),
    (GROUP, group(((0,), (3,))), "group 0: there is no host 3; allowed: 0 to 1"),
    # Of what may not be.
    (FLOW, Decision(classes={0: 8}), "class 8 of job 0; allowed: 0 to 7"),
    (FLOW, Decision(classes={0: -1}), "class -1 of job 0; allowed: 0 to 7"),
    (FLOW, Decision(host_classes={(0, 0): 9}), "class 9 of job 0 on host 0; allowed: 0 to 7"),
    (FLOW, Decision(delays_ns={0: -1}), "delay of -1 ns of job 0; allowed: 0 to 86400000000000"),
    (FLOW, Decision(delays_ns={0: 2**60}), "allowed: 0 to 86400000000000, a day"),
    (FLOW, Decision(delays_ns={1: 1}), "delay of 1 ns of job 1: job 1 is PENDING, allowed: ACTIVE"),
    (FLOW, Decision(classes={1: 1}), "job 1 is PENDING, allowed: ACTIVE"),
    (SHAPE, shape(0, 0), "host h0 has 5000000000 bytes of memory, and its servers would need"),
    (SHAPE, shape(1, sizes=(9 * GB,)), "host h1 has 5000000000 bytes of memory"),
    (SHAPE, shape(0, 1, sizes=(1,)), "model_bytes states 0 or more bytes for each server"),
    (SHAPE, shape(0, sizes=(-1,)), "model_bytes states 0 or more bytes for each server"),
    (SHAPE, shape(0, workers=()), "workers name at least one host, and each once"),
    (SHAPE, shape(0, workers=(1, 1)), "workers name at least one host, and each once"),
    (GROUP, group(((0,), (0,)), ((0,), (1,))), "group 1: job 0 is in two groups"),
    (GROUP, group(((0, 0), (0,))), "group 0: job 0 is in two groups, or twice in one"),
    (GROUP, group(((0,), ())), "group 0 has at least one job and one host"),
    (GROUP, group(((), (0,))), "group 0 has at least one job and one host"),
    (GROUP, group(((0,), (0, 0))), "group 0 names a host twice"),
    (GROUP, group(((0, 1), (0,))), "group 0: job 1 is PENDING, allowed: ACTIVE"),
    # To another question.
    (FLOW, Decision(assign=(FIRST,)), "assign answers place; its class says: flow"),
    (FLOW, Decision(reasons={0: Reason.RUNNING}), "reasons answers place; its class says: flow"),
    (FLOW, Decision(plan=Plan.empty()), "plan answers place; its class says: flow"),
    (FLOW, Decision(groups=()), "groups answers group; its class says: flow"),
    (GROUP, Decision(classes={0: 1}), "classes answers flow; its class says: group"),
    (SHAPE, Decision(delays_ns={0: 1}), "delays_ns answers flow; its class says: shape"),
    (SHAPE, Decision(host_classes={(0, 0): 1}), "host_classes answers flow; its class says: shape"),
    (GROUP, shape(0), "shapes answers shape; its class says: group"),
    # A wake-up that is none.
    (FLOW, Decision(wake_ns=0), "wake_ns is 0; allowed: later than now"),
]


@pytest.mark.parametrize(("question", "answer", "words"), WAYS)
def test_a_wrong_answer_is_refused_in_one_sentence_and_nothing_is_started(
    question: Question, answer: Any, words: str
) -> None:
    # Place answers before flow: it has nothing to say here, so that nothing has a reason to start.
    idle = Answering("idle", lambda view, memory: Decision(), PLACE)
    said, port, journal = refusal(question, answer, idle)
    assert said.startswith("policy wrong: ")
    assert "\n" not in said
    assert words in said
    assert not port.commands
    assert not any(isinstance(one, Step) for one in decode(bytes(journal)))


def test_a_place_policy_answers_nothing_else() -> None:
    run, costs = world()
    flows = Decision(classes={0: 1}), Decision(delays_ns={0: 1})
    for answer in (*flows, shape(0), group(((0,), (0,))), Decision(groups=())):
        wrong = Answering("wrong", lambda view, memory, one=answer: one, PLACE)
        core, port, _ = q.core_of(run, costs, wrong)
        with pytest.raises(InfeasibleDecision, match=r"policy wrong: .*; its class says: place"):
            core.execute()
        assert not port.commands


def test_a_ring_has_no_servers() -> None:
    said, _, _ = refusal(SHAPE, shape(0), sync="ring")
    assert said == "policy wrong: shape of job 0: a ring has no servers"


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (shape(workers=(1,)), "the device is on host h0; the job's shape allows: h1"),
        (group(((0,), (1,))), "the device is on host h0; the job's group allows: h1"),
    ],
)
def test_a_task_outside_of_its_jobs_shape_or_group_is_refused(bound: Decision, words: str) -> None:
    question = GROUP if bound.groups else SHAPE
    binding = Answering("binding", lambda view, memory: bound, question)
    stray = Answering("stray", lambda view, memory: Decision(assign=(FIRST,)), PLACE)
    core, port, _ = q.core_of(*world(), stray, (binding,))
    with pytest.raises(InfeasibleDecision, match=rf"policy stray: .*{words}"):
        core.execute()
    assert not port.commands


def test_a_plan_outside_of_shapes_is_refused_and_later_bounds_come_too_late() -> None:
    run, costs = q.small_world(1)
    zero, ones = np.zeros(2, np.int64), np.ones(2, np.int64)
    rows = Plan(job_R=zero, round_R=np.arange(2), rounds_R=ones, shard_R=zero, device_R=zero)
    planned = Answering("planned", lambda view, memory: Decision(plan=rows), PLACE, offline=True)
    ahead = Answering("ahead", lambda view, memory: shape(workers=(1,)), SHAPE, offline=True)
    core, _, _ = q.core_of(run, costs, planned, (ahead,))
    with pytest.raises(
        InfeasibleDecision, match="policy planned: plan row 0: job 0: the device is"
    ):
        core.execute()
    for answer, question in ((shape(workers=(1,)), SHAPE), (group(((0,), (1,))), GROUP)):
        late = Answering("late", lambda view, memory, one=answer: one, question)
        core, _, _ = q.core_of(run, costs, planned, (late,))
        with pytest.raises(InfeasibleDecision, match="plan has tasks of job 0 on host h0, too"):
            core.execute()


def test_servers_of_jobs_together_must_fit_and_those_of_ended_jobs_take_nothing() -> None:
    run, costs = q.small_world(3)
    run = worlds.run(q.hosts(memory=10 * GB), run.workload.jobs)

    def one_server(view: View, memory: int) -> Decision:
        jobs = [one.job for one in view.changes if isinstance(one, JobArrived)]
        return Decision(shapes={job: Shape(None, (0,), (6 * GB,)) for job in jobs})

    core, _, _ = q.core_of(run, costs, Bound(), (Answering("packing", one_server, SHAPE),))
    with pytest.raises(InfeasibleDecision, match="policy packing: shape of job 1: host h0 has"):
        core.execute()
    apart = [worlds.job(index, arrival_ns=index * 100 * q.S) for index in range(3)]
    core, port, _ = q.core_of(
        worlds.run(run.cluster, apart), costs, Bound(), (Answering("packing", one_server, SHAPE),)
    )
    core.execute()
    assert len(port.of("reshape")) == 3


def test_a_class_of_a_job_that_has_ended_is_refused() -> None:
    late = Answering(
        "late", lambda view, memory: Decision(classes={0: 1}) if view.done_J[0] else Decision(),
        FLOW, triggers=frozenset({RoundsDone}),
    )  # fmt: skip
    core, _, _ = q.core_of(*q.small_world(2, 1), Bound(), (late,))
    with pytest.raises(InfeasibleDecision, match="class 1 of job 0: job 0 is FINISHED"):
        core.execute()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (frozenset(), "answers are a frozenset of Questions, at least one"),
        (frozenset({"speed"}), "answers are a frozenset of Questions"),
        ("flow", "answers are a frozenset of Questions"),
        (frozenset({PLACE}), "place is answered by bound already"),
    ],
)
def test_what_a_policy_says_that_it_answers_is_looked_at(answers: Any, words: str) -> None:
    wrong = Answering("wrong", lambda view, memory: Decision())
    wrong.answers = answers
    with pytest.raises(InfeasibleDecision, match=f"policy wrong: .*{words}"):
        q.core_of(*q.small_world(), Bound(), (wrong,))


def test_a_port_that_does_not_carry_an_answer_refuses_the_run_before_it_starts() -> None:
    run, costs = q.small_world()
    port = RecordingPort(q.SimPort(run, costs), frozenset({PLACE, SHAPE}))
    for policy in q.drawn_policies()[1:]:
        with pytest.raises(InfeasibleDecision, match=r"cannot carry out answers to: (group|flow)"):
            q.core_of(run, costs, Bound(), (policy,), port)
    q.core_of(run, costs, Bound(), q.drawn_policies()[:1], port)


def test_plain_numbers_stand_for_those_of_other_libraries() -> None:
    one, zero = np.int64(1), np.int32(0)
    flow = Decision(classes=MappingProxyType({zero: one}), host_classes={(one, zero): np.int8(2)})
    policies = (
        Answering("s", lambda v, m: Decision(shapes={zero: Shape((zero,), (one,), (one,))}), SHAPE),
        Answering("g", lambda v, m: Decision(groups=(Group((zero,), (zero, one)),)), GROUP),
        Answering("f", lambda v, m: flow, FLOW),
    )
    core, port, journal = q.core_of(*q.small_world(1), Bound(), policies)
    core.execute()
    assert port.of("classify") == [({0: 1}, {(1, 0): 2})]
    assert port.of("reshape") == [{0: Shape((0,), (1,), (1,))}]
    assert port.of("regroup") == [(Group((0,), (0, 1)),)]
    assert len(list(decode(bytes(journal)))) > 2
