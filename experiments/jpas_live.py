"""JPAS on a testbed with real training: by how soon jobs learn, under four answers to whose bytes.

Four hosts, links of 200 Mbit, ten jobs that train on digits (``_jpas_live.py``). Flow ``fair``,
``maif`` with the gain as the paper has it (*maif*) and with ours (*maif-expected*), and ``shift``.
Times to 90, 95 and 99 % of the converged accuracy from the first task on, and JCT. Bits are those
of the plain loop. *told*: a simulation of each run that was made, which knows what metrics the
plain loop has shown (``truth.metrics``) and the rate of the links that ``testbed up`` measured;
and of *maif-smoothed*, which differs from *maif* in y_t alone.

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
from _parts import Asked, Make, ask, make_parts
from _rights import cannot
from link_mixes import _testbed
from ring_mixed import _bits

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
TOLD_ALONE: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "maif-smoothed": ("maif", {"period_s": PERIOD_S, "gain": "smoothed"}),
}
"""Only simulated: (22) less the curve's value in place of y_t, and nothing else."""
SEEDS: Final = (1, 2, 3)
TRIAL: Final = 101
LIMIT_PCT: Final = 5.0
SEED: Final = 1
TOLD: Final = "told"

Row = dict[str, Any]


def main() -> None:
    """Make the parts asked for, save, and stop with an error where bits differ."""
    names = {f"seed-{seed}": seed for seed in SEEDS} | {"trial": TRIAL}
    asked = ask(__doc__, [*names, TOLD], list(FLOWS))
    make: dict[str, Make] = {name: partial(part, seed, asked) for name, seed in names.items()}
    make[TOLD] = told
    parts = make_parts(
        "jpas_live",
        asked,
        make,
        seed=SEED,
        stated={"limit_pct": LIMIT_PCT},
        cannot=lambda part: "" if part == TOLD else cannot(),
    )
    rows = [row for name in names for row in parts.get(name, {"rows": []})["rows"]]
    if wrong := [line for row in rows for line in row["wrong"]]:
        sys.exit("\n".join(wrong))


def part(seed: int, asked: Asked, scratch: Path) -> dict[str, Any]:
    """The jobs of a seed, live, under each policy."""
    run, plain = _written(seed, scratch)
    with _testbed("fair") as link_bps:
        stated = network(RINGS / "network.yaml", link_bps)
        rows = [_live(run, name, stated, plain, scratch) for name in asked.places]
    return {"outer": stated["outer"], "rows": rows}


def told(scratch: Path) -> dict[str, Any]:
    """A simulation of each run that was made."""
    made, rows = _common.earlier("jpas_live"), []
    for seed in SEEDS:
        if (live := made.get(f"seed-{seed}")) is None:
            continue
        folder = scratch / str(seed)
        folder.mkdir()
        run, plain = _written(seed, folder)
        stated = {**network(RINGS / "network.yaml"), "outer": live["outer"]}
        for row in live["rows"]:
            rows.append(_simulated(run, row, stated, plain, folder))
            _show(rows[-1])
        for name in TOLD_ALONE:
            out = _simulate(run, name, stated, plain, folder)
            rows.append({"cell": run.stem, "place": name, **_learned(out)})
            _show(rows[-1])
    return {"rows": rows}


def _written(seed: int, scratch: Path) -> tuple[Path, Path]:
    """The run of a seed, and the folder of its jobs trained by the plain loop."""
    run, plain = scratch / f"jpas-live-{seed}.yaml", scratch / "plain"
    run.write_text(yaml.safe_dump(drawn(seed), sort_keys=False))
    _common.warren_json("run", str(run), "--set", "cluster.engine=plain", "--out", str(plain))
    return run, plain


def _show(row: Row) -> None:
    shown = {k: v for k, v in row.items() if isinstance(v, str | int | float)}
    print("  ".join(f"{k} {_common.short(v)}" for k, v in shown.items()), flush=True)


def _how(name: str, stated: Row) -> list[str]:
    flow, options = {**FLOWS, **TOLD_ALONE}[name]
    how = ["--flow", flow, "--set", f"cluster.network={json.dumps(stated)}"]
    return how + (["--set", f"policy={json.dumps({'flow': options})}"] if options else [])


def _live(run: Path, name: str, stated: Row, plain: Path, scratch: Path) -> Row:
    out = scratch / name
    _common.warren_json("run", str(run), *_how(name, stated), "--out", str(out))
    each = [{"job": row["job"], "jct_s": float(row["jct_s"])} for row in _jobs(out)]
    found = {**_learned(out), **_bits(hashes(plain), out)}
    print(f"{name}: " + "  ".join(f"{k} {_common.short(v)}" for k, v in found.items()), flush=True)
    return {"cell": run.stem, "place": name, **found, "each": each}


def _simulated(run: Path, live: Row, stated: Row, plain: Path, scratch: Path) -> Row:
    """A run again, in virtual time: predicted / measured - 1 of each job, in percent."""
    name = live["place"]
    out = _simulate(run, name, stated, plain, scratch)
    each = [
        {"job": one["job"], "jct_pct": 100 * (float(row["jct_s"]) / one["jct_s"] - 1)}
        for one, row in zip(live["each"], _jobs(out), strict=True)
        if one["job"] == row["job"]
    ]
    return {
        "cell": run.stem,
        "place": name,
        **_learned(out),
        "mean_jct_error_pct": fmean(abs(job["jct_pct"]) for job in each),
        "bias_pct": fmean(job["jct_pct"] for job in each),
        "each": each,
    }


def _simulate(run: Path, name: str, stated: Row, plain: Path, scratch: Path) -> Path:
    """Simulate a run with the metrics of the plain loop, and return its folder."""
    out, metrics = scratch / name, f"truth.metrics={plain / 'metrics'}"
    how = [*_how(name, stated), "--set", metrics]
    _common.warren_json("simulate", str(run), *how, "--out", str(out))
    return out


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


if __name__ == "__main__":
    main()
