"""JPAS on a testbed with real training: by how soon jobs learn, under four answers to whose bytes.

Four hosts, links of 200 Mbit, ten jobs that train on digits (``_jpas_live.py``). Flow ``fair``,
``maif`` with the gain as the paper has it (*maif*) and with ours (*maif-expected*), and ``shift``.
Times to 90, 95 and 99 % of the converged accuracy from the first task on, and JCT; each run beside
a simulation of it, which is told what metrics the plain loop has shown (``truth.metrics``) and the
rate of the links that ``warren testbed up`` measured just before. Bits are those of the plain loop.

*seed-1* to *seed-3*: drawn when all else was settled, and not selected; trials had seeds above 100.

``--part NAME`` makes one part and keeps the results of the others; ``--place maif`` makes the rows
of one policy. Needs the rights of a testbed, and a machine that does nothing else.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import _common
import numpy as np
import yaml
from _disturb import hashes
from _jpas_live import PERIOD_S, drawn, folder_files
from _link_mixes import RINGS, network
from _parts import Asked, ask, make_parts
from link_mixes import _testbed
from ring_mixed import _bits, _cannot

from warren.report.learning import (
    bytes_by_rank,
    bytes_in_windows,
    learned_curves,
    mean_times_s,
)
from warren.runs.results import load_record

FLOWS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "fair": ("fair", {}),
    "maif": ("maif", {"period_s": PERIOD_S}),
    "maif-expected": ("maif", {"period_s": PERIOD_S, "gain": "expected"}),
    "shift": ("shift", {}),
}
SEEDS: Final = (1, 2, 3)
TRIAL: Final = 101
LIMIT_PCT: Final = 5.0
SEED: Final = 1

Row = dict[str, Any]


def main() -> None:
    """Make the parts asked for, save, and stop with an error where bits differ."""
    names = {f"seed-{seed}": seed for seed in SEEDS} | {"trial": TRIAL}
    asked = ask(__doc__, list(names), list(FLOWS))
    make = {name: partial(part, seed, asked) for name, seed in names.items()}
    parts = make_parts(
        "jpas_live", asked, make, seed=SEED, stated={"limit_pct": LIMIT_PCT}, cannot=_cannot
    )
    wrong = [line for one in parts.values() for row in one["rows"] for line in row["wrong"]]
    if wrong:
        sys.exit("\n".join(wrong))


def part(seed: int, asked: Asked, scratch: Path) -> dict[str, Any]:
    """The jobs of a seed, live and simulated, under each policy."""
    run = scratch / f"jpas-live-{seed}.yaml"
    run.write_text(yaml.safe_dump(drawn(seed), sort_keys=False))
    plain = scratch / "plain"
    _common.warren_json("run", str(run), "--set", "cluster.engine=plain", "--out", str(plain))
    with _testbed("fair") as link_bps:
        stated = network(RINGS / "network.yaml", link_bps)
        rows = [_row(run, name, stated, plain, scratch) for name in asked.places]
    return {"outer": stated["outer"], "rows": rows}


def _row(run: Path, name: str, stated: Row, plain: Path, scratch: Path) -> Row:
    flow, options = FLOWS[name]
    out, told = scratch / name, scratch / f"{name}-told"
    how = ["--flow", flow, "--set", f"cluster.network={json.dumps(stated)}"]
    if options:
        how += ["--set", f"policy={json.dumps({'flow': options})}"]
    _common.warren_json("run", str(run), *how, "--out", str(out))
    metrics = f"truth.metrics={plain / 'metrics'}"
    _common.warren_json("simulate", str(run), *how, "--set", metrics, "--out", str(told))
    live, simulated = _learned(out), _learned(told)
    jobs = [_error(*pair) for pair in zip(_jobs(out), _jobs(told), strict=True)]
    row: Row = {
        "cell": run.stem,
        "place": name,
        **live,
        "told": simulated,
        "mean_jct_error_pct": fmean(abs(job["jct_pct"]) for job in jobs),
        "bias_pct": fmean(job["jct_pct"] for job in jobs),
        **_bits(hashes(plain), out),
        "each": jobs,
    }
    shown = {key: value for key, value in row.items() if isinstance(value, int | float)}
    print(f"{name}: " + "  ".join(f"{k} {_common.short(v)}" for k, v in shown.items()), flush=True)
    return row


def _learned(folder: Path) -> Row:
    """How soon the jobs of a run learned, their mean JCT and, simulated, whose bytes passed."""
    record = load_record(folder.name, folder_files(folder))
    curves = learned_curves(record)
    found: Row = {
        **{key: value for key, value in mean_times_s(curves).items() if key.startswith("trained")},
        "mean_jct_s": fmean(float(row["jct_s"]) for row in _jobs(folder)),
    }
    if record.history.link_use is not None:
        end_s = float(record.history.finish_ns_J.max()) / 1e9
        edges_s = np.arange(0.0, end_s + PERIOD_S, PERIOD_S)
        passed = bytes_in_windows(record, edges_s)
        found["by_rank"] = bytes_by_rank(curves, passed, edges_s).tolist()
    return found


def _jobs(folder: Path) -> list[dict[str, str]]:
    """The rows of ``jobs.csv``."""
    return list(csv.DictReader((folder / "jobs.csv").read_text().splitlines()))


def _error(live: dict[str, str], told: dict[str, str]) -> Row:
    """Of one job: predicted / measured - 1, in percent."""
    assert live["job"] == told["job"]
    live_s, told_s = float(live["jct_s"]), float(told["jct_s"])
    return {"job": live["job"], "jct_s": live_s, "jct_pct": 100 * (told_s / live_s - 1)}


if __name__ == "__main__":
    main()
