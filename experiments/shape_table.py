"""Table 3.1 of Cruise: epochs by how many machines work, for apps, hyper-parameters and machines.

The paper ran every shape of 32 or 52 machines; here is what its own cost model says of them. Items,
models and mini-batches are those of its Table 3.3 (four bytes a number); what an item takes to
compute is not stated, so it is the one unknown of a column. *there*: for all times of an item by
which the best shape is where the paper measured it, by (3.5), which cuts mini-batches, and by
(3.4), which does not. *fitted*: (3.4) with the time of an item that comes nearest to the column.
How often a mini-batch moves the model is no matter: twice, and items that take twice as long, are
the same ratios.

*lda*: what a document takes in our app, by topics; what a mini-batch takes besides is left out, by
the difference of two sizes.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import _common
import numpy as np
import torch
from numpy.typing import NDArray

from warren.cost.parameter_server import (
    ServerLinks,
    epoch_s_W,
    equal_item_s,
    equal_parts_P,
    transfer_s_W,
)

SEED: Final = 1
Floats = NDArray[np.float64]
TIMES: Final = 4001
"""So many times of an item are tried, from a hundredth to a hundred times that of ``item_s``."""
PARAMETER_BYTES: Final = 4
TOPICS: Final = (400, 4000)
SIZES: Final = (100, 300)
"""Documents of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table: an app on machines, and the ratio of each shape's epoch to the best.

    ``ratios``: by how many machines work; the others serve.
    """

    case: str
    name: str
    machines: int
    gbps: float
    items: int
    model_bytes: float
    batch: int
    ratios: Mapping[int, float]

    @property
    def best(self) -> int:
        """Workers of the shape that was measured to be the best."""
        return min(self.ratios, key=lambda one: self.ratios[one])

    @property
    def rate(self) -> float:
        """Bytes a second of a link."""
        return self.gbps * 1e9 / 8

    def item_s(self) -> float:
        """What an item takes if the optimum of (3.5) is at ``best`` exactly."""
        serving = self.machines - self.best
        return self.model_bytes / self.rate / self.batch * (self.best / serving) ** 2


def _nmf(name: str, machines: int, gbps: float, ratios: Mapping[int, float]) -> Column:
    return Column(
        case="machines" if machines > 32 else "algorithm", name=name, machines=machines, gbps=gbps,
        items=1_900_000, model_bytes=1e3 * 71e3 * PARAMETER_BYTES, batch=10_000, ratios=ratios,
    )  # fmt: skip


def _lda(topics: int, ratios: Mapping[int, float]) -> Column:
    return Column(
        case="topics", name=f"LDA, {topics} topics", machines=32, gbps=1.25, items=8_200_000,
        model_bytes=topics * 141e3 * PARAMETER_BYTES, batch=1000, ratios=ratios,
    )  # fmt: skip


TABLE: Final = (
    _nmf("NMF", 32, 1.25, {18: 1.30, 23: 1.0, 27: 1.66}),
    Column(
        case="algorithm", name="MLR", machines=32, gbps=1.25, items=100_000,
        model_bytes=4e3 * 160e3 * PARAMETER_BYTES, batch=1000,
        ratios={18: 2.29, 23: 1.12, 27: 1.0},
    ),
    _lda(400, {18: 1.0, 23: 1.21, 27: 1.60}),
    _lda(4000, {18: 1.44, 23: 1.0, 27: 1.20}),
    _nmf("NMF, m4.large", 52, 0.5, {34: 1.0, 38: 1.08, 42: 1.48}),
    _nmf("NMF, m4.xlarge", 52, 1.0, {34: 1.10, 38: 1.05, 42: 1.0}),
)  # fmt: skip
"""LDA with 400 topics is the LDA of case 1, too."""


def main() -> None:
    """Make all columns, measure our LDA, and save."""
    columns = [of_column(one) for one in TABLE]
    for row in columns:
        print(row, flush=True)
    lda = [of_lda(topics) for topics in TOPICS]
    content = {"columns": columns, "carried": carried(lda), "lda": lda}
    _common.save("shape_table", SEED, content)


def epochs_s_CW(column: Column, item_s_C: Floats, *, whole: bool) -> Floats:
    """Epochs for times of an item and numbers of workers from 1 on: by (3.4), or (3.5) in parts.

    On equal machines the data is split evenly, and the worker with most items ends last.
    """
    epochs = np.empty((len(item_s_C), column.machines - 1))
    for at in range(column.machines - 1):
        working = at + 1
        if whole:
            serving = column.machines - working
            links = ServerLinks(
                server_bytes_P=equal_parts_P(column.model_bytes, serving),
                server_rate_P=np.full(serving, column.rate),
                worker_rate_W=np.full(working, column.rate),
            )
            most = np.full(len(item_s_C), -(-column.items // working))
            exchange_s = np.full(len(item_s_C), transfer_s_W(links)[0])
            epochs[:, at] = epoch_s_W(most, item_s_C, exchange_s, column.batch)
        else:
            sends_s = equal_item_s(
                working, machines=column.machines, item_s=0.0, model_bytes=column.model_bytes,
                rate=column.rate, batch=column.batch,
            )  # fmt: skip
            epochs[:, at] = column.items / working * (item_s_C + sends_s)
    return epochs


def of_column(column: Column) -> dict[str, Any]:
    """What the cost model can say of a column."""
    item_s_C = column.item_s() * np.geomspace(0.01, 100, TIMES)
    shapes = np.array(list(column.ratios)) - 1
    paper = np.array(list(column.ratios.values()))
    row: dict[str, Any] = {
        "case": column.case, "name": column.name, "machines": column.machines,
        "workers": list(column.ratios), "paper": paper.tolist(), "best": column.best,
        "item_ms": 1e3 * column.item_s(),
    }  # fmt: skip
    for name, whole in (("parts", False), ("whole", True)):
        epochs = epochs_s_CW(column, item_s_C, whole=whole)
        ratios = epochs[:, shapes] / epochs.min(axis=1, keepdims=True)
        there = epochs.argmin(axis=1) == column.best - 1
        bests = {int(one) + 1 for one in epochs.argmin(axis=1)}
        row[f"{name}_beside"] = [
            max((one for one in bests if one < column.best), default=None),
            min((one for one in bests if one > column.best), default=None),
        ]
        # None: no time of an item makes the measured shape the best.
        row[name] = (
            [[float(one.min()), float(one.max())] for one in ratios[there].T]
            if there.any()
            else None
        )
        off = np.abs(ratios / paper - 1).max(axis=1)
        at = int(off.argmin())
        row[f"{name}_fit"] = {
            "ratios": ratios[at].tolist(), "item_ms": 1e3 * float(item_s_C[at]),
            "best": int(epochs[at].argmin()) + 1, "error_pct": 100 * float(off[at]),
        }  # fmt: skip
    return row


def carried(lda: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Columns by the time of an item of the one before: ten times the topics, twice the cores.

    With the topics it rises tenfold, or as in our app; twice the cores take half of it.
    """
    ours = lda[1]["item_ms"] / lda[0]["item_ms"]
    pairs = ((TABLE[2], TABLE[3], 10.0), (TABLE[2], TABLE[3], ours), (TABLE[4], TABLE[5], 0.5))
    rows = []
    for known, other, times in pairs:
        item_s_C = np.array([times * known.item_s()])
        epochs = epochs_s_CW(other, item_s_C, whole=False)[0]
        rows.append({
            "from": known.name, "to": other.name, "times": times, "best": int(epochs.argmin()) + 1,
            "ratios": [float(epochs[one - 1] / epochs.min()) for one in other.ratios],
            "wanted_times": other.item_s() / known.item_s(),
        })  # fmt: skip
    return rows


def of_lda(topics: int) -> dict[str, Any]:
    """What a document of 90 tokens takes in our app, on one core: by two sizes of a task."""
    sys.path.insert(0, str(_common.ROOT / "examples" / "apps"))
    module = importlib.import_module("lda")
    torch.set_num_threads(1)
    took_s = []
    for size in SIZES:
        torch.manual_seed(SEED)
        app = module.Lda(
            topics=topics, vocabulary=2000, documents=size, length=90, batch=size, seed=SEED
        )
        model, batch = app.model(), app.dataset()
        spans = []
        for _ in range(4):
            begin = time.perf_counter()
            app.loss(model, batch).backward()
            spans.append(time.perf_counter() - begin)
        took_s.append(min(spans))
    item_s = (took_s[1] - took_s[0]) / (SIZES[1] - SIZES[0])
    row = {"topics": topics, "item_ms": 1e3 * item_s, "task_s": took_s}
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
