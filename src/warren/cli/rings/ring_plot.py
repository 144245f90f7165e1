"""The picture of a calibrated network: rounds measured, the curves fitted, and the residuals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from warren.cli.views.pictures import pyplot, save_picture
from warren.runs.calibration.ring_network_file import RingCalibration

# A color and a mark for each kind of ring; the last of both is for all remaining kinds.
_COLOURS: Final = ("#0b5394", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#7f6000")
_MARKS: Final = "os^Dvp"
_OTHERS: Final = "others"


def draw_rings(path: Path, found: RingCalibration) -> None:
    """Draw rounds by rings on the busiest link, a color a kind of ring, and the errors of the fit.

    Above: measured rounds as marks, fitted ones as lines. Below: fitted / measured - 1, in percent.
    Raises SpecError if the file cannot be written.
    """
    figure, (above, below) = pyplot().subplots(
        2, 1, sharex=True, figsize=(7.5, 5.6), height_ratios=(3, 1), layout="constrained"
    )
    points, best = found.points, found.best
    kinds = _kinds(found)
    for at, (label, of_N) in enumerate(kinds):
        colour, mark = _COLOURS[at % len(_COLOURS)], _MARKS[at % len(_MARKS)]
        own = points.where(of_N)
        # Kinds stand beside each other at a number of contenders, or marks would hide marks.
        spread = 0.16 * (at - (len(kinds) - 1) / 2) / max(1, len(kinds) - 1)
        k_N = own.contenders_N + spread
        above.plot(k_N, own.time_s_N, mark, color=colour, markersize=4.5, label=label)
        curve = np.linspace(1, max(1, int(own.contenders_N.max())), 60)
        # The others are of several sizes, so no one curve is theirs.
        if own.contenders_N.max() > 1 and label != _OTHERS:
            above.plot(curve, found.fitted_round_s(of_N, curve), color=colour, linewidth=1)
        below.plot(k_N, 100 * best.error_N[of_N], mark, color=colour, markersize=4.5)
    _dress(above, below, found)
    title = "measured (lines: fitted)"
    save_picture(figure, above, path, loc="outside right upper", title=title, title_fontsize=8)


def _dress(above: Any, below: Any, found: RingCalibration) -> None:
    """Give both pairs of axes their title, labels and limits."""
    one = found.best.network
    above.set_title(
        f"xi1 {one.xi1:.3g}, alpha {one.alpha:.3g}, xi2 {1e3 * one.xi2_s:.2g} ms, "
        f"b$^e$ {8e-6 * one.outer_bytes_per_s:.4g} Mbit/s, reading {one.reading}",
        fontsize=9,
        loc="left",
    )
    above.set_ylabel("round, s")
    above.set_ylim(bottom=0)
    below.axhline(0, color="#b0b0b0", linewidth=0.8)
    # At least 10 % to either side, so that a good fit looks like one.
    widest = max(10.0, 1.15 * 100 * float(np.abs(found.best.error_N).max()))
    below.set_ylim(-widest, widest)
    below.set_ylabel("fitted over\nmeasured, %")
    below.set_xlabel("rings on the busiest link of a ring")
    below.set_xticks(range(1, int(found.points.contenders_N.max()) + 1))
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)


def _kinds(found: RingCalibration) -> list[tuple[str, NDArray[np.bool_]]]:
    """Group the points of one size on as many hosts, with or without compute time.

    Each group has a label. The group of the most points is first, of equal ones that of the larger
    message. When all colors but one are used, the remaining points are one group, the last.
    """
    points = found.points
    # A column a point: points of one kind have equal columns.
    columns = np.stack(
        (points.message_bytes_N, points.servers_N, points.workers_N, points.comp_s_N)
    )
    each, of_N = np.unique(columns, axis=1, return_inverse=True)
    counts = np.bincount(of_N.ravel())
    order = sorted(range(len(counts)), key=lambda at: (-counts[at], -each[0][at]))
    kinds: list[tuple[str, NDArray[np.bool_]]] = []
    rest_N = np.zeros(len(points.time_s_N), dtype=np.bool_)
    for at in order:
        of = of_N.ravel() == at
        size, hosts, _, comp_s = each[:, at]
        beside = f" + {1e3 * comp_s:.0f} ms" if comp_s else ""
        if len(kinds) < len(_COLOURS) - 1:
            kinds.append((f"{size / 1e6:.1f} MB, {hosts:.0f} hosts{beside}", of))
        else:
            rest_N |= of
    return [*kinds, (_OTHERS, rest_N)] if rest_N.any() else kinds
