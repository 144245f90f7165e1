"""The lanes and the queue of a device, without processes."""

from __future__ import annotations

from live_worlds import job

from warren.live.clock import ClusterClock
from warren.live.control.event_queue import PendingEvents
from warren.live.device.lanes import CommLane, CompLane, LaneTask
from warren.live.emulated_times import PadTable
from warren.live.transport.messages import Assign
from warren.model.events import JobArrived, JobFailed, Woken


def assign(job_index: int, rounds: int = 1, shards: tuple[int, ...] = (0,)) -> Assign:
    return Assign(job_index, job_index, 0, rounds, shards, 0, 0, (0,), 10**9)


PADS = PadTable(pads_J=((10, 4),) * 3)


def work(shard: int, comp_pad_ns: int = 10, sync_pad_ns: int = 4) -> LaneTask:
    return LaneTask(
        seq=1,
        job=0,
        round=0,
        shard=shard,
        comp_pad_ns=comp_pad_ns,
        sync_pad_ns=sync_pad_ns,
    )


def test_a_queue_gives_the_tasks_of_assignments_in_order() -> None:
    queue = CompLane(PADS)
    queue.append(assign(0, rounds=2, shards=(3, 1)))
    queue.append(assign(1))
    assert [(w.job, w.round, w.shard) for w in queue.ahead(3)] == [(0, 0, 3), (0, 0, 1), (0, 1, 3)]
    got = []
    while queue.ahead(1):
        one = queue.pop()
        got.append((one.job, one.round, one.shard))
    assert got == [(0, 0, 3), (0, 0, 1), (0, 1, 3), (0, 1, 1), (1, 0, 0)]


def test_dropping_a_job_keeps_the_order_of_the_others() -> None:
    queue = CompLane(PADS)
    for index in (0, 1, 0, 2):
        queue.append(assign(index, rounds=3))
    queue.ahead(2)
    queue.drop(0)
    assert [w.job for w in queue.ahead(9)] == [1, 1, 1, 2, 2, 2]
    queue.drop(1)
    assert [w.job for w in queue.ahead(9)] == [2, 2, 2]


def test_a_task_that_is_put_back_runs_before_all_others() -> None:
    queue = CompLane(PADS)
    queue.append(assign(0, rounds=2))
    queue.append(assign(1))
    queue.ahead(2)
    first = queue.pop()
    first.start_ns, first.trainer_pid = 7, 8
    queue.put_back(first.again())
    assert [(w.job, w.round) for w in queue.ahead(3)] == [(0, 0), (0, 1), (1, 0)]
    assert (queue.ahead(1)[0].start_ns, queue.ahead(1)[0].trainer_pid) == (0, 0)


def test_a_stretch_of_a_million_rounds_is_not_expanded() -> None:
    queue = CompLane(PADS)
    queue.append(assign(0, rounds=10**9))
    assert len(queue.ahead(2)) == 2


def test_comp_ends_when_the_answer_is_here_and_the_pad_has_passed() -> None:
    one = work(0)
    one.start_ns = 100
    assert one.comp_due_ns is None
    one.result_ns = 105
    assert (one.comp_due_ns, one.overrun) == (110, False)
    one.result_ns = 112
    assert (one.comp_due_ns, one.overrun) == (112, True)
    plain = work(0, 0, 0)
    plain.start_ns, plain.result_ns = 100, 900
    assert (plain.comp_due_ns, plain.overrun, plain.unpadded) == (900, False, True)


def test_pads_of_synchronization_follow_each_other() -> None:
    lane, works = CommLane(), [work(shard) for shard in range(3)]
    for at, one in zip((10, 11, 30), works, strict=True):
        lane.enter(one, at)
    assert [one.sync_due_ns for one in works] == [14, 18, 34]


def test_a_task_leaves_comm_once_its_server_has_its_update() -> None:
    lane, one = CommLane(), work(0)
    lane.enter(one, 10)
    assert lane.leave(50) == []
    assert lane.due_ns() is None
    found = lane.find((0, 0), 0)
    assert found is one
    one.acknowledged_ns = 12
    assert lane.due_ns() == 14
    assert lane.leave(13) == []
    assert lane.leave(14) == [one]
    assert lane.leave(14) == []


def test_a_clock_s_scale_stretches_cluster_time() -> None:
    clock = ClusterClock(1000, 0.05)
    assert clock.host_ns(200) == 1010
    assert clock.cluster_ns(1010) == 200
    assert ClusterClock(1000).cluster_ns(10**18 + 1001) == 10**18 + 1


def test_an_agenda_gives_instants_in_order_and_never_goes_back() -> None:
    pending = PendingEvents([job(0), job(1, arrival_ns=50), job(2, arrival_ns=50)])
    pending.wake_at(50)
    pending.advance(60)
    assert pending.pop() == (JobArrived(0, 0),)
    assert pending.pop() == (JobArrived(50, 1), JobArrived(50, 2), Woken(50))
    pending.wake_at(20)
    pending.advance(60)
    assert pending.pop() == (Woken(50),)
    assert pending.empty


def test_a_failure_comes_after_what_is_known_of_the_job() -> None:
    pending = PendingEvents([job(0, arrival_ns=7)])
    pending.advance(7)
    pending.push(JobFailed(pending.after_known(0, 3), 0, "why"))
    assert pending.pop() == (JobArrived(7, 0),)
    assert pending.pop() == (JobFailed(8, 0, "why"),)
