"""The section of the page of evidence about rings and jobs with servers on a testbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from _evidence_live import table
from _mixed_sets import FRESH, LOOKED_AT

_NONE: Final[Mapping[str, Any]] = {"rows": []}
_NOT_MADE: Final = "not yet made"
_LATER: Final = f"{_NOT_MADE.capitalize()}."
_JUDGED: Final = "contention"
_MEAN_PCT: Final = 5
_MOST_PCT: Final = 10
_HEAD: Final = ["set", "policy", "simulated network", "with plain's bits", "tasks that overran",
                "mean JCT error", "largest", "bias", "of times", "of decisions",
                "jobs placed otherwise"]  # fmt: skip
Row: TypeAlias = Mapping[str, Any]


def ring_mixed(result: Mapping[str, Any]) -> str:
    """Fresh sets first, then the first set by its own name, then the redrawn one."""
    parts = result["parts"]
    return (
        "## Rings and servers on four hosts\n\nSets of ten jobs, six of them rings, trained on the "
        "four hosts of a testbed behind links of 200 Mbit that flows share in turns (`queue: "
        "fair`, the default; nothing here was shown with `fifo`). COMP is padded, bytes really "
        "pass the links. The simulator has the network that `warren calibrate --rings` measured "
        "(`experiments/rings/network.yaml`) and what gangs take to start "
        "(`experiments/rings/machine.yaml`, `profiles.yaml`); results made before starts were "
        "charged have no split of the error. *Of times*: its mean where the simulator is given "
        "the live run's decisions. *Of decisions*: by how much, in percent of the live JCT, the "
        "simulator's own decisions move its JCTs; the two may cancel. A plan (`braid`) is the same "
        "in both worlds.\n\n" + _fresh(parts) + _first(parts) + _redrawn(parts)
    )


def _fresh(parts: Mapping[str, Any]) -> str:
    text = (
        f"*Fresh sets*, drawn by the seeds {FRESH[0]} to {FRESH[-1]} when program and model were "
        f"settled, and not selected; the tens drawn before them stand below. Limits of the error: "
        f"{_MEAN_PCT} % in the mean of all, {_MOST_PCT} % for each.\n\n"
    )
    text += _sets(parts, FRESH) or _LATER
    for drawn, changed in reversed(LOOKED_AT):
        before = _sets(parts, drawn)
        if before:
            text += (
                f"\n\n*Sets that were fresh*, drawn by the seeds {drawn[0]} to {drawn[-1]}. They "
                "showed that most simulated JCTs were too short; runs of them were looked at, and "
                f"{changed}. These are their figures from before that.\n\n{before}"
            )
    return text


def _sets(parts: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """The rows of these sets and what they come to; empty for none."""
    names = [name for name in (f"fresh-{seed}" for seed in seeds) if name in parts]
    if not names:
        return ""
    rows = [_cells(name, row) for name in names for row in parts[name]["rows"]]
    judged = [row for name in names for row in parts[name]["rows"] if row["network"] == _JUDGED]
    return f"{table(_HEAD, rows)}\n\n{_verdict(judged, len(names), len(seeds))}"


def _verdict(rows: Sequence[Row], sets: int, all_: int) -> str:
    errors = [row["mean_error_pct"] for row in rows]
    mean, most = sum(errors) / len(errors), max(errors)
    short = sum(row["bias_pct"] < 0 for row in rows)
    kept = "within" if mean <= _MEAN_PCT and most <= _MOST_PCT else "not within"
    missing = "" if sets == all_ else f" Of {all_} sets {all_ - sets} are {_NOT_MADE}."
    return (
        f"With `{_JUDGED}`, which the cluster file names: {mean:.2f} % in the mean, {most:.2f} % "
        f"at most, {kept} the limits; in {short} of {len(rows)} runs simulated JCTs are too short."
        f"{missing}"
    )


def _first(parts: Mapping[str, Any]) -> str:
    rows = parts.get("ties", _NONE)["rows"]
    judged = [row["mean_error_pct"] for row in rows if row["network"] == _JUDGED]
    text = (
        "\n\n*The first set*, `mixed-ties.yaml`, drawn before any other: half a second decides "
        "which ring shares links with which. "
    )
    if not judged:
        return f"{text}{_LATER}"
    missed = "misses" if max(judged) > _MOST_PCT else "keeps"
    return f"{text}It {missed} the limit of {_MOST_PCT} %, with {max(judged):.2f} %.\n\n" + table(
        _HEAD, [_cells("mixed-ties", row) for row in rows]
    )


def _redrawn(parts: Mapping[str, Any]) -> str:
    rows = parts.get("testbed", _NONE)["rows"]
    text = (
        "\n\n*The redrawn set*, `mixed.yaml`: after the first one had missed, arrivals and rounds "
        "were drawn again until small delays moved simulated JCTs little. It was selected, so it "
        f"shows less than the fresh ones do. Limit {_MOST_PCT} %.\n\n"
        + table(_HEAD, [_cells("mixed", row) for row in rows])
    )
    for one in parts.get("one host", _NONE)["rows"]:
        text += (
            f"\n\nIts jobs on one host, without a testbed: {one['same_bits']} of {one['jobs']} "
            "have plain's bits."
        )
    return text


def _cells(name: str, row: Row) -> list[object]:
    return [
        name, row["place"], row["network"], f"{row['same_bits']} of {row['jobs']}",
        f"{row['overruns']:.0f} of {row['tasks']}", f"{row['mean_error_pct']:.2f} %",
        f"{row['max_error_pct']:.2f} %", f"{row['bias_pct']:+.2f} %", _percent(row, "given_pct"),
        _percent(row, "moved_pct"), row.get("otherwise", _NOT_MADE),
    ]  # fmt: skip


def _percent(row: Row, key: str) -> str:
    return f"{row[key]:.2f} %" if key in row else _NOT_MADE
