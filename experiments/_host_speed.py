"""A host of a testbed that becomes faster while a job trains: its quota of processors grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Final

from warren.core.journal_reader import read_history
from warren.live.testbed.cpu_quota import make_quota, quota_of
from warren.live.testbed.namespaces import places
from warren.model.errors import JournalError

During = Callable[[Path, Event], None]
"""What goes on beside a run: is given its folder, and an event that is set when the run ends."""
LOOKS_S: Final = 0.5


def quota_cgroup(testbed: str, host: str) -> Path:
    """The folder of the cgroup that limits a host of a testbed that is up."""
    (place,) = places(testbed, [host])
    assert place.cgroup, f"{host} has no quota"
    return Path(place.cgroup)


def passed_s(folder: Path) -> float:
    """When the newest barrier of a run passed, in its own time; 0 before the first one."""
    try:
        rounds = read_history((folder / "journal").read_bytes()).rounds
    except (FileNotFoundError, JournalError):  # it has hardly begun
        return 0.0
    return rounds[-1].barrier_ns / 1e9 if rounds else 0.0


@dataclass(slots=True)
class Quicker:
    """Multiply the quota of a host ``times`` after the first barrier from second ``at_s`` on.

    ``done_s``: the newest barrier when that was done, so that what began before it had the old
    quota. The quota must be put back: a testbed whose quota is not the recorded one takes no run.
    """

    cgroup: Path
    at_s: float
    times: float = 2.0
    done_s: list[float] = field(default_factory=list)

    def __call__(self, folder: Path, ended: Event) -> None:
        """Wait beside a run, and do it once."""
        quota = quota_of(self.cgroup)
        assert quota is not None, f"{self.cgroup} has no quota"
        cpus, _ = quota
        while not ended.wait(LOOKS_S):
            if passed_s(folder) >= self.at_s:
                make_quota(self.cgroup, self.times * cpus)
                self.done_s.append(passed_s(folder))
                break
        ended.wait()
        make_quota(self.cgroup, cpus)


@contextmanager
def beside(during: During | None, folder: Path) -> Iterator[None]:
    """Let something go on in a thread while the block runs."""
    ended = Event()
    thread = Thread(target=during, args=(folder, ended)) if during else None
    if thread:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread:
            thread.join()
