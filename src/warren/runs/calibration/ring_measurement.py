"""Measuring how rings slow each other down: the hosts of their ranks, and their times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warren.live.extras import need
from warren.live.measure.machine import machine_facts
from warren.live.measure.ring_rounds import ProbedRing, RingProber, bed_places, local_places
from warren.live.testbed.link_test import GOODPUT
from warren.live.testbed.status import one_standing
from warren.model.testbed import checked_name
from warren.runs.calibration.busy_machine import told_busy_share
from warren.runs.calibration.ring_network_file import RingCalibration, calibrated
from warren.runs.calibration.ring_rounds import measure_rings, plan
from warren.runs.notices import say

_LOCAL_HOSTS: Final = 4
"""Number of hosts that ranks on this machine count as: most hosts that a ring spans."""
_TRIAL_BYTES: Final = 8_000_000
"""The message of the ring that tells the rate between ranks where no link states one."""
_TRIAL_ROUNDS: Final = 5


def calibrate_rings(
    testbed: str | None, *, quick: bool = False
) -> tuple[RingCalibration, Mapping[str, str | float]]:
    """Let rings exchange at once, fit a network to their rounds, and return facts of the machine.

    The rings go over the hosts of a testbed that is up; None: all ranks are on this machine and
    exchange over its loopback. ``quick``: fewer rings and sizes. Raises SpecError if the testbed
    does not exist, or differs from its record. Raises EngineError if the rings fail, or the
    measured rounds cannot be fitted.
    """
    need("live")
    facts: dict[str, str | float] = {}
    if testbed is not None:
        record = one_standing(checked_name(testbed))
        slowest_bps = min(one.link_bps for one in record.bed.hosts)
        # Bits of frames become bytes of data; message sizes follow from the rate of the slowest
        # link.
        ranks, bytes_per_s = bed_places(record), GOODPUT * slowest_bps / 8
        facts |= {"testbed": record.bed.name, "hosts": len(ranks), "queue": record.bed.queue}
        facts["link_mbit"] = slowest_bps / 1e6
    else:
        say("all ranks are on this machine and exchange over lo: processors, not links, limit them")
        ranks, bytes_per_s = local_places(_LOCAL_HOSTS), 0.0
        facts |= {"testbed": "none; over lo", "hosts": len(ranks)}
    share = told_busy_share()
    facts |= {**machine_facts(""), "busy_before": round(share, 2)}
    # No class of numerics was asked for: the file tells times of bytes that are exchanged.
    facts.pop("numerics")
    with RingProber(ranks) as prober:
        if not bytes_per_s:
            # No link states a rate: a ring of two hosts alone tells it.
            trial = ProbedRing(hosts=(0, 1), message_bytes=_TRIAL_BYTES)
            round_s = float(prober.run([trial], _TRIAL_ROUNDS)[0].round_s_R.mean())
            bytes_per_s = _TRIAL_BYTES / round_s
        runs = plan(len(ranks), bytes_per_s, quick=quick)
        rows = measure_rings(prober, runs, _tell)
    return calibrated(rows), facts


def _tell(done: int, of: int, what: str) -> None:
    """Tell which set of rings is measured next."""
    say(f"{done + 1} of {of}: {what}")
