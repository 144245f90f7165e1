"""Four questions: asked in order, each when it is due, recorded, replayed and told again."""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_faults import Cut, Disk, FaultyPort, Trouble
from journal_replay import replay

from warren.core.journal import (
    AnswersStep,
    CopyStep,
    DelayStep,
    PlanAdopted,
    PlanRun,
    Step,
    encode,
    step_of,
)
from warren.core.journal_reader import decode, read_history
from warren.core.resume import catch_up
from warren.core.scheduling_rules import check_invariants
from warren.model.decision import NOTHING, Decision, Group, Plan, Question, Reason, Shape
from warren.model.events import CompDone, JobArrived, RoundsDone, ServersMoved, Woken
from warren.model.run import Run, Truth
from warren.model.view import View
from warren.policy.protocol import is_blind
from warren.policy.registry import place_policy
from warren.sim.build import sim_port

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds as q
import worlds
from question_worlds import Answering, Bound, RecordingPort, S

GROUP, SHAPE, PLACE, FLOW = Question


def drawn_world(seed: int, jobs: int = 6) -> tuple[Run, Any]:
    return q.on_hosts(*worlds.random_world(seed, jobs=jobs))


def test_questions_are_asked_in_order_and_each_sees_what_came_before() -> None:
    seen: list[tuple[str, Any]] = []

    def shape(view: View, memory: int) -> Decision:
        seen.append(("shape", (view.groups, int(view.group_J[0]), view.servers_J[0])))
        return Decision(shapes={0: Shape((1,), (0, 1))})

    def group(view: View, memory: int) -> Decision:
        seen.append(("group", (int(view.group_J[0]), view.shape_J[0])))
        return Decision(groups=(Group((0,), (0, 1)),))

    def flow(view: View, memory: int) -> Decision:
        seen.append(("flow", (view.groups, int(view.group_J[0]), view.queued_D.tolist())))
        return Decision(classes={0: 3}, host_classes={(1, 0): 5})

    class Place(Bound):
        def decide(self, view: View, memory: None) -> tuple[Decision, None]:
            bound = int(view.group_J[0]), view.shape_J[0], int(view.class_J[0])
            seen.append(("place", bound))
            return super().decide(view, memory)

    policies = (
        Answering("f", flow, FLOW), Answering("g", group, GROUP), Answering("s", shape, SHAPE),
    )  # fmt: skip
    core, port, _ = q.core_of(*q.small_world(1, 1), Place(), policies)
    core.execute()
    assert seen[:4] == [
        ("group", (-1, None)),
        ("shape", ((Group((0,), (0, 1)),), 0, (0,))),
        ("place", (0, Shape((1,), (0, 1)), 0)),
        ("flow", ((Group((0,), (0, 1)),), 0, [0, 0, 1, 0])),
    ]
    assert [name for name, _ in port.commands] == ["reshape", "regroup", "submit", "classify"]
    assert port.of("classify") == [({0: 3}, {(1, 0): 5})]


