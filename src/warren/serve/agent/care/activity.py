"""Jobs that hold devices and do nothing: the agent looks every few seconds, and reports them.

An attempt works in a look if one of its GPUs computed just then, or if its processes used the
processors since the last look. So a job that reads data or evaluates on processors works, whatever
its GPUs do. What cannot be measured counts as work.

An attempt is idle if it worked in fewer than ``IDLE_SHARE`` of the looks of a whole window. The
share counts, and not the last time: a program that touches its GPU once in ten minutes is idle.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from warren.serve.agent import processes
from warren.serve.agent.loop import Timer

LOOK_S: Final = 5.0
"""Time between two looks at all attempts, in seconds."""
IDLE_SHARE: Final = 0.02
"""Share of looks in which an attempt works from which on it is not idle."""
BUSY_PROCESSORS: Final = 0.05
"""Processors that an attempt uses on average between two looks from which on it works."""
STIR_S: Final = 60.0
"""Time after the last work of an idle attempt in which it must not be ended, in seconds."""
_SLOTS: Final = 100
"""Parts of a window; the oldest one is forgotten as a whole."""


class RunningAttempt(NamedTuple):
    """An attempt that runs: its devices, its runner, and its cgroup (empty: it has none)."""

    name: str
    devices: tuple[str, ...]
    runner: int
    group: str


class Activity:
    """The looks at one attempt, in a window that slides.

    Parameters
    ----------
    window_s
        Length of the window, in seconds.
    look_s
        Time between two looks, in seconds.
    now_s
        The present, in seconds of any clock.
    """

    def __init__(self, window_s: float, look_s: float, now_s: float) -> None:
        self._window_s, self._look_s, self._begun_s = window_s, look_s, now_s
        self._slots: deque[list[int]] = deque()
        self._worked_s = now_s
        self.since_s: float | None = None
        """When it began to be idle, in seconds of the clock; None: it is not idle."""

    def look(self, worked: bool, now_s: float) -> None:
        """Take over a look."""
        slot = int(now_s / self._window_s * _SLOTS)
        if not self._slots or self._slots[-1][0] != slot:
            self._slots.append([slot, 0, 0])
        self._slots[-1][1] += 1
        self._slots[-1][2] += worked
        while self._slots[0][0] <= slot - _SLOTS:
            self._slots.popleft()
        if worked:
            self._worked_s = now_s
        if not self._is_idle(now_s):
            self.since_s = None
        elif self.since_s is None:
            self.since_s = now_s - self._window_s

    def _is_idle(self, now_s: float) -> bool:
        looks = sum(slot[1] for slot in self._slots)
        # A machine or an agent that was stopped for a while has not looked.
        whole = looks * self._look_s >= self._window_s / 2
        seen = now_s - self._begun_s >= self._window_s and whole
        return seen and sum(slot[2] for slot in self._slots) < IDLE_SHARE * looks

    def stirs(self, now_s: float) -> bool:
        """Tell whether it worked in the last minute; for short windows, in a tenth of them."""
        return now_s - self._worked_s < min(STIR_S, self._window_s / 10)


class Gpus(Protocol):
    """What is asked of the devices of a machine."""

    def utilization(self, device: str) -> float | None:
        """Return the share of time in which a GPU computed just now; None: it is not known."""


class Clock(Protocol):
    """What is asked of the agent's loop."""

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Call once after ``delay_s`` seconds."""


class IdleWatch:
    """Looks at all attempts again and again, if the daemon asks for it.

    Parameters
    ----------
    loop
        The agent's loop.
    gpus
        The devices of this machine.
    attempts
        Returns the attempts that run.
    report
        Called with the name of an attempt, since when it is idle in seconds of the clock (None: it
        works again), and whether it stirs. It is called again while an attempt is idle.
    clock
        The clock, in seconds.
    used_s
        Returns the processor time that an attempt has used, in seconds; None: it is not known.
    """

    def __init__(
        self,
        loop: Clock,
        gpus: Gpus,
        attempts: Callable[[], Iterable[RunningAttempt]],
        report: Callable[[str, float | None, bool], None],
        clock: Callable[[], float] = time.monotonic,
        used_s: Callable[[RunningAttempt], float | None] = lambda one: processor_time_s(one),
    ) -> None:
        self._loop, self._gpus, self._attempts = loop, gpus, attempts
        self._report, self._clock, self._used_s = report, clock, used_s
        self._window_s: float | None = None
        self._timer: Timer | None = None
        self._known: dict[str, _Watched] = {}

    def watch(self, window_s: float | None) -> None:
        """Report attempts that do nothing for a window from now on; None: report none."""
        if window_s != self._window_s:
            self._known.clear()
        self._window_s = window_s
        for one in self._known.values():  # what was reported may not have come
            one.reported_s = float("-inf")
        if self._timer is None and window_s is not None:
            self._look()

    def _look(self) -> None:
        self._timer = None
        if self._window_s is None:
            return
        # Short windows are for trials.
        look_s = min(LOOK_S, self._window_s / _SLOTS)
        now_s = self._clock()
        found: dict[str, _Watched] = {}
        for attempt in self._attempts():
            watched = self._known.get(attempt.name)
            if watched is None:
                watched = _Watched(Activity(self._window_s, look_s, now_s))
            found[attempt.name] = watched
            self._look_at(attempt, watched, now_s)
        self._known = found
        self._timer = self._loop.call_later(look_s, self._look)

    def _look_at(self, attempt: RunningAttempt, watched: _Watched, now_s: float) -> None:
        activity, window_s = watched.activity, self._window_s or 0.0
        used_s, before_s = self._used_s(attempt), watched.used_s
        passed_s = now_s - watched.looked_s
        watched.used_s, watched.looked_s = used_s, now_s
        if used_s is None or before_s is None or passed_s <= 0:
            worked = True
        else:
            worked = used_s - before_s > BUSY_PROCESSORS * passed_s or any(
                self._computes(device) for device in attempt.devices
            )
        activity.look(worked, now_s)
        is_idle, stirs = activity.since_s is not None, activity.stirs(now_s)
        again = is_idle and now_s - watched.reported_s >= min(STIR_S, window_s / 10)
        if again or (is_idle, stirs and is_idle) != watched.reported:
            watched.reported, watched.reported_s = (is_idle, stirs and is_idle), now_s
            self._report(attempt.name, activity.since_s, stirs and is_idle)

    def _computes(self, device: str) -> bool:
        if device.startswith("cpu:"):
            return False
        share = self._gpus.utilization(device)
        return share is None or share > 0


class _Watched:
    """An attempt that is watched, and what was said of it last."""

    def __init__(self, activity: Activity) -> None:
        self.activity = activity
        self.used_s: float | None = None
        self.looked_s = self.reported_s = float("-inf")
        self.reported = (False, False)


def processor_time_s(attempt: RunningAttempt) -> float | None:
    """Return the processor time that an attempt has used, in seconds; None: it is not known.

    It is that of its cgroup, or else of its runner, all descendants, and those that have ended and
    were waited for.
    """
    if attempt.group:
        with contextlib.suppress(OSError, ValueError), open(f"{attempt.group}/cpu.stat") as file:
            for line in file:
                name, _, value = line.partition(" ")
                if name == "usage_usec":
                    return int(value) / 1e6
    if not attempt.runner:
        return None
    runner = processes.used_s(attempt.runner)
    if runner is None:
        return None
    others = (processes.used_s(pid) for pid in processes.descendants(attempt.runner))
    return runner + sum(one for one in others if one is not None)
