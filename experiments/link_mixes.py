"""Jobs with servers and rings that share the links of a testbed, live and simulated.

Four hosts, links of 200 Mbit/s, ``network: {model: fluid}`` with the goodput that ``warren testbed
up`` measures of its links just before (``outer``) and the rate within a host that ``warren
calibrate --rings`` measured (``rings/network.yaml``). COMP is padded, bytes really pass the links.
Each mix (``_link_mixes.py``) has devices for all its jobs at once, and runs under flow ``fair`` and
under flow ``fixed``, where each job has a class drawn for it, 1 to 3.

*mix-15* to *mix-28*: drawn by these seeds when the model was settled, and not selected; trials had
seeds above 100. Mean error of round times at most 5 %, of JCTs at most 5 %. *mix-1* to *mix-14*
had been judged with ``outer`` of rings, 187.3 Mbit, and looked at when it became that of the links.
*fifo-15* to *fifo-18*: mixes again, with one queue for all flows of a class before each link.

``--part NAME`` makes one part and keeps the results of the others; ``--part 'mix-*'`` those of a
pattern. Needs the rights of a testbed.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import _common
import _disturb
import yaml
from _link_mixes import FRESH, LOOKED_AT, RINGS, drawn, network
from _parts import Make, ask, make_parts
from ring_mixed import _bits, _cannot, _cells, _plain

NAME: Final = "rings"
FLOWS: Final = ("fair", "fixed")
LIMIT_PCT: Final = 5.0
SEED: Final = 1
ONE_QUEUE: Final = FRESH[:4]

Row = dict[str, Any]


def main() -> None:
    """Make the parts asked for, save, and stop with an error where a limit is missed."""
    make: dict[str, Make] = {
        f"mix-{seed}": partial(mix, seed, "fair") for seed in LOOKED_AT + FRESH
    }
    make |= {f"fifo-{seed}": partial(mix, seed, "fifo") for seed in ONE_QUEUE}
    make |= {"trial": partial(mix, 101, "fair")}
    asked = ask(__doc__, list(make))
    parts = make_parts(
        "link_mixes", asked, make, seed=SEED, stated={"limit_pct": LIMIT_PCT}, cannot=_cannot
    )
    rows = [row for seed in FRESH for row in parts.get(f"mix-{seed}", {"rows": []})["rows"]]
    missed = [line for row in rows for line in row["wrong"]]
    for what in ("round", "jct"):
        mean = fmean([row[f"mean_{what}_pct"] for row in rows] or [0.0])
        if mean > LIMIT_PCT:
            missed.append(f"mixes: {mean:.2f} % error of the {what} in the mean")
    if missed:
        sys.exit("\n".join(missed))


def mix(seed: int, queue: str, scratch: Path) -> dict[str, Any]:
    """One mix, live and simulated, under each flow."""
    content = drawn(seed)
    run = scratch / f"links-{seed}.yaml"
    run.write_text(yaml.safe_dump(content, sort_keys=False))
    oracle = _plain(run, scratch)
    with _testbed(queue) as link_bps:
        stated = network(RINGS / "network.yaml", link_bps)
        rows = [_row(run, flow, stated, oracle, scratch) for flow in FLOWS]
    return {"queue": queue, "outer": stated["outer"], "rows": rows}


def _row(run: Path, flow: str, stated: Row, oracle: dict[str, str], scratch: Path) -> Row:
    out, told = scratch / flow, scratch / f"{flow}-told"
    how = ["--place", "fifo", "--flow", flow, "--set", f"cluster.network={json.dumps(stated)}"]
    _common.warren_json("run", str(run), *how, "--out", str(out))
    _common.warren_json("simulate", str(run), *how, "--out", str(told))
    jobs = [_errors(*pair) for pair in zip(_jobs(out), _jobs(told), strict=True)]
    row: Row = {
        "flow": flow,
        "overruns": _disturb.summary(out)["overruns"],
        "mean_round_pct": fmean(abs(job["round_pct"]) for job in jobs),
        "max_round_pct": max(abs(job["round_pct"]) for job in jobs),
        "mean_jct_pct": fmean(abs(job["jct_pct"]) for job in jobs),
        "max_jct_pct": max(abs(job["jct_pct"]) for job in jobs),
        "bias_pct": fmean(job["jct_pct"] for job in jobs),
        **_bits(oracle, out),
        "each": jobs,
    }
    shown = {key: value for key, value in row.items() if key != "each"}
    print(f"{run.stem}: " + "  ".join(_cells(shown)), flush=True)
    return row


def _jobs(folder: Path) -> list[dict[str, str]]:
    """The rows of ``jobs.csv``."""
    return list(csv.DictReader((folder / "jobs.csv").read_text().splitlines()))


def _errors(live: dict[str, str], told: dict[str, str]) -> Row:
    """Of one job: predicted / measured - 1, in percent; a round from its start to its end."""
    assert live["job"] == told["job"]

    def round_s(row: dict[str, str]) -> float:
        return (float(row["finish_s"]) - float(row["start_s"])) / int(row["rounds"])

    return {
        "job": live["job"],
        "sync": live["sync"],
        "round_s": round_s(live),
        "round_pct": 100 * (round_s(told) / round_s(live) - 1),
        "jct_s": float(live["jct_s"]),
        "jct_pct": 100 * (float(told["jct_s"]) / float(live["jct_s"]) - 1),
    }


@contextmanager
def _testbed(queue: str) -> Iterator[float]:
    """The hosts of ``rings/bed4.yaml`` with such queues, and the mean goodput of their links."""
    of = ["--name", NAME]
    bed = {**yaml.safe_load((RINGS / "bed4.yaml").read_text()), "queue": queue}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(bed, file)
        file.flush()
        up = _common.warren_json("testbed", "up", "--file", file.name, *of)
    try:
        yield fmean(one["goodput_bps"] for one in up["measured"])
    finally:
        _common.warren_json("testbed", "down", *of)


if __name__ == "__main__":
    main()
