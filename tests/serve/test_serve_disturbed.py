"""Nothing is lost and nothing starts twice, whatever happens to daemon, hosts, messages and disk.

A drawn story submits and cancels jobs while the daemon is killed at any point of its work, hosts
are lost, come back or start again, messages come late or twice, and the disk is full for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from fake_service import TestJournal, cancel_one, daemon_of, fake_hosts, play, submit_one

from warren.serve.daemon.daemon import Daemon
from warren.serve.hosts.fake import FakeHosts, Played, Trouble
from warren.serve.hosts.port import StartOrder
from warren.serve.journal.journal import JournalWriteError
from warren.serve.records.events import AnyEvent
from warren.serve.records.jobs import JobState


class KilledDaemon(BaseException):
    """The daemon is dead; what it still does has no effect."""


class MortalJournal(TestJournal):
    """A journal whose daemon is killed before or after the write that uses ``left`` up."""

    def __init__(self, path: Path, left: int, written: bool) -> None:
        super().__init__(path)
        self.left, self.written = left, written

    @property
    def dead(self) -> bool:
        return self.left < 0

    def append(self, events: Sequence[AnyEvent]) -> None:
        if self.dead:
            raise KilledDaemon
        self.left -= bool(events)
        if self.left >= 0 or self.written:
            super().append(events)
        if self.dead:
            raise KilledDaemon


class Story:
    """A drawn story, and what it promised: jobs that were answered, cancels that were."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.path = folder / "queue.db"
        self.hosts = fake_hosts(
            count=3,
            devices=4,
            plays=self.plays,
            seed=seed,
            trouble=Trouble(delay_s=self.random.choice([0, 0.02, 0.5]), repeated=0.3),
        )
        self.away: dict[str, None] = {}
        self.answered: dict[str, int] = {}
        self.cancelled: dict[str, None] = {}
        self.unsure: dict[str, None] = {}
        self.lived = 0

    def plays(self, order: StartOrder) -> Played:
        code = int(order.environment["CODE"])
        return Played(self.random.expovariate(0.5), exit_code=code, stop_s=self.random.random())

    async def tell(self, steps: int) -> Daemon:
        daemon = await self.new_daemon()
        for _ in range(steps):
            await asyncio.sleep(self.random.expovariate(5))
            # An action may meet a daemon that dies of it.
            acts = self.random.choices(
                [self.submit, self.cancel, self.host, self.disk, self.kill], [12, 4, 3, 1, 1]
            )
            with suppress(KilledDaemon, JournalWriteError):
                acts[0](daemon)
            if self.journal.dead:
                daemon = await self.after_death(daemon)
        self.journal.full = False
        self.journal.left = 1 << 60
        for name in self.away:
            self.hosts.bring_back(name)
        return daemon

    async def new_daemon(self) -> Daemon:
        while True:
            self.lived += 1
            self.journal = MortalJournal(
                self.path, self.random.choice([0, 1, 5, 30, 100]), self.random.random() < 0.5
            )
            daemon = daemon_of(self.journal, self.hosts)
            try:
                await daemon.start()
                return daemon
            except KilledDaemon:
                await self.bury(daemon)

    async def after_death(self, daemon: Daemon) -> Daemon:
        await self.bury(daemon)
        await asyncio.sleep(self.random.choice([0, 1, 10]))
        return await self.new_daemon()

    async def bury(self, daemon: Daemon) -> None:
        """End what is left of a killed daemon in this process."""
        self.hosts.cut()
        await daemon.stop()
        self.journal.close()

    def submit(self, daemon: Daemon) -> None:
        code, devices = self.random.choice([0, 0, 7]), self.random.choice([1, 1, 2, 4])
        job = submit_one(daemon, devices=devices, environment={"CODE": str(code)})
        self.answered[job] = code

    def cancel(self, daemon: Daemon) -> None:
        open_jobs = [name for name in self.answered if not daemon.queue.jobs[name].state.ended]
        if open_jobs:
            job = self.random.choice(open_jobs)
            self.unsure[job] = None  # it may be on disk without an answer
            cancel_one(daemon, job)
            self.cancelled[job] = None

    def host(self, _: Daemon) -> None:
        name = self.random.choice(["h0", "h1", "h2"])
        if name in self.away:
            del self.away[name]
            self.hosts.bring_back(name)
        else:
            self.away[name] = None
            self.random.choice([self.hosts.lose, self.hosts.lose, self.hosts.restart])(name)

    def disk(self, _: Daemon) -> None:
        self.journal.full = not self.journal.full

    def kill(self, _: Daemon) -> None:
        self.journal.left = -1


# In 84 a join is reported twice while a start is on its way, in 309 it waits for the disk until
# its connection has ended.
@pytest.mark.parametrize("seed", [*range(8), 84, 309])
def test_no_job_is_lost_or_started_twice(seed: int, tmp_path: Path) -> None:
    story = Story(seed, tmp_path)

    async def main() -> Daemon:
        daemon = await story.tell(steps=120)
        async with asyncio.timeout(1000):
            while not all(job.state.ended for job in daemon.queue.jobs.values()):
                await daemon.changed.wait(daemon.changed.count)
        await asyncio.sleep(60)  # what has ended is forgotten
        await daemon.stop()
        return daemon

    daemon = play(main(), ignore=KilledDaemon)
    check(story, daemon, story.hosts)


def check(story: Story, daemon: Daemon, hosts: FakeHosts) -> None:
    """0 lost, 0 twice, no device with two, each end as it was."""
    jobs = daemon.queue.jobs
    assert story.lived > 2
    assert set(story.answered) <= set(jobs)
    assert len(hosts.starts) == len(set(hosts.starts)) > 15
    assert not hosts.clashes
    assert not hosts.running
    assert not hosts.known
    begun = {f"{job.id}.{a.number}" for job in jobs.values() for a in job.attempts}
    assert set(hosts.starts) <= begun
    for name, code in story.answered.items():
        job = jobs[name]
        if job.state is JobState.CANCELLED:
            assert name in story.unsure
        elif job.reason or (job.attempt and job.attempt.exit_code is None):
            assert job.state is JobState.FAILED  # its machine started again
        else:
            assert job.state is (JobState.FAILED if code else JobState.FINISHED)
            assert job.attempt is not None
            assert job.attempt.exit_code == code
    for name in story.cancelled:
        assert jobs[name].state in (JobState.CANCELLED, JobState.FINISHED, JobState.FAILED)
    # The journal tells the same story once more.
    with TestJournal(story.path) as journal:
        again = daemon_of(journal, hosts)
    assert {name: job.state for name, job in again.queue.jobs.items()} == {
        name: job.state for name, job in jobs.items()
    }
