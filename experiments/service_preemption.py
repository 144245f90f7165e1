"""What preemption by policy does for the mean time of commands, in a service without processes.

A day of 30 commands with a heavy tail on two hosts of four devices: six kinds, whose typical
lengths go from a minute to six hours. All of them can come back; saving takes 20 s, loading 40 s.
The service is played by its own daemon over hosts without processes, under each rule with and
without preemption, for the same drawn days. A first day with the same kinds is the history.

    python experiments/service_preemption.py [--days 12]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from _common import save

from warren.serve.daemon.daemon import Daemon
from warren.serve.hosts.fake import FakeHosts, Played, fake_machine
from warren.serve.hosts.played_time import PlayedTimeLoop
from warren.serve.hosts.port import StartOrder
from warren.serve.journal.journal import Journal
from warren.serve.queue.requests import submit
from warren.serve.records.jobs import CommandSpec, JobState, Resume, ServiceJob, Submission
from warren.serve.records.users import Caller
from warren.serve.schedule.known_lengths import progress_s
from warren.serve.schedule.policy_order import PlacePolicy
from warren.serve.schedule.preemption import RULES

DAY_S = 86_400.0
COMMANDS = 30
"""Commands a day."""
KINDS = {"smoke": 90, "tune": 600, "eval": 1_800, "train": 7_200, "large": 14_400, "sweep": 3_600}
"""Typical length of each kind in seconds; single lengths spread by a factor around it."""
SAVE_S, LOAD_S = 20.0, 40.0
"""Time to save and to load, in seconds."""
RULES_OF = {
    "fair shares": (None, False),
    "gittins": ("gittins", False),
    "gittins, preemption": ("gittins", True),
    "srtf": ("srtf", False),
    "srtf, preemption": ("srtf", True),
    "las-2d": ("las-2d", False),
    "las-2d, preemption": ("las-2d", True),
}
"""Name of a row to its place policy, and whether it preempts."""


class Wanted(NamedTuple):
    """A command of a day: when it comes, its kind, its devices, and its length, in seconds."""

    at_s: float
    kind: str
    user: str
    devices: int
    length_s: float


def drawn_day(draw: random.Random, begin_s: float) -> list[Wanted]:
    """The commands of a day; most come in ten hours of it."""
    found = []
    for _ in range(COMMANDS):
        kind = draw.choice(list(KINDS))
        length_s = KINDS[kind] * draw.lognormvariate(0.0, 0.5)
        if draw.random() < 0.1:
            length_s *= draw.paretovariate(1.2)
        found.append(
            Wanted(
                at_s=begin_s + draw.uniform(0, 36_000),
                kind=kind,
                user=draw.choice(("ana", "ben", "eve")),
                devices=draw.choice((1, 1, 1, 2, 2, 4)),
                length_s=min(length_s, DAY_S),
            )
        )
    return sorted(found)


async def submit_all(
    daemon: Daemon, loop: PlayedTimeLoop, day: list[Wanted], lengths_s: dict[str, float]
) -> None:
    """Submit all commands, each at its time, and note their lengths by id."""
    for one in day:
        await asyncio.sleep(max(0.0, one.at_s - loop.time()))
        made = CommandSpec(
            command=("python", f"{one.kind}.py"),
            folder="/",
            devices=one.devices,
            resume=Resume(certificate="exact", checkpoints="/shared"),
        )
        caller = Caller(one.user)
        wanted = partial(submit, submissions=[Submission(made)], caller=caller)
        answers = daemon.ask(lambda queue, now, ask=wanted: ask(queue, now_ns=now)).answers
        lengths_s[answers[0].id] = one.length_s


def played(day: list[Wanted], policy: str | None, *, preempts: bool) -> dict[str, Any]:
    """Play a service, and return what became of the commands of its second day."""
    lengths_s: dict[str, float] = {}
    daemons: list[Daemon] = []

    def plays(order: StartOrder) -> Played:
        job = daemons[0].queue.jobs[order.environment["WARREN_JOB_ID"]]
        # Neither saving nor loading is progress; each earlier attempt has saved.
        before = len(job.attempts) - 1
        around_s = before * SAVE_S + max(0, before - 1) * LOAD_S
        done_s = progress_s(job, 0) - around_s
        load_s = LOAD_S if before else 0.0
        return Played(load_s + max(1.0, lengths_s[job.id] - done_s), stop_s=SAVE_S)

    async def main(folder: Path) -> list[ServiceJob]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PlayedTimeLoop)
        hosts = FakeHosts([fake_machine(f"h{i}", 4) for i in range(2)], plays, now_ns=loop.now_ns)
        with Journal(folder / "queue.db") as journal:
            journal._db.execute("PRAGMA synchronous = OFF")
            daemon = Daemon(
                journal,
                hosts,
                policy=None if policy is None else PlacePolicy(policy),
                preempts=RULES if preempts else None,
                now_ns=loop.now_ns,
                tick_s=300.0,
            )
            daemons.append(daemon)
            await daemon.start()
            await submit_all(daemon, loop, day, lengths_s)
            while not all(job.state.ended for job in daemon.queue.jobs.values()):
                await daemon.changed.wait(daemon.changed.count)
            await daemon.stop()
            return list(daemon.queue.jobs.values())

    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=PlayedTimeLoop) as runner,
    ):
        return summary(runner.run(main(Path(folder))))


def summary(jobs: list[ServiceJob]) -> dict[str, Any]:
    """Return what became of the commands of the second day."""
    second = jobs[COMMANDS:]
    jct_s = [((job.ended_ns or 0) - job.submitted_ns) / 1e9 for job in second]
    return {
        "finished": sum(job.state is JobState.FINISHED for job in jobs),
        "mean_jct_s": mean(jct_s),
        "worst_jct_s": max(jct_s),
        "preempted": sum(one.cause == "preempt" for job in second for one in job.attempts),
        "most_preemptions_of_a_job": max(
            sum(one.cause == "preempt" for one in job.attempts) for job in jobs
        ),
    }


def main() -> None:
    """Play all days under each rule, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = []
    for name, (policy, preempts) in RULES_OF.items():
        found = []
        for seed in range(options.seed, options.seed + options.days):
            draw = random.Random(seed)
            day = [*drawn_day(draw, 0.0), *drawn_day(draw, DAY_S)]
            found.append(played(day, policy, preempts=preempts))
        row = {
            "rule": name,
            "days": options.days,
            "finished": sum(one["finished"] for one in found),
            "of": 2 * COMMANDS * options.days,
            "mean_jct_s": round(mean(one["mean_jct_s"] for one in found), 1),
            "mean_worst_jct_s": round(mean(one["worst_jct_s"] for one in found), 1),
            "preemptions_a_day": round(mean(one["preempted"] for one in found), 2),
            "most_preemptions_of_a_job": max(one["most_preemptions_of_a_job"] for one in found),
        }
        rows.append(row)
        print(row)
    save("service_preemption", options.seed, {"rows": rows})


if __name__ == "__main__":
    main()
