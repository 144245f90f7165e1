"""The grids of ``shapes_live.py`` in virtual time: each shape of each app by the simulator.

Tasks take what they took in the first shape of the live grid; nothing else is taken from it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import _common
import yaml
from _jpas_live import folder_files
from _shapes_live import APPS, EQUAL, BedKind, by_shape, described, round_s
from shapes_live import GRID, ROUNDS, SEED, SWEEP

from warren.runs.results import load_record


def main() -> None:
    """Simulate each grid that was measured, and save."""
    live = _common.earlier("shapes_live")
    parts = {app: _simulated(app, EQUAL, GRID, live[app]) for app in APPS if app in live}
    _common.save("shapes_simulated", SEED, {"parts": parts})


def _simulated(
    app: str, kinds: Sequence[BedKind], shapes: Sequence[str], live: dict[str, Any]
) -> dict[str, Any]:
    """Rounds of each shape, simulated, beside those measured."""
    options = {"shapes": " ".join(shapes), "rounds": ROUNDS}
    run = described(app, kinds, SWEEP, options, (ROUNDS + 4) * len(shapes))
    task_s = live["rows"][0]["task_s"]
    comp = {f"cpu{place}": f"{task_s[place]:.4f} s" for place in range(len(kinds))}
    run["profiles"][app]["comp"] = comp
    for host in run["cluster"]["hosts"]:
        rate = float(host["nic"].split()[0]) * live["share"]
        host["nic"] = f"{rate:.0f} bps"
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "run.yaml", Path(folder) / "out"
        file.write_text(yaml.safe_dump(run, sort_keys=False))
        _common.warren_json("simulate", str(file), "--out", str(out))
        history = load_record("simulate", folder_files(out)).history
    times = round_s(history)
    rows = []
    for row, at in zip(live["rows"], by_shape(history, len(shapes)), strict=True):
        told = median(times[one] for one in at)
        rows.append({
            "shape": row["shape"], "measured_s": row["measured_s"], "simulated_s": told,
            "error_pct": 100 * (told / row["measured_s"] - 1),
        })  # fmt: skip
        print(app, rows[-1])
    return {"rows": rows}


if __name__ == "__main__":
    main()