def test_a_policy_is_asked_after_its_triggers_and_its_own_wake_ups_alone() -> None:
    def waking(view: View, memory: int) -> Decision:
        return Decision(wake_ns=view.now_ns + 300_000_000) if memory < 3 else NOTHING

    flow = Answering("flow", waking, FLOW, triggers=frozenset({JobArrived}))
    shape = Answering("shape", lambda view, memory: NOTHING, SHAPE, triggers=frozenset({Woken}))
    group = Answering("group", lambda v, m: NOTHING, GROUP, triggers=frozenset({RoundsDone}))
    core, _, _ = q.core_of(*q.small_world(1, 2), Bound(), (flow, shape, group))
    core.execute()
    ms = S // 1000
    assert [at // ms for at, _ in flow.asked] == [0, 300, 600, 900]
    assert [names for _, names in flow.asked] == [("JobArrived",), *[("Woken",)] * 3]
    # It named wake-ups, but asked for none of its own.
    assert not shape.asked
    assert [at // ms for at, _ in group.asked] == [1500, 3000]
    assert core.explain(0, FLOW) == "flow was asked 4 times"
    assert core.explain(0, GROUP) == "group was asked 2 times"
    assert core.explain(0) == "waits for a device of its hosts"
    alone, _, _ = q.core_of(*q.small_world(1), Bound())
    assert alone.explain(0, FLOW) == "no policy answers flow"


def test_a_joint_policy_is_asked_once_and_all_it_answers_counts() -> None:
    bound = Bound()

    def both(view: View, memory: int) -> Decision:
        decision, _ = bound.decide(view, None)
        classes = {job: 2 for job in q.active(view) if not view.class_J[job]}
        return Decision(assign=decision.assign, classes=classes)

    joint = Answering("joint", both, PLACE, FLOW, triggers=Bound.triggers)
    core, port, journal = q.core_of(*q.small_world(2), joint)
    state = core.execute()
    assert state.done_J.all()
    assert port.of("classify") == [({0: 2}, {}), ({1: 2}, {})]
    times = [at for at, _ in joint.asked]
    assert times == sorted(set(times))
    assert read_history(bytes(journal)).classes_of(1) == [(0, 0), (S, 2)]


def test_a_blind_policy_sees_no_more_beside_one_that_knows_all() -> None:
    seen: list[tuple[str, int, int, int]] = []

    def look(name: str) -> Any:
        def answer(view: View, memory: int) -> Decision:
            lengths = {len(view.jobs), len(view.class_J), len(view.shape_J), len(view.servers_J)}
            assert len(lengths) == 1
            seen.append((name, view.now_ns // S, len(view.jobs), int(view.rounds_J[0])))
            return NOTHING

        return answer

    flow = Answering("blind", look("blind"), FLOW)
    shape = Answering("sighted", look("sighted"), SHAPE, needs_rounds=True)
    core, _, _ = q.core_of(*q.small_world(3), Bound(), (flow, shape))
    core.execute()
    assert seen == [
        ("sighted", 0, 3, 2), ("blind", 0, 1, -1), ("sighted", 1, 3, 2), ("blind", 1, 2, -1),
        ("sighted", 2, 3, 2), ("blind", 2, 3, -1),
    ]  # fmt: skip


def test_what_a_view_shows_of_answers_and_hosts_cannot_be_written() -> None:
    def tries(view: View, memory: int) -> Decision:
        columns = (view.class_J, view.group_J, view.hosts.host_D, view.hosts.memory_H)
        for column in (*columns, view.hosts.nic_bps_H, view.hosts.intra_bps_H):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 1
        for what, key in ((view.shape_J, 0), (view.servers_J, 0), (view.host_classes, (0, 0))):
            with pytest.raises(TypeError, match="does not support item assignment"):
                what[key] = None  # type: ignore[index]
        with pytest.raises(IndexError, match="of 1 that are shown"):
            view.shape_J[1]
        assert view.shape_J[-1] is None
        assert view.servers_J[0:1] == ((0,),)
        return NOTHING

    flow = Answering("flow", tries, FLOW)
    core, _, _ = q.core_of(*q.small_world(1), Bound(), (flow,))
    core.execute()
    assert flow.asked
    hosts = core.state.view().hosts
    assert hosts.devices_H.tolist() == [2, 2]
    assert hosts.devices_HT.sum(axis=1).tolist() == [2, 2]
    assert hosts.host_D.tolist() == [0, 0, 1, 1]
    assert hosts.memory_H.tolist() == [-1, -1]
    assert hosts.nic_bps_H.tolist() == [25e9, 25e9]
    assert np.isinf(hosts.intra_bps_H).all()


def test_a_class_of_the_whole_job_replaces_those_on_single_hosts_and_ends_with_the_job() -> None:
    answers = iter(
        [
            Decision(classes={0: 1}, host_classes={(0, 0): 4, (1, 0): 1}),
            Decision(host_classes={(0, 0): 5, (1, 0): 6}),
            Decision(classes={0: 2}, host_classes={(1, 0): 7}),
        ]
    )
    found: list[Any] = []

    def flow(view: View, memory: int) -> Decision:
        found.append((int(view.class_J[0]), dict(view.host_classes)))
        return next(answers, NOTHING)

    policy = Answering("flow", flow, FLOW, triggers=frozenset({RoundsDone, JobArrived}))
    core, _, journal = q.core_of(*q.small_world(1, 4), Bound(), (policy,))
    state = core.execute()
    assert found[:4] == [
        (0, {}), (1, {(0, 0): 4}), (1, {(0, 0): 5, (1, 0): 6}), (2, {(1, 0): 7}),
    ]  # fmt: skip
    assert not state.answers.host_classes
    history = read_history(bytes(journal))
    step = 1_500_000_000
    assert history.classes_of(0) == [(0, 0), (0, 1), (2 * step, 2)]
    assert history.classes_of(0, host=0) == [(0, 0), (0, 4), (step, 5), (2 * step, 2)]
    assert history.classes_of(0, host=1) == [(0, 0), (0, 1), (step, 6), (2 * step, 7)]


def test_a_journal_without_other_answers_is_what_it_was() -> None:
    for name in ("srtf", "hlas", "hare"):
        run, costs = drawn_world(3)
        plain, _, journal = q.core_of(run, costs, place_policy(name))
        plain.execute()
        silent = [
            Answering("s", lambda view, memory: NOTHING, SHAPE),
            Answering("f", lambda view, memory: Decision(), FLOW, triggers=frozenset({RoundsDone})),
        ]
        beside, _, other = q.core_of(run, costs, place_policy(name), silent)
        beside.execute()
        # Of a plan each step is told, since the others are asked at events.
        if name != "hare":
            assert bytes(journal) == bytes(other)
        assert not any(type(one) is AnswersStep for one in decode(bytes(other)))


def test_one_record_holds_all_that_was_answered_and_gives_it_back() -> None:
    decision = Decision(
        classes={1: 2},
        host_classes={(0, 1): 3},
        shapes={0: Shape((1,), (0, 0), (5, 6)), 1: Shape(None, ())},
        groups=(Group((0, 1), (1,)),),
        wake_ns=9,
        reasons={0: Reason.RUNNING},
    )
    step = step_of((Woken(3),), decision, (11,))
    assert isinstance(step, CopyStep)
    (back,) = decode(b"warren journal 1\n" + encode(step))
    assert back == step
    assert type(back) is AnswersStep
    told = back.answers
    assert (told.classes, told.host_classes) == (decision.classes, decision.host_classes)
    assert (told.shapes, told.groups) == (decision.shapes, decision.groups)
    assert (back.wake_ns, back.later_wakes_ns) == (9, (11,))
    assert type(step_of((Woken(3),), Decision(wake_ns=9))) is Step
    # Delays have a record of their own: one without them is what it always was.
    step = step_of((Woken(3),), Decision(delays_ns={1: 7}, classes={1: 2}))
    (back,) = decode(b"warren journal 1\n" + encode(step))
    assert back == step
    assert isinstance(back, DelayStep)
    assert (back.answers.delays_ns, back.answers.classes) == ({1: 7}, {1: 2})


@pytest.mark.parametrize("seed", range(6))
def test_a_journal_with_all_questions_leads_to_the_same_state_and_history(seed: int) -> None:
    run, costs = drawn_world(seed)
    core, port, journal = q.core_of(run, costs, Bound(), q.drawn_policies())
    state = core.execute()
    assert state.done_J.all()
    again = replay(bytes(journal), run, costs, blind=is_blind(core.policy))
    check_invariants(again)
    for column in ("class_J", "group_J"):
        assert np.array_equal(getattr(again.answers, column), getattr(state.answers, column))
    assert again.answers.shape_J == state.answers.shape_J
    assert again.answers.host_classes == state.answers.host_classes
    history = read_history(bytes(journal))
    assert [groups for _, groups in history.groups_over_time()] == port.of("regroup")
    assert any(port.of("delay"))
    for job in range(len(run.workload.jobs)):
        assert history.classes_of(job)[-1][1] == state.answers.class_J[job]
        delays = [one[job] for one in port.of("delay") if job in one]
        assert [delay_ns for _, delay_ns in history.delays_of(job)] == delays
        shapes = [shape for _, shape in history.shapes_of(job)]
        assert shapes == [one[job] for one in port.of("reshape") if job in one]
        assert shapes[-1] == state.answers.shape_J[job]


def cut_run(
    run: Run, costs: Any, journal: bytearray, disk: Disk, place: Any, cut_at: int | None
) -> RecordingPort | None:
    """Begin, or go on where the journal ends; its port if it came to its end."""
    inner = FaultyPort(run, costs, Trouble(seed=1, rate=0.05), disk, cut_at)
    port = RecordingPort(inner)
    core, _, written = q.core_of(run, costs, place, q.drawn_policies(), port)
    core.sink = journal.extend
    restart, size = catch_up(core, bytes(journal))
    assert not port.commands, "nothing is told while it catches up"
    assert not written
    standing = core.state.answers
    classes, shapes = standing.classes(core.state.done_J), dict(standing.shapes)
    del journal[size:]
    port.resume(restart)
    with suppress(Cut):
        core.execute()
    if size and classes:
        assert port.of("classify")[0][0] == classes
    if size and shapes:
        assert port.of("reshape")[0] == shapes
    return None if inner._calls == cut_at else port


@pytest.mark.parametrize("place", ["bound", "srtf", "hare", "hlas"])
def test_a_run_that_is_cut_off_goes_on_with_all_answers(place: str) -> None:
    resumed = 0
    for seed in range(12):
        run, costs = drawn_world(seed)
        journal, disk, draw = bytearray(), Disk(), random.Random(seed)
        for _ in range(3):
            policy = Bound() if place == "bound" else place_policy(place)
            if cut_run(run, costs, journal, disk, policy, draw.randint(2, 40)):
                break
            del journal[draw.randint(len(journal) // 2, len(journal)) :]
        policy = Bound() if place == "bound" else place_policy(place)
        cut_run(run, costs, journal, disk, policy, None)
        history = read_history(bytes(journal))
        assert (history.finish_ns_J >= 0).all()
        assert history.answers
        resumed += history.resumed
        state = replay(bytes(journal), run, costs)
        check_invariants(state)
        assert state.done_J.all()
    assert resumed > 10


def test_a_delay_that_was_not_served_is_void_when_a_run_goes_on() -> None:
    run, costs = q.small_world(2, rounds=3)

    def flow(view: View, memory: int) -> Decision:
        return Decision(classes={0: 2}, delays_ns={0: S}) if memory == 0 else NOTHING

    first, told, journal = q.core_of(run, costs, Bound(), (Answering("f", flow, FLOW),))
    first.begin()
    first.step(first.port.next_events())
    assert told.of("delay") == [{0: S}]
    core, port, _ = q.core_of(run, costs, Bound(), (Answering("f", flow, FLOW),))
    catch_up(core, bytes(journal))
    core.go_on()
    assert port.commands == [("classify", ({0: 2}, {}))]


def test_a_plan_runs_event_by_event_while_others_are_asked() -> None:
    run, costs = drawn_world(2)
    shape = Answering(
        "ahead", lambda v, m: Decision(shapes={0: Shape(None, (1,))}) if not m else NOTHING, SHAPE,
        offline=True,
    )  # fmt: skip
    core, port, journal = q.core_of(
        run, costs, place_policy("hare"), (shape, *q.drawn_policies()[1:])
    )
    state = core.execute()
    assert state.done_J.all()
    records = list(decode(bytes(journal)))
    assert isinstance(records[1], AnswersStep)
    assert not records[1].events
    assert isinstance(records[2], PlanAdopted)
    assert not any(isinstance(one, PlanRun) for one in records)
    assert port.commands[0] == ("reshape", {0: Shape(None, (1,))})
    alone, _, plain = q.core_of(run, costs, place_policy("hare"))
    alone.execute()
    with_others, without = (read_history(bytes(one)) for one in (journal, plain))
    assert np.array_equal(with_others.finish_ns_J, without.finish_ns_J)


def test_a_joint_policy_may_plan() -> None:
    run, costs = q.small_world(1)
    zero = np.zeros(2, np.int64)
    rows = Plan(job_R=zero, round_R=np.arange(2), rounds_R=zero + 1, shard_R=zero, device_R=zero)
    joint = Answering("joint", lambda v, m: Decision(plan=rows), PLACE, FLOW, offline=True)
    core, _, journal = q.core_of(run, costs, joint)
    core.execute()
    assert any(isinstance(one, PlanRun) for one in decode(bytes(journal)))


def test_two_wake_ups_of_one_instant_are_both_kept() -> None:
    def waking(after: int) -> Any:
        return lambda view, memory: Decision(wake_ns=view.now_ns + after) if not memory else NOTHING

    flow = Answering("flow", waking(400), FLOW)
    shape = Answering("shape", waking(200), SHAPE)
    core, _, journal = q.core_of(*q.small_world(1), Bound(), (flow, shape))
    core.execute()
    first = next(one for one in decode(bytes(journal)) if isinstance(one, Step))
    assert isinstance(first, AnswersStep)
    assert (first.wake_ns, first.later_wakes_ns) == (200, (400,))
    assert [at for at, _ in shape.asked] == [0, 200]
    assert [at for at, _ in flow.asked] == [0, 400]


def test_a_flow_policy_that_only_wakes_does_not_keep_a_stuck_run_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("warren.core.loop.IDLE_WAKES", 50)
    idle = Answering("idle", lambda view, memory: NOTHING, PLACE)
    flow = Answering(
        "flow", lambda v, m: Decision(classes={0: 1 + m % 7}, wake_ns=v.now_ns + 5), FLOW
    )
    core, _, _ = q.core_of(*q.small_world(1), idle, (flow,))
    with pytest.raises(Exception, match=r"policy idle left 1 job\(s\) waiting for ever"):
        core.execute()


def test_late_tasks_are_copied_within_shapes_while_classes_change() -> None:
    """One device is five times as slow as it says; copies go to hosts that the shape allows."""
    listed = [worlds.job(index, scale=2, rounds=3) for index in range(2)]
    base = worlds.run(q.hosts(2, 3), listed)
    run = replace(base, scheduler=replace(base.scheduler, copies_after=1.5))
    costs = worlds.costs([[1.0]] * 2, [[0.1]] * 2)
    slow = replace(run, truth=Truth(task_cv=1.5, seed=4))
    bound = Answering(
        "bound", lambda v, m: Decision(shapes={job: Shape((job,), ()) for job in (0, 1)}), SHAPE,
        offline=True, triggers=frozenset(),
    )  # fmt: skip
    flow = q.drawn_policies()[2]
    port = RecordingPort(sim_port(slow, costs))
    core, _, journal = q.core_of(slow, costs, Bound(), (bound, flow), port)
    state = core.execute()
    assert state.done_J.all()
    steps = [one for one in decode(bytes(journal)) if isinstance(one, CopyStep)]
    copies = [copy for one in steps for copy in one.copy]
    assert copies
    assert all(state.answers.host_D[one.device] == one.job for one in copies)
    assert read_history(bytes(journal)).copies == len(copies)
    check_invariants(replay(bytes(journal), slow, costs, blind=True))


def test_a_policy_is_woken_by_the_event_and_not_by_what_comes_before_it() -> None:
    """Live a wake-up may come late, after other events of its time."""
    run, costs = q.small_world(1)
    flow = Answering("flow", lambda v, m: Decision(wake_ns=5) if not m else NOTHING, FLOW)
    core, _, _ = q.core_of(run, costs, Bound(), (flow,))
    core.begin()
    core.step((JobArrived(0, 0),))
    one = core.state.queues[0][0]
    core.step((CompDone(7, 0, 0, 1, one.shards, 0),))
    core.step((Woken(8),))
    core.step((Woken(9),))
    assert flow.asked == [(0, ("JobArrived",)), (8, ("Woken",))]


def test_servers_that_stay_where_they_are_stand_in_place_of_those_that_a_shape_names() -> None:
    core, _, _ = q.core_of(*q.small_world(1, 1), Bound(), ())
    state = core.state
    state.apply(JobArrived(0, 0))
    state.answer(Decision(shapes={0: Shape((1,), (1, 1), (5, 6))}))
    state.apply(ServersMoved(1, 0, 1, 9, 9, (1, 1), (5, 6)))
    assert state.answers.shapes[0] == Shape((1,), (1, 1), (5, 6))
    state.apply(ServersMoved(2, 0, 1, 0, 0, (0,), (), "a new one ended"))
    assert state.answers.shapes[0] == state.answers.shape_J[0] == Shape((1,), (0,))
    assert state.answers.servers_J[0] == (0,)
    assert not state.answers.allows(0, 0)  # what the shape says of workers still binds
