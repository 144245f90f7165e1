"""Rings and jobs with servers, trained together on the four hosts of a testbed, and predicted.

``rings/mixed.yaml``: ten jobs, six of them rings over links of 200 Mbit/s that flows share in
turns. COMP is padded, bytes really pass the links. Under each policy: every job has the parameters
of ``engine: plain``, and a simulation with the calibrated network (``rings/network.yaml``) predicts
the JCTs: at most 10 % error in the mean. *ties*: ``rings/mixed-ties.yaml``, where half a second
decides which ring shares links with which; it may miss the limit. *one host*: the same jobs with
all ranks on one host, without a testbed; rings must have the same bits there.

``--part NAME`` makes one part and keeps the results of the others. Needs the rights of a testbed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import _common
import _disturb
import yaml
from _parts import Make, ask, make_parts

from warren.live.net.iproute import check_usable
from warren.model.errors import SpecError

RINGS: Final = Path(__file__).parent / "rings"
RUN: Final = RINGS / "mixed.yaml"
TIES: Final = RINGS / "mixed-ties.yaml"
NAME: Final = "rings"
PLACES: Final = ("braid", "fifo")
NETWORKS: Final = ("contention", "fluid")
LIMIT_PCT: Final = 10.0
SEED: Final = 1

Row = dict[str, Any]


def main() -> None:
    """Make the parts asked for, save, and stop with an error where a limit is missed."""
    make: dict[str, Make] = {"testbed": on_testbed, "ties": with_ties, "one host": on_one_host}
    parts = make_parts(
        "ring_mixed", ask(__doc__, list(make)), make, seed=SEED,
        stated={"limit_pct": LIMIT_PCT}, cannot=_cannot,
    )  # fmt: skip
    if missed := [line for part in parts.values() for row in part["rows"] for line in row["wrong"]]:
        sys.exit("\n".join(missed))


def _cannot(part: str) -> str:
    try:
        check_usable()
    except SpecError as error:
        return "" if part == "one host" else str(error)
    return ""


def on_testbed(scratch: Path) -> dict[str, Any]:
    """Train under each policy, and predict by each network model."""
    oracle = _plain(RUN, scratch)
    with _testbed():
        rows = [row for place in PLACES for row in _rows(RUN, place, oracle, scratch)]
    for row in rows:
        if row["mean_error_pct"] > LIMIT_PCT:
            what = f"{row['place']}, {row['network']}"
            row["wrong"].append(f"{what}: {row['mean_error_pct']:.2f} % JCT error")
    return {"rows": rows}


def with_ties(scratch: Path) -> dict[str, Any]:
    """What near ties do."""
    oracle = _plain(TIES, scratch)
    with _testbed():
        return {"rows": list(_rows(TIES, "fifo", oracle, scratch))}


def on_one_host(scratch: Path) -> dict[str, Any]:
    """The same rings within one host."""
    oracle, out = _plain(RUN, scratch), scratch / "one"
    _trained(RUN, "fifo", out, "--set", f"cluster={RINGS / 'host1.yaml'}")
    return {"rows": [{"place": "fifo", **_bits(oracle, out)}]}


def _rows(run: Path, place: str, oracle: dict[str, str], scratch: Path) -> Iterator[Row]:
    """One live run, beside the plain loop and beside its predictions."""
    out = scratch / place
    _trained(run, place, out)
    found = _disturb.summary(out)
    for network in NETWORKS:
        told = scratch / f"{place}-{network}"
        cluster = ["--set", f"cluster.network={_fluid()}"] if network == "fluid" else []
        _common.warren_json("simulate", str(run), "--place", place, "--out", str(told), *cluster)
        error = _common.jct_error(_common.warren_json("compare", str(out), str(told)))
        row = {
            "place": place,
            "network": network,
            "tasks": found["tasks"],
            "overruns": found["overruns"],
            "makespan_s": found["makespan_s"],
            **{key: error[key] for key in ("mean_error_pct", "max_error_pct", "bias_pct")},
            **_bits(oracle, out),
        }
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        yield row


def _fluid() -> str:
    """The other model, with the rates that were measured."""
    measured = yaml.safe_load((RINGS / "network.yaml").read_text())
    kept = {key: measured[key] for key in ("outer", "inner", "xi2") if key in measured}
    return json.dumps({"model": "fluid", **kept})


def _bits(oracle: dict[str, str], out: Path) -> Row:
    """How many jobs have the bits of the plain engine."""
    found = _disturb.hashes(out)
    wrong = [
        f"{out.name}: {name} has other bits" for name in oracle if found.get(name) != oracle[name]
    ]
    return {"jobs": len(oracle), "same_bits": len(oracle) - len(wrong), "wrong": wrong}


def _plain(run: Path, scratch: Path) -> dict[str, str]:
    out = scratch / "plain"
    _trained(run, "fifo", out, "--set", "cluster.engine=plain")
    return _disturb.hashes(out)


def _trained(run: Path, place: str, out: Path, *more: str) -> None:
    _common.warren_json("run", str(run), "--place", place, "--out", str(out), *more)


@contextmanager
def _testbed() -> Iterator[None]:
    """The hosts of ``rings/bed4.yaml``, for as long as they are needed."""
    of = ["--name", NAME]
    _common.warren_json("testbed", "up", "--file", str(RINGS / "bed4.yaml"), *of)
    try:
        yield
    finally:
        _common.warren_json("testbed", "down", *of)


if __name__ == "__main__":
    main()
