"""Which boxes the schedule by device is drawn with: tasks one by one, or shares of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.costs import BoolArray, FloatArray, IntArray
from warren.report.page.svg import WIDTH, Scale
from warren.report.record import Record
from warren.report.slices import Slices, joined

MOST_EXACT: Final = 6_000
"""Slices up to this number are drawn one by one; beyond, pixel columns are."""
LEVELS: Final = 4
"""Heights that a box of a pixel column can have: it is drawn in quarters of its row."""
MOST_BOXES: Final = 40_000
"""Boxes of pixel columns at most; with more the columns are made wider."""
OTHERS: Final = -1
"""The job of a box that stands for several."""
_STACKS: Final = 120
"""Columns of a row that may be stacked: some eight CSS pixels each."""
_MEAN_CROWD: Final = 8
"""Slices in the mean column from which on columns are twice as wide: shares then vary less."""
_CROWD: Final = 5
"""Slices in a column from which on it is stacked: some two CSS pixels each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """The boxes of the chart; axis B, x from 0 to ``WIDTH``.

    ``level_B``: heights in quarters of a row; ``floor_B``: what a box stands on, in the same unit.
    ``job_B`` is ``OTHERS`` for several jobs together. ``exact``: each box is a slice.
    """

    job_B: IntArray
    device_B: IntArray
    x_B: FloatArray
    width_B: FloatArray
    level_B: FloatArray
    floor_B: FloatArray
    exact: bool


def boxes_of(record: Record, span_s: Scale, devices: int) -> Boxes:
    """Return slices as boxes: exact ones where few, else the main job of each pixel column."""
    low_ns, span_ns = span_s.low * 1e9, (span_s.high - span_s.low) * 1e9
    slices = _slices(record, span_ns, devices)
    if len(slices) <= MOST_EXACT:
        return _exact(slices, low_ns, span_ns)
    columns = WIDTH
    boxes = _binned(slices, low_ns, span_ns, columns)
    while len(boxes.job_B) > MOST_BOXES and columns > 60:
        columns //= 2
        boxes = _binned(slices, low_ns, span_ns, columns)
    return boxes


def stacked(
    record: Record, span_s: Scale, devices: int, group_J: Sequence[int], most: int
) -> Boxes:
    """Return slices as they are, but shares of time where columns are crowded with slices.

    In such a column the groups of ``group_J`` stand on each other by number, so that neighbors
    make bands; above them, as one box, those that are not among the ``most`` with most time. A
    group's box is of its job with most time.
    """
    low_ns, span_ns = span_s.low * 1e9, (span_s.high - span_s.low) * 1e9
    slices = _slices(record, span_ns, devices)
    mean_crowd = len(slices) / _STACKS / max(1, len(np.unique(slices.device_S)))
    columns = _STACKS if mean_crowd < _MEAN_CROWD else _STACKS // 2
    pieces = _pieces(slices, low_ns, span_ns, columns)
    device_P = slices.device_S[pieces.row_P]
    count_DC = np.zeros((devices, columns), dtype=np.int64)
    np.add.at(count_DC, (device_P, pieces.column_P), 1)
    crowded_P = _crowded(count_DC)[device_P, pieces.column_P]
    parts = (
        _apart(slices, pieces, np.flatnonzero(~crowded_P)),
        _stacks(slices, pieces, np.flatnonzero(crowded_P), group_J, most),
    )
    names = ("job_B", "device_B", "x_B", "width_B", "level_B", "floor_B")
    both = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Boxes(**both, exact=not crowded_P.any())


def _crowded(count_DC: IntArray) -> BoolArray:
    """Tell which columns are stacked, by their numbers of slices."""
    # A column alone stays unchanged, and a column between two stacked ones is stacked too: the eye
    # follows a band, not a patch.
    crowded = np.pad(count_DC >= _CROWD, ((0, 0), (1, 1)))
    left, middle, right = crowded[:, :-2], crowded[:, 1:-1], crowded[:, 2:]
    return (middle & (left | right)) | ((count_DC > 1) & left & right)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """The parts of slices that fall into one column; axis P, by slice and column.

    ``row_P`` is the slice; ``begin_P`` and ``end_P`` count in columns, of which a row has
    ``columns``.
    """

    columns: int

    row_P: IntArray
    column_P: IntArray
    begin_P: FloatArray
    end_P: FloatArray


