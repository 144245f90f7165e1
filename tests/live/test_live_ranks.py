"""What an executor does when a rank ends that has not said that it is done."""

from __future__ import annotations

from device_world import Peer, Stage, stage
from live_worlds import job

from warren.live.transport.messages import Assign
from warren.live.transport.ring_messages import AssignRank, BeginRing, RankGone, RankReady
from warren.live.transport.server_messages import FlowClass
from warren.live.transport.sockets import Link, executor_address


def rank(device: Stage, incarnation: int) -> Peer:
    """The rank of a gang sits down at the device, and is mustered for round 2 or 4."""
    peer = Peer(Link(executor_address(device._folder, 0, 0)))
    device._trainers.append(peer)
    peer.say(RankReady(0, incarnation))
    device.controller.say(AssignRank(0, 2 * incarnation, incarnation, 0))
    return peer


def assign(device: Stage, round_no: int) -> None:
    """Two rounds of the ring."""
    what = Assign(round_no, 0, round_no, 2, (0,), 0, 0, (), 10**12, ring=True)
    device.controller.say(what)


def test_a_rank_that_was_ended_after_its_last_barrier_leaves_the_device_to_the_next() -> None:
    """It had no time to say so: its gang moved on, and others had told of the barrier."""
    with stage(job(0, sync="ring", rounds=6)) as device:
        assign(device, 2)
        assign(device, 4)
        assert rank(device, 1).hear(BeginRing).round == 2
        device.controller.say(RankGone(0, 1, 4))
        assert rank(device, 2).hear(BeginRing).round == 4


def test_a_rank_that_is_lost_before_its_last_barrier_has_another_to_follow_it() -> None:
    with stage(job(0, sync="ring", rounds=6)) as device:
        assign(device, 2)
        assign(device, 4)
        assert rank(device, 1).hear(BeginRing).round == 2
        device.controller.say(RankGone(0, 1, 3))
        device.controller.say(AssignRank(0, 2, 2, 0))
        assert rank(device, 2).hear(BeginRing).round == 2


def test_a_rank_learns_the_class_of_its_job_whenever_it_comes() -> None:
    with stage(job(0, sync="ring", rounds=6)) as device:
        device.controller.say(FlowClass(0, 3))
        first = rank(device, 1)
        assert first.hear(FlowClass) == FlowClass(0, 3)
        device.controller.say(FlowClass(0, 3))
        device.controller.say(FlowClass(0, 0))
        assert first.hear(FlowClass) == FlowClass(0, 0)
        device.controller.say(FlowClass(0, 2))
        assert first.hear(FlowClass) == FlowClass(0, 2)
        device.controller.say(RankGone(0, 1, 0))
        assert rank(device, 2).hear(FlowClass) == FlowClass(0, 2)
