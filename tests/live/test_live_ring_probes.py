"""Rings that are measured: over the hosts of a testbed, and what stays of their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import PATIENCE_S, wait_until

from warren.live.measure.ring_rounds import ProbedRing, RingProber, bed_places, local_places
from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.link_test import GOODPUT
from warren.live.testbed.namespaces import HostNamespace
from warren.live.testbed.status import one_standing
from warren.model.errors import EngineError
from warren.model.testbed import Bed, BedHost

pytestmark = [pytest.mark.live, pytest.mark.machine]

NAME = f"rings-{os.getpid()}"
LINK_BPS = 100_000_000
MESSAGE = 600_000
VICTIM = """
import sys
import time
from warren.live.measure.ring_rounds import ProbedRing, RingProber, local_places
from warren.live.process.linux import die_with_parent
die_with_parent(int(sys.argv[1]))
with RingProber(local_places(2)) as prober:
    print(prober._process.pid, flush=True)
    prober.run([ProbedRing(hosts=(0, 1, 1), message_bytes=4000)] * 2, 10**9)
"""


@pytest.fixture
def _testbed(can_make_testbeds: None) -> Iterator[None]:
    hosts = tuple(BedHost(name=f"h{i}", link_bps=LINK_BPS) for i in range(2))
    make(Bed(name=NAME, subnet="10.81.0.0/24", hosts=hosts, queue="fair"))
    yield
    remove(NAME)


@pytest.mark.usefixtures("_testbed")
def test_two_rings_on_one_link_are_together_no_faster_than_it() -> None:
    """How much slower they are hangs on the machine: ``benchmarks/testbed_rates.py`` measures it.

    What a link's burst lets by is a part of what a round sends.
    """
    ring = ProbedRing(hosts=(0, 1), message_bytes=MESSAGE)
    at_the_rate_s = MESSAGE * 8 / (GOODPUT * LINK_BPS)  # 2 m (w - 1) / w is m of two ranks
    with RingProber(bed_places(one_standing(NAME))) as prober:
        (alone,) = prober.run([ring], 6)
        begin_s = time.monotonic()
        both = prober.run([ring, ring], 6)
        took_s = time.monotonic() - begin_s
    assert alone.round_s_R.mean() > 0.85 * at_the_rate_s
    rounds = sum(len(one.round_s_R) for one in both)
    assert rounds >= 12
    assert took_s > 0.85 * rounds * at_the_rate_s


def test_a_round_holds_its_sleep_and_its_exchange_and_only_those_of_all_count() -> None:
    rings = [ProbedRing(hosts=(0, 1), message_bytes=4000, comp_s=comp_s) for comp_s in (0.02, 0.2)]
    begin_s = time.monotonic()
    with RingProber(local_places(2)) as prober:
        fast, slow = prober.run(rings, 3)
    took_s = time.monotonic() - begin_s
    assert len(slow.round_s_R) == 3
    assert len(fast.round_s_R) >= 3  # while the slow one did three
    for ring, times in zip(rings, (fast, slow), strict=True):
        assert (times.round_s_R > ring.comp_s).all()
        assert (times.exchange_s_R < times.round_s_R).all()
        assert times.round_s_R.sum() < took_s


def test_a_rank_that_cannot_enter_its_host_is_reported_in_one_line() -> None:
    nowhere = HostNamespace(namespace="nowhere")
    with (
        RingProber([nowhere]) as prober,
        pytest.raises(EngineError, match=r"a rank failed: .*nowhere"),
    ):
        prober.run([ProbedRing(hosts=(0, 0), message_bytes=4000)], 3)


def _ring_processes(of: int) -> list[int]:
    """Living processes of a session that are named as ranks, or as who forks them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            name, _, rest = (entry / "stat").read_text().partition("(")[2].partition(")")
        except OSError:
            continue
        state, _, _, session = rest.split()[:4]
        named = name.startswith(("warren-ring", "warren-prober"))
        if named and state != "Z" and int(session) == of:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("who", ["controller", "prober"])
def test_whoever_is_killed_no_rank_and_no_folder_stays(who: str, tmp_path: Path) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(os.getpid())],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert victim.stdout is not None
    prober = int(victim.stdout.readline())
    try:
        assert wait_until(lambda: len(_ring_processes(victim.pid)) == 7)
        assert list(tmp_path.glob("warren-rings-*"))
        os.kill(victim.pid if who == "controller" else prober, signal.SIGKILL)
        victim.wait(timeout=PATIENCE_S)
        assert wait_until(lambda: not _ring_processes(victim.pid))
        assert wait_until(lambda: not list(tmp_path.glob("warren-rings-*")))
    finally:
        victim.kill()
        victim.wait()
        victim.stdout.close()
