"""Measuring rings that exchange at once: over hosts of a testbed, or on this machine.

What a run gives counts only while all of its rings exchange: from when the last of them has done
its first rounds, to when the first is told to end.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from warren.live.measure.ring_rounds_process import (
    ENDED,
    FAILED,
    READY,
    STAMP,
    OrderedRing,
    ProbeOrder,
)
from warren.live.process.linux import NoInterrupt
from warren.live.process.process_pool import mark_of
from warren.live.process.scratch import ScratchFolder
from warren.live.rings.rank_proof import new_secret
from warren.live.testbed.namespaces import HERE, HostNamespace, place_of
from warren.live.testbed.records import TestbedRecord
from warren.model.errors import EngineError

WARM_ROUNDS: Final = 2
"""Of each ring, at the least, before anything counts."""
_START_S: Final = 60.0
_SILENT_S: Final = 60.0
_END_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedRing:
    """One ring: the host of each rank (positions, those of one host together), and its round."""

    hosts: tuple[int, ...]
    message_bytes: int
    comp_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RingTimes:
    """Rounds of one ring, seconds, while all others exchanged too; ``exchange_s_R`` without sleep.

    A round lasts from the end of one exchange to the end of the next.
    """

    round_s_R: npt.NDArray[np.float64]
    exchange_s_R: npt.NDArray[np.float64]


def bed_places(record: TestbedRecord) -> tuple[HostNamespace, ...]:
    """The hosts of a testbed."""
    return tuple(place_of(record, host) for host in range(len(record.bed.hosts)))


def local_places(hosts: int) -> tuple[HostNamespace, ...]:
    """This machine in the place of each host: all exchange over ``lo``."""
    return (HERE,) * hosts


class RingProber:
    """Runs sets of rings one after the other; nothing of it stays when its context ends.

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
        self._rest = b""

    def __enter__(self) -> RingProber:
        with ExitStack() as ends:
            with NoInterrupt():  # what is made must be known before a signal can end this
                folder = ends.enter_context(self._scratch)
                self._read, write = os.pipe()
                ends.callback(os.close, self._read)
                try:
                    self._process = self._started(write, mark_of(folder))
                finally:
                    os.close(write)
                ends.callback(self._end)
            self._wait_for(READY, _START_S)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def _started(self, write: int, mark: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """By the mark the guard of the folder finds it and its ranks."""
        with self._errors.open("wb") as errors:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "warren.live.measure.ring_rounds_process",
                    str(os.getpid()),
                    str(write),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **mark},
                pass_fds=(write,),
                bufsize=0,
            )

    def _end(self) -> None:
        self._process.kill()  # its ranks end with it
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def run(
        self, rings: Sequence[ProbedRing], rounds: int, least_s: float = 0.0
    ) -> list[RingTimes]:
        """Let rings exchange at once until each has so many rounds that count, for ``least_s``."""
        self._runs += 1
        ordered = [self._ordered(at, ring) for at, ring in enumerate(rings)]
        self._say(msgspec.json.encode(ProbeOrder(rings=tuple(ordered))))
        stamps: list[list[tuple[int, int]]] = [[] for _ in rings]
        while not _enough(stamps, rounds, round(least_s * 1e9)):
            for ring, begin_ns, end_ns in self._stamps(_SILENT_S):
                if ring >= 0:
                    stamps[ring].append((begin_ns, end_ns))
        self._say(b"")
        self._wait_for(ENDED, _END_S)
        return _counted(stamps)

    def _ordered(self, at: int, ring: ProbedRing) -> OrderedRing:
        return OrderedRing(
            places=tuple(self._places[host] for host in ring.hosts),
            message_bytes=ring.message_bytes,
            comp_s=ring.comp_s,
            meeting=f"{self._scratch.path}/{self._runs}-{at}",
            secret=new_secret(),
        )

    def _say(self, line: bytes) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # found by its silence
                self._process.stdin.write(line + b"\n")

    def _wait_for(self, what: int, limit_s: float) -> None:
        deadline_s = time.monotonic() + limit_s
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            if any(one[0] == what for one in self._stamps(left_s, ending=what == ENDED)):
                return

    def _stamps(self, limit_s: float, *, ending: bool = False) -> list[tuple[int, int, int]]:
        """What has come meanwhile; waits for the first."""
        if not select.select([self._read], [], [], limit_s)[0]:
            raise EngineError(f"rings: nothing came for {limit_s:.0f} s{self._why()}")
        got = os.read(self._read, 1 << 16)
        if not got:
            raise EngineError(f"rings: their process ended{self._why()}")
        got = self._rest + got
        whole = len(got) - len(got) % STAMP.size
        self._rest = got[whole:]
        found: list[tuple[int, int, int]] = list(STAMP.iter_unpack(got[:whole]))
        if not ending and any(one[0] == FAILED for one in found):
            raise EngineError(f"rings: a rank failed{self._why()}")
        return found

    def _why(self) -> str:
        """What a process said last; of a traceback, which another may just be writing, its end."""
        lines = self._errors.read_text(errors="replace").split("\n")
        said = [one for one in lines if one.strip() and not one.startswith((" ", "Traceback"))]
        return f": {said[-1]}" if said else ""


def _from_ns(stamps: Sequence[Sequence[tuple[int, int]]]) -> int | None:
    """When the last ring had done its first rounds; None: one has not yet."""
    if any(len(one) < WARM_ROUNDS for one in stamps):
        return None
    return max(one[WARM_ROUNDS - 1][1] for one in stamps)


def _enough(stamps: Sequence[Sequence[tuple[int, int]]], rounds: int, least_ns: int) -> bool:
    from_ns = _from_ns(stamps)
    if from_ns is None:
        return False
    ends = [[end for _, end in one if end >= from_ns] for one in stamps]
    return all(len(one) > rounds and one[-1] - one[0] >= least_ns for one in ends)


def _counted(stamps: Sequence[Sequence[tuple[int, int]]]) -> list[RingTimes]:
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
