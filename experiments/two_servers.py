"""A round of one job with two servers on a testbed, live and simulated.

Four hosts, links of 200 Mbit, no other job (``_jpas_live.py`` has the cluster); a worker on the
host of each server. The first server has 85 % of the model; it steps last, and the other one's new
state, sent ahead of the barrier, shares a link with the last update. Median of 22 rounds, the first
two left out. Needs the rights of a testbed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import _common
import numpy as np
import yaml
from _jpas_live import APP, drawn, folder_files
from _link_mixes import RINGS, network
from _rights import cannot
from link_mixes import _testbed

from warren.runs.results import load_record

SEED: Final = 101
"""With it ``fifo`` puts the workers on the hosts of the servers."""
ROUNDS: Final = 24
WIDTHS: Final = {3: 10_000, 8: 26_667}
"""Of the net whose parameters have so many MB."""
HOSTS: Final = ("h-0", "h-1")
LIMIT_PCT: Final = 3.0


def main() -> None:
    """Run each job both ways and save; an error above the limit ends with 1."""
    if why := cannot():
        print(f"skipped: {why}")
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder, _testbed("fair") as link_bps:
        stated = network(RINGS / "network.yaml", link_bps)
        for mb in WIDTHS:
            file = Path(folder) / f"{mb}.yaml"
            file.write_text(yaml.safe_dump(described(mb), sort_keys=False))
            live, told = (round_ms(file, how, stated) for how in ("run", "simulate"))
            row = {"model_mb": mb, "live_ms": live, "simulated_ms": told}
            rows.append({**row, "error_pct": 100 * (told / live - 1)})
            print(rows[-1], flush=True)
    _common.save("two_servers", SEED, {"outer": stated["outer"], "rows": rows})
    if any(abs(row["error_pct"]) > LIMIT_PCT for row in rows):
        sys.exit(f"above {LIMIT_PCT} %")


def described(mb: int) -> dict[str, Any]:
    """A run of one job of two workers."""
    width, run = WIDTHS[mb], drawn(SEED)
    held = [256 * width, 44 * width + 40]
    time = {"CPU": "100 ms"}
    job = {
        "name": "one", "app": APP, "params": {"hidden": width}, "model": "one", "sync": "ps",
        "scale": 2, "servers": {"hosts": [*HOSTS], "bytes": held}, "rounds": ROUNDS,
        "batch": 16,
    }  # fmt: skip
    row = {"model": f"{sum(held)} B", "comp": dict(time), "sync": time, "build": {"CPU": "60 ms"}}
    return run | {"name": "two-servers", "profiles": {"one": row}, "workload": {"jobs": [job]}}


def round_ms(file: Path, how: str, stated: dict[str, Any]) -> float:
    """The median time from barrier to barrier."""
    out = file.with_suffix("") / how
    out.parent.mkdir(exist_ok=True)
    told = ["--flow", "fair", "--set", f"cluster.network={json.dumps(stated)}"]
    _common.warren_json(how, str(file), *told, "--out", str(out))
    rounds = load_record(how, folder_files(out)).history.rounds
    return float(np.median(np.diff([one.barrier_ns for one in rounds])[1:]) / 1e6)


if __name__ == "__main__":
    main()
