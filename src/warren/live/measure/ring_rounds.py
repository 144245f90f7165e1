"""Measuring rings that exchange at once: over hosts of a testbed, or on this machine.

A run counts only while all of its rings exchange: from the time when the last of them has done its
first rounds, to the order to the first to end.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from warren.live.measure.ring_rounds_process import (
    ENDED,
    FAILED,
    READY,
    STAMP,
    OrderedRing,
    ProbeOrder,
)
from warren.live.own_programs import own_program
from warren.live.process.linux import NoInterrupt
from warren.live.process.process_pool import mark_of
from warren.live.process.scratch import ScratchFolder
from warren.live.rings.rank_proof import new_secret
from warren.live.testbed.namespaces import HERE, HostNamespace, place_of
from warren.live.testbed.records import TestbedRecord
from warren.model.costs import FloatArray
from warren.model.errors import EngineError

WARM_ROUNDS: Final = 2
"""Rounds that each ring makes, at the least, before anything counts."""
_START_S: Final = 60.0
"""Longest start in seconds of the process that forks ranks: it loads torch."""
_SILENT_S: Final = 60.0
"""Longest time in seconds without a round of any ring."""
_END_S: Final = 15.0
"""Longest time in seconds for the ranks of an order to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedRing:
    """One ring: the host of each rank (positions, those of one host together), and its round.

    ``message_bytes`` are summed in each round, after ``comp_s`` seconds of sleep.
    """

    hosts: tuple[int, ...]
    message_bytes: int
    comp_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RingTimes:
    """Rounds of one ring, seconds, while all others exchanged too; ``exchange_s_R`` without sleep.

    A round lasts from the end of one exchange to the end of the next. Both have shape (rounds,).
    """

    round_s_R: FloatArray
    exchange_s_R: FloatArray


def bed_places(record: TestbedRecord) -> tuple[HostNamespace, ...]:
    """Return the hosts of a testbed as places for ranks."""
    return tuple(place_of(record, host) for host in range(len(record.bed.hosts)))


def local_places(hosts: int) -> tuple[HostNamespace, ...]:
    """Return this machine in the place of each host: all exchange over ``lo``."""
    return (HERE,) * hosts


