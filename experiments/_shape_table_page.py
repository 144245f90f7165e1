"""What the page of Cruise says of its Table 3.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from _evidence_live import table

TEXT: Final = """
## Table 3.1: what it compares, by its own cost model

Epochs of three shapes, over the best of all: for apps (NMF, MLR, LDA on 32 machines), topics of LDA
(400, 4K), and machines (NMF on 52 m4.large, or m4.xlarge with twice the cores and links). *What
cannot be made here*: the paper's epochs. They are of EC2 machines, data sets and an engine that are
not here, and what an item takes to compute is not printed. So `experiments/shape_table.py` asks
what the paper's cost model can say of its own table: items, models and mini-batches are those of
Table 3.3, four bytes a number, and an item's time is the one unknown of a column. *(3.5) there*:
the ratios for all times by which the best shape is where the paper has it, mini-batches cut
anywhere; *(3.4) there*: whole mini-batches; *(3.4) nearest*: by the time that comes nearest to the
column. Shapes are workers + servers.

{columns}

| column | item, (3.5) there | (3.4) nearest: item | its best | most error |
| --- | --- | --- | --- | --- |
{fits}

Of six columns the model comes within {close:.0f} % of
{near}. It cannot
give MLR's {mlr:.2f}: 18 workers in place of 27 have 1.5 times as many items each, and the model
comes faster, so no epoch is more than 1.5 times that of 27 + 5. With whole mini-batches no time of
an item makes {never} the best for NMF on 32 machines, but {below} and {above}, which are what
Cruise chose from two starts (Table 3.4).

The best shape of (3.5) hangs on (model / link) / (item x mini-batch) alone. A column carried to the
next by what should change between them:

{carried}

The second of these is what our LDA does, which samples over all topics (the paper's does not say
how long it takes): a document of 90 tokens takes {low:.3f} ms with 400 topics and {high:.3f} ms
with 4,000, on one core ({machine}, commit {commit}; 2,000 words where the paper's
data has 141,000). Twice the cores and twice the link leave the best shape of (3.5) where it is,
whatever the app; the paper measured that it moves.
"""
OURS: Final = """
Case 1 with our apps, from the [testbed](#on-a-testbed) below: six hosts, models of about 1 MB,
shapes in which no host does both, over the best of these. Cases 2 and 3 were not run there.

{rows}
"""


def table_text(found: Mapping[str, Any], live: Mapping[str, Any], apps: Sequence[str]) -> str:
    """The section: the columns by the cost model, and what our testbed measured."""
    columns = found["columns"]
    by_name = {row["name"]: row for row in columns}
    errors = {row["name"]: _nearest(row)["error_pct"] for row in columns}
    near = [name for name, error in errors.items() if error < 6]
    first, second = found["lda"]
    nmf = by_name["NMF"]
    assert nmf["whole"] is None, "the text says so"
    below, above = nmf["whole_beside"]
    text = TEXT.format(
        columns=table(
            ["case", "column", "shape", "paper", "(3.5) there", "(3.4) there", "(3.4) nearest"],
            [line for row in columns for line in _cells(row)],
        ),
        fits=table([], [_fit(row) for row in columns]).split("\n", 2)[2],
        close=max(errors[name] for name in near), near=_listed(near),
        mlr=max(by_name["MLR"]["paper"]), never=_shape(nmf["best"], nmf),
        below=_shape(below, nmf), above=_shape(above, nmf),
        carried=table(
            ["from", "to", "item takes", "best", "ratios", "paper", "item would have to take"],
            [_carried(row, by_name[row["to"]]) for row in found["carried"]],
        ),
        low=first["item_ms"], high=second["item_ms"],
        machine=found["made_by"]["processor"], commit=found["made_by"]["commit"],
    )  # fmt: skip
    made = [app for app in apps if app in live]
    return text + (OURS.format(rows=_measured(live, made)) if made else "")


def _shape(working: int, row: Mapping[str, Any]) -> str:
    return f"{working} + {row['machines'] - working}"


def _nearest(row: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = row["whole_fit"]
    return found


def _cells(row: Mapping[str, Any]) -> list[list[str]]:
    """A line a shape."""
    lines = []
    for at, working in enumerate(row["workers"]):
        there = [_range(row[name], at) for name in ("parts", "whole")]
        lines.append([
            row["case"], row["name"], _shape(working, row), _ratio(row["paper"][at]), *there,
            _ratio(_nearest(row)["ratios"][at]),
        ])  # fmt: skip
    return lines


def _range(found: Sequence[Sequence[float]] | None, at: int) -> str:
    """From the least ratio to the greatest; nothing where no time gives the best shape."""
    if found is None:
        return "never the best"
    low, high = (_ratio(one) for one in found[at])
    return low if low == high else f"{low} to {high}"


def _ratio(value: float) -> str:
    return "best" if value == 1 else f"{value:.2f}"


def _fit(row: Mapping[str, Any]) -> list[str]:
    near = _nearest(row)
    return [
        row["name"], f"{row['item_ms']:.3g} ms", f"{near['item_ms']:.3g} ms",
        _shape(near["best"], row), f"{near['error_pct']:.1f} %",
    ]  # fmt: skip


def _carried(row: Mapping[str, Any], to: Mapping[str, Any]) -> list[str]:
    return [
        row["from"], row["to"], f"{row['times']:.3g} times", _shape(row["best"], to),
        ", ".join(_ratio(one) for one in row["ratios"]),
        ", ".join(_ratio(one) for one in to["paper"]), f"{row['wanted_times']:.3g} times",
    ]  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    *others, last = (f"*{name}*" for name in names)
    return f"{', '.join(others)} and {last}" if others else last


def _measured(live: Mapping[str, Any], apps: Sequence[str]) -> str:
    """Ratios of our apps' rounds, by shape."""
    found = {app: _alone(live[app]["rows"]) for app in apps}
    shapes = list(found[apps[0]])
    return table(
        ["shape", *apps],
        [[one, *(_ratio(found[app][one]) for app in apps)] for one in shapes],
    )


def _alone(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What shapes take in which no host does both, over the best of them."""
    took_s = {}
    for row in rows:
        works, serves = row["shape"].split(":")
        if works != serves:
            took_s[f"{len(works)} + {len(serves)}"] = row["measured_s"]
    best_s = min(took_s.values())
    return {shape: one / best_s for shape, one in took_s.items()}
