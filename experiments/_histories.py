"""Plays many random histories, and stops with an error where a promise is broken."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import _common

sys.path.insert(0, str(_common.ROOT / "tests" / "live"))
from history_modules import virtual_modules
from history_world import Violation


def play_all(name: str, play: Callable[[int], Any], histories: int, about: str | None) -> None:
    """Play as many as the command line says, tell how far that is, and save all from seed 0 on."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--histories", type=int, default=histories)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    # What is loaded stays: to look for garbage among it would take most of the time.
    gc.freeze()
    counts: Counter[str] = Counter()
    broken: dict[int, str] = {}
    begin_s = time.perf_counter()
    with virtual_modules():
        for at, seed in enumerate(range(asked.seed, asked.seed + asked.histories), start=1):
            try:
                counts += play(seed).counts
            except Violation as error:
                broken[seed] = str(error).splitlines()[0]
                print(error, flush=True)
            if at % (histories // 20) == 0:
                print(f"{at} histories, {len(broken)} broken", flush=True)
    took_s = time.perf_counter() - begin_s
    _common.table(sorted(counts.items()))
    print(f"{asked.histories} histories in {took_s:.0f} s, {len(broken)} broken")
    if (asked.histories, asked.seed) == (histories, 0):
        found = {"histories": asked.histories, "violations": list(broken.values())}
        content = {**found, "counts": dict(sorted(counts.items())), "took_s": round(took_s, 1)}
        _common.save(name, asked.seed, content)
    if broken:
        sys.exit(f"broken: {sorted(broken)}")