class RingProber:
    """A process that runs sets of rings one after the other; it goes when its context ends.

    ``places`` are the hosts, by position.

    Raises
    ------
    EngineError
        If its process or a ring does not come up, or stops.
    """

    def __init__(self, places: Sequence[HostNamespace]) -> None:
        self._places = places
        self._scratch = ScratchFolder("warren-rings-")
        self._errors = self._scratch.path / "errors"
        self._runs = 0
        # The beginning of a stamp of which the rest has not been read.
        self._rest = b""

    def __enter__(self) -> RingProber:
        with ExitStack() as ends:
            with NoInterrupt():  # the process must be known before a signal can end this one
                folder = ends.enter_context(self._scratch)
                self._read, write = os.pipe()
                ends.callback(os.close, self._read)
                try:
                    self._process = self._started(write, mark_of(folder))
                finally:
                    # Only the process holds that end: so its end is the end of this input.
                    os.close(write)
                ends.callback(self._end)
            self._wait_for(READY, _START_S)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def _started(self, write: int, mark: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start the process that forks ranks; it writes its stamps to ``write``.

        By ``mark``, in its environment, the guard of the folder finds it and its ranks.
        """
        with self._errors.open("wb") as errors:
            return subprocess.Popen(
                own_program(
                    "warren.live.measure.ring_rounds_process", str(os.getpid()), str(write)
                ),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **mark},
                pass_fds=(write,),
                bufsize=0,
            )

    def _end(self) -> None:
        """End the process, and all ranks with it."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def run(
        self, rings: Sequence[ProbedRing], rounds: int, least_s: float = 0.0
    ) -> list[RingTimes]:
        """Let rings exchange at once until each has enough rounds that count.

        Parameters
        ----------
        rings
            The rings, all of which exchange at the same time.
        rounds
            How many rounds of each ring have to count, at the least.
        least_s
            How long each ring's rounds that count have to last, at the least.

        Returns
        -------
        list of RingTimes
            One a ring, in the order of ``rings``.

        Raises
        ------
        EngineError
            If a ring does not come up, or stops.
        """
        self._runs += 1
        ordered = [self._ordered(at, ring) for at, ring in enumerate(rings)]
        self._say(msgspec.json.encode(ProbeOrder(rings=tuple(ordered))))
        stamps: list[list[tuple[int, int]]] = [[] for _ in rings]
        while not _enough(stamps, rounds, round(least_s * 1e9)):
            for ring, begin_ns, end_ns in self._stamps(_SILENT_S):
                # Negative numbers in place of a ring are words of the process.
                if ring >= 0:
                    stamps[ring].append((begin_ns, end_ns))
        self._say(b"")
        self._wait_for(ENDED, _END_S)
        return _counted(stamps)

    def _ordered(self, at: int, ring: ProbedRing) -> OrderedRing:
        """Return the order for one ring, with a meeting file and a secret of its own."""
        return OrderedRing(
            places=tuple(self._places[host] for host in ring.hosts),
            message_bytes=ring.message_bytes,
            comp_s=ring.comp_s,
            meeting=f"{self._scratch.path}/{self._runs}-{at}",
            secret=new_secret(),
        )

    def _say(self, line: bytes) -> None:
        """Give the process a line; if it has ended, it will be silent."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.write(line + b"\n")

    def _wait_for(self, what: int, limit_s: float) -> None:
        """Read stamps until one says ``what``."""
        deadline_s = time.monotonic() + limit_s
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            # A rank that is killed at its ring's end makes the others fail: that is no error then.
            if any(one[0] == what for one in self._stamps(left_s, ending=what == ENDED)):
                return

    def _stamps(self, limit_s: float, *, ending: bool = False) -> list[tuple[int, int, int]]:
        """Read the stamps that have come; wait for the first, for ``limit_s`` at most.

        ``ending``: ranks are being ended, so that one may fail.
        """
        if not select.select([self._read], [], [], limit_s)[0]:
            raise EngineError(f"rings: nothing came for {limit_s:.0f} s{self._why()}")
        got = os.read(self._read, 1 << 16)
        if not got:
            raise EngineError(f"rings: their process ended{self._why()}")
        # A read may end within a stamp: the rest of it is kept for the next.
        got = self._rest + got
        whole = len(got) - len(got) % STAMP.size
        self._rest = got[whole:]
        found: list[tuple[int, int, int]] = list(STAMP.iter_unpack(got[:whole]))
        if not ending and any(one[0] == FAILED for one in found):
            raise EngineError(f"rings: a rank failed{self._why()}")
        return found

    def _why(self) -> str:
        """Return the last line that a process wrote; of a traceback its end.

        Another process may just be writing one, so lines within it do not count.
        """
        lines = self._errors.read_text(errors="replace").split("\n")
        said = [one for one in lines if one.strip() and not one.startswith((" ", "Traceback"))]
        return f": {said[-1]}" if said else ""


def _from_ns(stamps: Sequence[Sequence[tuple[int, int]]]) -> int | None:
    """Return when the last ring had done its first rounds; None: one has not yet."""
    if any(len(one) < WARM_ROUNDS for one in stamps):
        return None
    return max(one[WARM_ROUNDS - 1][1] for one in stamps)


def _enough(stamps: Sequence[Sequence[tuple[int, int]]], rounds: int, least_ns: int) -> bool:
    """Tell whether each ring has ``rounds`` counted rounds, over at least ``least_ns``."""
    from_ns = _from_ns(stamps)
    if from_ns is None:
        return False
    ends = [[end for _, end in one if end >= from_ns] for one in stamps]
    # n rounds lie between n + 1 ends.
    return all(len(one) > rounds and one[-1] - one[0] >= least_ns for one in ends)


def _counted(stamps: Sequence[Sequence[tuple[int, int]]]) -> list[RingTimes]:
    """Return the times of the rounds that ended while all rings exchanged."""
    from_ns = _from_ns(stamps) or 0
    found = []
    for one in stamps:
        counted = np.array([both for both in one if both[1] >= from_ns], dtype=np.int64)
        found.append(
            RingTimes(
                round_s_R=np.diff(counted[:, 1]) / 1e9,
                exchange_s_R=(counted[1:, 1] - counted[1:, 0]) / 1e9,
            )
        )
    return found
