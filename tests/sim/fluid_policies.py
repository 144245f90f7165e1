"""Policies that answer at random: tasks far ahead of their turn, classes, hosts of servers."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
from sim_worlds import plan_of

from warren.model.decision import NOTHING, Assignment, Decision, Plan, Question, Reason, Shape
from warren.model.events import CompDone, JobArrived, RoundsDone, Woken
from warren.model.run import Run
from warren.model.view import View

sys.path.insert(0, str(Path(__file__).parents[1]))
from question_worlds import Answering

S = 10**9
KB = 1000


def stretch(draw: random.Random, left: int) -> int:
    """Rounds to do in one go, of those that are left: many where many are left."""
    return min(left, draw.choice([1, 2, 3, 40 if left > 10 else 1]))


class DrawnPlaces:
    """A policy that assigns what comes next of a drawn job to drawn devices, often far ahead."""

    name, source, offline, needs_rounds, plans_rings = "drawn", "test", False, True, True
    triggers = frozenset({JobArrived, CompDone, RoundsDone})

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def initial(self, view: View) -> int:
        return 0

    def decide(self, view: View, memory: int) -> tuple[Decision, int]:
        draw = random.Random(f"{self._seed} {memory}")
        following = {
            job: (int(view.next_round_J[job]), int(view.next_shard_J[job]))
            for job in np.flatnonzero(view.open_J & view.arrived_J).tolist()
        }
        assign = list[Assignment]()
        # Somebody has to be at work; beyond that, as much as chance wants.
        idle = not view.queued_D.any()
        for _ in range(draw.randint(1 if idle else 0, 4)):
            if following:
                assign += self._next(draw, view, following)
        reasons = dict.fromkeys(range(len(view.jobs)), Reason.WAITING_FOR_TURN)
        return Decision(assign=tuple(assign), reasons=reasons), memory + 1

    def _next(
        self, draw: random.Random, view: View, following: dict[int, tuple[int, int]]
    ) -> list[Assignment]:
        job = draw.choice(list(following))
        (round_, shard), scale = following[job], int(view.scale_J[job])
        devices, ring = list(range(len(view.type_D))), view.jobs[job].sync == "ring"
        if shard == 0 and (ring or draw.random() < 0.4):
            rounds = stretch(draw, int(view.rounds_J[job]) - round_)
            # A ring has a device a rank; tasks of a stretch may follow each other on one.
            of = list(range(scale))
            if not ring:
                used = draw.sample(devices, draw.randint(1, min(scale, len(devices))))
                of = [draw.randrange(len(used)) for _ in range(scale)]
            else:
                used = draw.sample(devices, scale)
            found = [
                Assignment(
                    used[at], job, round_, rounds, tuple(k for k in range(scale) if of[k] == at)
                )
                for at in sorted(set(of))
            ]
            if rounds == 1 and not ring:
                found = self._in_order(draw, job, round_, 0, scale, devices)
            following[job] = (round_ + rounds, 0)
        else:
            count = draw.randint(1, scale - shard)
            found = self._in_order(draw, job, round_, shard, count, devices)
            shard += count
            following[job] = (round_, shard) if shard < scale else (round_ + 1, 0)
        if following[job][0] == int(view.rounds_J[job]):
            del following[job]
        return found

    def _in_order(
        self, draw: random.Random, job: int, round_: int, shard: int, count: int, devices: list[int]
    ) -> list[Assignment]:
        """So many tasks from a shard on, in one assignment or one each."""
        if draw.random() < 0.5:
            shards = tuple(range(shard, shard + count))
            return [Assignment(draw.choice(devices), job, round_, 1, shards)]
        return [
            Assignment(draw.choice(devices), job, round_, 1, (one,))
            for one in range(shard, shard + count)
        ]

    def explain(self, view: View, memory: int, job: int) -> str:
        return "waits for chance"


def drawn_flows(seed: int) -> Answering:
    """Other classes for a job or two, now and then; none for some worlds."""
    draws = random.Random(seed).random() < 0.8

    def flow(view: View, memory: int) -> Decision:
        draw = random.Random(f"{seed} flow {memory}")
        active = np.flatnonzero(view.arrived_J & ~view.done_J).tolist()
        if not (draws and active):
            return NOTHING
        classes = {draw.choice(active): draw.randrange(8)} if draw.random() < 0.6 else {}
        single = {}
        if draw.random() < 0.4:
            single[draw.randrange(len(view.hosts.nic_bps_H)), draw.choice(active)] = draw.randrange(
                8
            )
        wake_ns = view.now_ns + draw.randrange(1, 2 * S) if memory < 60 else None
        return Decision(classes=classes, host_classes=single, wake_ns=wake_ns)

    triggers = frozenset({JobArrived, RoundsDone, Woken})
    return Answering("flows", flow, Question.FLOW, triggers=triggers)


def drawn_shapes(seed: int) -> Answering:
    """Hosts of servers for some jobs, before time starts; the others have those of ``static``."""

    def shape(view: View, memory: int) -> Decision:
        draw = random.Random(f"{seed} shape")
        shapes = {}
        for job in range(len(view.jobs)):
            if memory == 0 and view.jobs[job].sync == "ps" and draw.random() < 0.5:
                count = draw.randint(1, 4)
                on = tuple(draw.randrange(len(view.hosts.nic_bps_H)) for _ in range(count))
                sizes = tuple(draw.randint(1, 2000) * KB for _ in on)
                shapes[job] = Shape(None, on, sizes if draw.random() < 0.5 else None)
        return Decision(shapes=shapes)

    return Answering("shapes", shape, Question.SHAPE, triggers=frozenset(), offline=True)


def drawn_plan(seed: int, run: Run) -> Plan:
    """A whole order: jobs cut into stretches of up to three rounds, on drawn devices."""
    draw = random.Random(f"{seed} plan")
    jobs, devices = run.workload.jobs, range(len(run.cluster.devices))
    following, rows = dict.fromkeys(range(len(jobs)), 0), list[tuple[int, int, int, int, int]]()
    while following:
        job = draw.choice(list(following))
        first, scale, end = following[job], jobs[job].scale, jobs[job].rounds or 0
        rounds = stretch(draw, end - first)
        if jobs[job].sync == "ring":
            on = draw.sample(devices, scale)
        else:
            on = [draw.choice(devices) for _ in range(scale)]
        rows += [(job, first, rounds, shard, on[shard]) for shard in range(scale)]
        following[job] += rounds
        if following[job] == end:
            del following[job]
    return plan_of(rows)
