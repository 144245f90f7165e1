"""The section of docs/background/reproduction/jpas.md about real training on a testbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final, TypeAlias

from _evidence_live import table
from jpas_live import FLOWS, SEEDS, TOLD_ALONE

Rows: TypeAlias = Sequence[Mapping[str, Any]]
KEYS: Final = ("trained_90_s", "trained_95_s", "trained_99_s", "mean_jct_s")
NAMES: Final = {
    "maif": "maif, gain (22)",
    "maif-smoothed": "maif, (22) less the curve's value",
    "maif-expected": "maif, gain ours",
}

TEXT: Final = """## On a testbed, with real training

Ten jobs of two workers and two servers each on four hosts with links of 200 Mbit/s: nets of 2 to 4
MB that learn the digits of scikit-learn, 70 to 130 rounds that compute 100 ms and send for longer
(`experiments/_jpas_live.py`; `.venv/bin/python experiments/jpas_live.py`, commit {commits}).
Sets of jobs are drawn by seeds that nobody had looked at before a first run ({sets} made); sizes,
how fast jobs come and the period of 5 s were chosen by simulations of others. One run each. Means
over the sets that a row has, training times from the first task on; changes are against fair on the
same sets, in brackets those of each. A simulation is told what metrics the plain loop has shown and
what rate the links were measured to have. Accuracies are those of 360 pictures, and noisy: (22)
subtracts one of them, ours the curve's value. What differs from (22) in that alone was simulated.

The same jobs had run once before (ed7b1562), when hosts of a testbed had the congestion control of
the machine (BBR where it was looked at) in place of Reno, and connections between them were not
encrypted: under fair 25.0 s to 90 % and a JCT of 110.4 s; maif by (22) -1.4 and -13.2 %, with our
gain -37.2 and -6.0 %, shift -1.6 and +0.9 %. Jobs and options are the same; the engine, the
simulator and what policies share were worked on in between. Beside some runs of the first set now
short other work had the processors; COMP is padded.

"""


def section(parts: Mapping[str, Any]) -> str:
    """The text; empty where nothing was made."""
    made = [parts[f"seed-{seed}"] for seed in SEEDS if f"seed-{seed}" in parts]
    if not made:
        return ""
    rows = [row for part in made for row in part["rows"]]
    told = parts.get("told", {"rows": []})["rows"]
    lines = [_line(flow, rows, told) for flow in FLOWS if any(r["place"] == flow for r in rows)]
    lines += [
        _told_line(flow, told) for flow in TOLD_ALONE if any(r["place"] == flow for r in told)
    ]
    heads = ["flow", "sets", "to 90 %", "95 %", "99 %", "JCT"]
    heads += [f"simulated: {one}" for one in heads[2:]]
    heads += ["JCT simulated against live", "bits of plain"]
    commits = ", ".join(sorted({part["made_by"]["commit"] for part in made}))
    return TEXT.format(commits=commits, sets=len(made)) + table(heads, lines)


def _line(flow: str, rows: Rows, told: Rows) -> list[str]:
    """One policy, against fair on the same sets of jobs."""
    sets = [row["cell"] for row in rows if row["place"] == flow]
    live, virtual = ([_row(one, flow, found) for one in sets] for found in (rows, told))
    fair, fair_told = ([_row(one, "fair", found) for one in sets] for found in (rows, told))
    same = f"{sum(row['same_bits'] for row in live)} of {sum(row['jobs'] for row in live)}"
    times = [*_times(live, fair), *_times(virtual, fair_told)]
    return [NAMES.get(flow, flow), str(len(sets)), *times, *_errors(virtual), same]


def _told_line(flow: str, told: Rows) -> list[str]:
    """A policy that was simulated alone."""
    virtual = [row for row in told if row["place"] == flow]
    fair = [_row(row["cell"], "fair", told) for row in virtual]
    nothing = [""] * len(KEYS)
    return [NAMES[flow], str(len(virtual)), *nothing, *_times(virtual, fair), "", ""]


def _row(cell: str, flow: str, rows: Rows) -> Mapping[str, Any]:
    return next(row for row in rows if (row["cell"], row["place"]) == (cell, flow))


def _times(rows: Rows, fair: Rows) -> list[str]:
    """The figures of each key, and how they are to fair's."""
    cells = []
    for key in KEYS:
        mean_s = fmean(row[key] for row in rows)
        if rows == fair:
            cells.append(f"{mean_s:.1f} s")
            continue
        change = 100 * (mean_s / fmean(row[key] for row in fair) - 1)
        each = [100 * (one[key] / other[key] - 1) for one, other in zip(rows, fair, strict=True)]
        cells.append(f"{change:+.1f} % ({', '.join(f'{one:+.1f}' for one in each)})")
    return cells


def _errors(rows: Rows) -> list[str]:
    jobs = [job["jct_pct"] for row in rows for job in row["each"]]
    return [f"{fmean(map(abs, jobs)):.1f} % off, {fmean(jobs):+.1f} % in the mean"]