def _slices(record: Record, span_ns: float, devices: int) -> Slices:
    """Return the slices of the first ``devices`` devices."""
    # A gap of a quarter of a unit of the picture cannot be seen.
    slices = joined(record.history.timeline, int(span_ns / WIDTH / 4))
    return slices.only(np.flatnonzero(slices.device_S < devices))


def _pieces(slices: Slices, low_ns: float, span_ns: float, columns: int) -> _Pieces:
    """Cut slices at the edges of columns."""
    # Times in columns; ``first`` and ``last`` are the columns that a slice touches. A slice that
    # ends at a column's edge is not in the next column: hence ceil - 1.
    start = np.clip((slices.start_ns_S - low_ns) / span_ns * columns, 0, columns)
    end = np.clip((slices.end_ns_S - low_ns) / span_ns * columns, 0, columns)
    first = np.minimum(start.astype(np.int64), columns - 1)
    last = np.clip(np.ceil(end).astype(np.int64) - 1, first, columns - 1)
    # Each slice is repeated once a column: the running number within its own pieces, added to its
    # first column, gives the column of each piece.
    pieces = last - first + 1
    row_P = np.repeat(np.arange(len(slices)), pieces)
    column_P = first[row_P] + np.arange(len(row_P)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return _Pieces(
        columns=columns,
        row_P=row_P,
        column_P=column_P,
        begin_P=np.maximum(start[row_P], column_P),
        end_P=np.minimum(end[row_P], column_P + 1),
    )


def _apart(slices: Slices, pieces: _Pieces, chosen: IntArray) -> Boxes:
    """Return the chosen pieces, neighbors of one slice as one box over the height of its row."""
    row, column = pieces.row_P[chosen], pieces.column_P[chosen]
    new = np.ones(len(row), dtype=bool)
    new[1:] = (np.diff(row) != 0) | (np.diff(column) != 1)
    begins = np.flatnonzero(new)
    px = WIDTH / pieces.columns
    x = pieces.begin_P[chosen][begins] * px
    lasts = np.append(begins[1:], len(row))[: len(begins)] - 1
    end = pieces.end_P[chosen][lasts] * px
    return Boxes(
        job_B=slices.job_S[row[begins]],
        device_B=slices.device_S[row[begins]],
        x_B=x,
        width_B=np.maximum(0.3, end - x),
        level_B=np.full(len(begins), float(LEVELS)),
        floor_B=np.zeros(len(begins)),
        exact=True,
    )


def _stacks(
    slices: Slices, pieces: _Pieces, chosen: IntArray, group_J: Sequence[int], most: int
) -> Boxes:
    """Return for each column of the chosen pieces its groups, each as high as its share of time."""
    columns, row = pieces.columns, pieces.row_P[chosen]
    cell = slices.device_S[row] * columns + pieces.column_P[chosen]
    cover = (pieces.end_P - pieces.begin_P)[chosen]
    job = slices.job_S[row]
    cell, _, cover, job = _sums(cell, job, cover, job)
    cell, group, cover, job = _sums(cell, np.array(group_J, dtype=np.int64)[job], cover, job)
    # The rank of each group among those of its cell, by time; equals in their order.
    rank = np.empty(len(cell), dtype=np.int64)
    rank[np.lexsort((group, -cover, cell))] = np.arange(len(cell)) - np.searchsorted(cell, cell)
    above = max(group_J) + 1
    cell, _, cover, job = _sums(
        cell, np.where(rank < most, group, above), cover, np.where(rank < most, job, OTHERS)
    )
    # Tasks of one stretch overlap, so that a column may have more time than it is long.
    total = np.bincount(cell, weights=cover)[cell] if len(cell) else cover
    level = cover / np.maximum(1.0, total) * LEVELS
    below = np.cumsum(level) - level
    return Boxes(
        job_B=job,
        device_B=cell // columns,
        x_B=np.asarray((cell % columns) * (WIDTH / columns), dtype=np.float64),
        # A little over the next column, or the page's background would shine through.
        width_B=np.full(len(cell), WIDTH / columns + 0.3),
        level_B=level,
        floor_B=below - below[np.searchsorted(cell, cell)] if len(cell) else below,
        exact=False,
    )


def _sums(
    cell: IntArray, group: IntArray, cover: FloatArray, job: IntArray
) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Return cells, groups, what each group covers of its cell, and its job that covers most."""
    order = np.lexsort((-cover, group, cell))
    cell, group = cell[order], group[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(cell) != 0) | (np.diff(group) != 0)
    begins = np.flatnonzero(new)
    summed = np.add.reduceat(cover[order], begins) if len(begins) else cover
    return cell[begins], group[begins], summed, job[order][begins]


def _exact(slices: Slices, low_ns: float, span_ns: float) -> Boxes:
    """Return one box a slice, over the whole height of its row."""
    # At least 0.3 wide, or a short slice between long gaps would not be seen.
    start = np.asarray((slices.start_ns_S - low_ns) / span_ns * WIDTH, dtype=np.float64)
    return Boxes(
        job_B=slices.job_S,
        device_B=slices.device_S,
        x_B=start,
        width_B=np.maximum(0.3, (slices.end_ns_S - slices.start_ns_S) / span_ns * WIDTH),
        level_B=np.full(len(slices), float(LEVELS)),
        floor_B=np.zeros(len(slices)),
        exact=True,
    )


def _binned(slices: Slices, low_ns: float, span_ns: float, columns: int) -> Boxes:
    """Return for each device and column its main job; equal neighbors become one box.

    Axis P: pieces, the parts of slices that fall into one column.
    """
    pieces = _pieces(slices, low_ns, span_ns, columns)
    cell_P = slices.device_S[pieces.row_P] * columns + pieces.column_P
    cover_P = pieces.end_P - pieces.begin_P
    cell, job, level = _main_job(cell_P, slices.job_S[pieces.row_P], cover_P)
    # A box ends where a cell is missing, job or level change, or a device's row begins: cells of
    # all devices are numbered through, so the last of one and the first of the next are neighbors.
    new = np.ones(len(cell), dtype=bool)
    new[1:] = (np.diff(cell) != 1) | (np.diff(job) != 0) | (np.diff(level) != 0)
    new |= cell % columns == 0
    begins = np.flatnonzero(new)
    x = np.asarray((cell[begins] % columns) * (WIDTH / columns), dtype=np.float64)
    lengths = np.diff(np.append(begins, len(cell)))
    return Boxes(
        job_B=job[begins],
        device_B=cell[begins] // columns,
        x_B=x,
        width_B=lengths * (WIDTH / columns),
        level_B=level[begins].astype(np.float64),
        floor_B=np.zeros(len(begins)),
        exact=False,
    )


def _main_job(
    cell_P: IntArray, job_P: IntArray, cover_P: FloatArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return covered cells, their main jobs, and how many quarters of them are busy."""
    cell, _, cover, job = _sums(cell_P, job_P, cover_P, job_P)
    total = np.bincount(cell, weights=cover)
    # Sorted by cover within each cell, ``unique`` finds the first, which covers most; of equals
    # that with the lowest job, since the sort is stable.
    ranked = np.lexsort((-cover, cell))
    top = ranked[np.unique(cell[ranked], return_index=True)[1]]
    # Less than a fiftieth of a column is not drawn, and a level begins 0.2 late: else a cell that
    # is a little more than a quarter busy would look half busy.
    seen = total[cell[top]] >= 0.02
    top = top[seen]
    level = np.clip(np.ceil(total[cell[top]] * LEVELS - 0.2), 1, LEVELS).astype(np.int64)
    return cell[top], job[top], level
