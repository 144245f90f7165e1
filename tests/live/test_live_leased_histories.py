"""Promises 1 to 3 on hosts that are cut off, whose agents and controllers are killed or hang.

The contract of an engine, on a fake one that loses, delays, repeats and reorders every message
between controller and hosts; see ``leased_world``. 1,000 histories, and how many of each fault
there are, in ``experiments/leased_histories.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from history_modules import virtual_modules
from leased_history import play

pytestmark = pytest.mark.slow

CHUNK = 12
CHUNKS = 3
FOUND = (49,)
"""Histories that have found a fault."""


@pytest.fixture(autouse=True, scope="module")
def _virtual() -> Iterator[None]:
    with virtual_modules():
        yield


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_jobs_have_the_bits_of_plain_whoever_is_cut_off_killed_or_hangs(chunk: int) -> None:
    """Each barrier and each task counts once; a device has one executor, and one task at a time.

    Nothing runs when a lease begins; a job goes back one checkpoint interval at most; no job fails
    but one whose own code ends its process; in the end nothing is left. In every second history all
    hosts but the first are opportunistic: a run begins without them, and jobs leave them.
    """
    counts: Counter[str] = Counter()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        counts += play(seed).counts
    faults = "cuts", "agents killed", "controllers killed", "controllers hung", "rolled back"
    for fault in (*faults, "hosts that left", "hosts that joined"):
        assert counts[fault], fault


@pytest.mark.parametrize("seed", FOUND)
def test_what_has_found_a_fault_finds_none(seed: int) -> None:
    play(seed)


def test_a_seed_decides_all_of_a_history() -> None:
    one, other = play(2), play(2)
    assert (one.steps, one.now_ns, one.counts) == (other.steps, other.now_ns, other.counts)
