"""Whether the links of a testbed carry their rates: TCP between its hosts, measured.

Each host sends, and each receives, at its full rate. A host whose rate no single other one has
sends to (receives from) several at once. The measure is goodput: the bytes that arrive at the
application. HTB counts Ethernet frames without preamble and check sum, so a rate R at an MTU of
1500 gives R * 1448 / 1514: 1500 bytes are 20 of IP, 32 of TCP with time stamps and 1448 of data,
and 14 of Ethernet are added.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

from warren.live.testbed import link_test_process as meter
from warren.live.testbed.names import namespace
from warren.model.errors import EngineError
from warren.model.testbed import Bed

GOODPUT: Final = 1448 / 1514
"""Bytes of data in each byte that HTB counts, in full frames."""
TOLERANCE: Final = 0.1
"""Allowed relative error of a measured rate; a link of 1 s varies by less than 1 %."""
_WARM_S: Final = 0.4
"""Seconds before a measurement: TCP reaches the rate, and HTB's burst is used up."""
_WINDOW_S: Final = 1.0
"""Seconds of a measurement."""
_ANSWER_S: Final = 15.0
"""Longest wait in seconds for an answer of a process in a host."""
_TRIES: Final = 3
"""Most measurements of a link while it is off its rate."""


class TestFlows(NamedTuple):
    """Flows (sender, receiver), positions of hosts, that run at once to fill one link.

    ``fills`` names the links: (host, "out") or (host, "in"), one or two of them.
    """

    flows: tuple[tuple[int, int], ...]
    fills: tuple[tuple[int, str], ...]


class MeasuredLink(NamedTuple):
    """The measured rate of some flows together, bits/s, beside the expected one."""

    flows: TestFlows
    goodput_bps: float
    expected_bps: float

    @property
    def ok(self) -> bool:
        """Tell whether the goodput is as expected, within ``TOLERANCE``."""
        return abs(self.goodput_bps - self.expected_bps) <= TOLERANCE * self.expected_bps


def plan_flows(rates_H: Sequence[float]) -> list[TestFlows]:
    """Plan which hosts send to which, so that each host's rate is met once out and once in.

    The partner is the next host round the ring (out) or the one before (in) whose rate is at least
    as high. If there is none, the partners are the fastest others until their rates add up to it.

    Parameters
    ----------
    rates_H
        The rate of each host's link, all in one unit.
    """
    hosts = range(len(rates_H))
    # By flows: between equal hosts one flow fills a link out and another one in.
    fills: dict[tuple[tuple[int, int], ...], list[tuple[int, str]]] = {}
    for host in hosts:
        for way, step in (("out", 1), ("in", -1)):
            ring = [(host + step * k) % len(rates_H) for k in range(1, len(rates_H))]
            others = _peers(rates_H, host, ring)
            flows = tuple((host, one) if way == "out" else (one, host) for one in others)
            fills.setdefault(flows, []).append((host, way))
    return [TestFlows(flows, tuple(whose)) for flows, whose in fills.items()]


def _peers(rates_H: Sequence[float], host: int, ring: Sequence[int]) -> list[int]:
    """Return the partners of a host, chosen from the others in the order of ``ring``."""
    fast = next((one for one in ring if rates_H[one] >= rates_H[host]), None)
    if fast is not None:
        return [fast]
    chosen: list[int] = []
    for one in sorted(ring, key=lambda one: -rates_H[one]):
        if sum(rates_H[other] for other in chosen) < rates_H[host]:
            chosen.append(one)
    return chosen


def expected_bps(rates_H: Sequence[float], flows: TestFlows) -> float:
    """Return the goodput of flows that share one host: by its rate, or that of all partners.

    In the unit of ``rates_H``.
    """
    shared, way = flows.fills[0]
    peers = [b if way == "out" else a for a, b in flows.flows]
    return GOODPUT * min(rates_H[shared], sum(rates_H[one] for one in peers))


def measure(bed: Bed, tell: Callable[[int, int, MeasuredLink], None]) -> list[MeasuredLink]:
    """Measure every link of a testbed that is up, one after the other.

    A flow off its rate is measured up to twice more, and the last time counts.

    Parameters
    ----------
    bed
        The testbed.
    tell
        Called after each: how many are done, of how many, and the last one.

    Raises
    ------
    EngineError
        If two hosts do not reach each other.
    """
    rates_H = [float(one.link_bps) for one in bed.hosts]
    planned = plan_flows(rates_H)
    found: list[MeasuredLink] = []
    for flows in planned:
        found.append(_measured(bed, rates_H, flows))
        tell(len(found), len(planned), found[-1])
    return found


def _measured(bed: Bed, rates_H: Sequence[float], flows: TestFlows) -> MeasuredLink:
    """Measure the rate of some flows, again if it is not as expected: machines pause."""
    for _ in range(_TRIES):
        goodput_bps = _measured_bps(bed, flows.flows)
        one = MeasuredLink(flows, goodput_bps, expected_bps(rates_H, flows))
        if one.ok:
            break
    return one


def _measured_bps(bed: Bed, flows: Sequence[tuple[int, int]]) -> float:
    """Run flows at once; return the rate of all receivers together, in bits/s."""
    with ExitStack() as ends:
        receivers = []
        # The receiver of each flow first says its port, and later that the sender is connected.
        for sender, receiver in flows:
            end = ends.enter_context(_Meter(bed, receiver, ["receive"]))
            port = end.answer()
            ends.enter_context(_Meter(bed, sender, ["send", bed.address(receiver), port]))
            receivers.append(end)
        for end in receivers:
            end.answer()
        # All measure in the same window: the hosts of one machine share its monotonic clock.
        begin_ns = time.monotonic_ns() + round(_WARM_S * 1e9)
        for end in receivers:
            end.tell(f"{begin_ns} {begin_ns + round(_WINDOW_S * 1e9)}")
        counts = [tuple(map(int, end.answer().split())) for end in receivers]
    return sum(8e9 * count / took_ns for count, took_ns in counts)


class _Meter:
    """One end of a flow, as a process in a host; it ends with this block, or with this process."""

    def __init__(self, bed: Bed, host: int, arguments: Sequence[str]) -> None:
        where = ["ip", "netns", "exec", namespace(bed.name, host)]
        # -I -S: nothing of the user's environment, and no site packages: it is small.
        program = [sys.executable, "-I", "-S", str(Path(meter.__file__)), *arguments]
        self._host = bed.hosts[host].name
        self._process = subprocess.Popen(
            [*where, *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )

    def __enter__(self) -> _Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def tell(self, line: str) -> None:
        """Give the process a line; if it has ended, its answer will be missing."""
        with suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.write(f"{line}\n".encode())

    def answer(self) -> str:
        """Return the next line that the process says.

        Raises
        ------
        EngineError
            If the process says nothing for ``_ANSWER_S`` seconds.
        """
        out = self._process.stdout
        if out is not None and select.select([out], [], [], _ANSWER_S)[0]:
            line = out.readline().decode().strip()
            if line:
                return line
        raise EngineError(
            f"testbed: nothing reaches {self._host} from another host, or it was ended meanwhile"
        )
