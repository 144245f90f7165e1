"""Table 3.1 of Cruise by its cost model: epochs are those of the search, and known cells hold."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))
from shape_table import TABLE, Column, epochs_s_CW, of_column

from warren.cost.parameter_server import best_workers
from warren.solve.shapes.kinds import MachineKinds
from warren.solve.shapes.shape_search import Epoch, best_shape


@pytest.mark.parametrize("column", TABLE, ids=lambda one: one.name)
@pytest.mark.parametrize("whole", [False, True])
def test_epochs_are_those_that_the_search_of_shapes_finds(column: Column, *, whole: bool) -> None:
    item_s_C = column.item_s() * np.array([0.1, 1.0, 7.0])
    epochs = epochs_s_CW(column, item_s_C, whole=whole)
    for item_s, epoch_s_W in zip(item_s_C.tolist(), epochs, strict=True):
        kinds = MachineKinds(
            count_K=np.array([column.machines]), item_s_K=np.array([item_s]),
            rate_K=np.array([column.rate]), devices_K=np.array([1]),
        )  # fmt: skip
        epoch = Epoch(
            items=column.items, model_bytes=column.model_bytes, batch=column.batch, whole=whole,
            ways=1,
        )  # fmt: skip
        for working in (1, column.best, column.machines - 1):
            found_s = best_shape(kinds, epoch, working).epoch_s
            # Items stay whole there, if mini-batches do not.
            assert found_s == pytest.approx(epoch_s_W[working - 1], rel=1e-3)


@pytest.mark.parametrize("column", TABLE, ids=lambda one: one.name)
def test_the_time_of_an_item_puts_the_optimum_where_the_paper_measured_it(column: Column) -> None:
    found = best_workers(
        machines=column.machines, item_s=column.item_s(), model_bytes=column.model_bytes,
        rate=column.rate, batch=column.batch,
    )  # fmt: skip
    assert found == column.best


def test_no_time_of_an_item_gives_what_the_paper_measured_of_mlr() -> None:
    """At most 27 / 18 over (27, 5): the paper has 2.29."""
    (mlr,) = (one for one in TABLE if one.name == "MLR")
    for whole in (False, True):
        epochs = epochs_s_CW(mlr, mlr.item_s() * np.geomspace(1e-3, 1e6, 200), whole=whole)
        assert (epochs[:, 17] / epochs[:, 26]).max() <= 1.5 + 1e-9


def test_whole_mini_batches_choose_the_neighbors_of_the_measured_optimum_as_cruise_did() -> None:
    nmf = of_column(TABLE[0])
    assert nmf["whole"] is None
    assert nmf["whole_beside"] == [22, 24]
