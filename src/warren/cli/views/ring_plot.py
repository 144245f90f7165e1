"""The picture of a calibrated network: rounds measured, the curves fitted, and what is left."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from warren.cost.ring import RingNetwork, round_at_s_J
from warren.cost.ring_fit import RingPoints
from warren.model.costs import BoolArray, FloatArray
from warren.runs.calibration.ring_network_file import RingCalibration
from warren.store.files import write_atomic

_COLOURS: Final = ("#0b5394", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#7f6000")
_MARKS: Final = "os^Dvp"
_OTHERS: Final = "others"


def draw_rings(path: Path, found: RingCalibration) -> None:
    """Rounds by rings on the busiest link, a colour a kind of ring; below, fitted / measured - 1.

    Raises
    ------
    SpecError
        If the file cannot be written.
    """
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "warren"
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(
        2, 1, sharex=True, figsize=(7.5, 5.6), height_ratios=(3, 1), layout="constrained"
    )
    points, best = found.points, found.best
    kinds = _kinds(points)
    for at, (label, of_N) in enumerate(kinds):
        colour, mark = _COLOURS[at % len(_COLOURS)], _MARKS[at % len(_MARKS)]
        own = points.where(of_N)
        spread = 0.16 * (at - (len(kinds) - 1) / 2) / max(1, len(kinds) - 1)
        k_N = own.contenders_N + spread
        above.plot(k_N, own.time_s_N, mark, color=colour, markersize=4.5, label=label)
        curve = np.linspace(1, max(1, int(own.contenders_N.max())), 60)
        if own.contenders_N.max() > 1 and label != _OTHERS:
            above.plot(curve, _curve(best.network, own, curve), color=colour, linewidth=1)
        below.plot(k_N, 100 * best.error_N[of_N], mark, color=colour, markersize=4.5)
    _dress(above, below, found)
    handles, labels = above.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside right upper",
        fontsize=8,
        frameon=False,
        title="measured (lines: fitted)",
        title_fontsize=8,
    )
    content = BytesIO()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    kind = path.suffix[1:]
    figure.savefig(content, format=kind, dpi=144, metadata=dates.get(kind))
    pyplot.close(figure)
    write_atomic(path, content.getvalue())


def _dress(above: Any, below: Any, found: RingCalibration) -> None:
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
    widest = max(10.0, 1.15 * 100 * float(np.abs(found.best.error_N).max()))
    below.set_ylim(-widest, widest)
    below.set_ylabel("fitted over\nmeasured, %")
    below.set_xlabel("rings on the busiest link of a ring")
    below.set_xticks(range(1, int(found.points.contenders_N.max()) + 1))
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)


def _kinds(points: RingPoints) -> list[tuple[str, BoolArray]]:
    """Points of one size on as many hosts, with or without compute time, the largest first."""
    columns = np.stack(
        (points.message_bytes_N, points.servers_N, points.workers_N, points.comp_s_N)
    )
    each, of_N = np.unique(columns, axis=1, return_inverse=True)
    counts = np.bincount(of_N.ravel())
    order = sorted(range(len(counts)), key=lambda at: (-counts[at], -each[0][at]))
    found: list[tuple[str, BoolArray]] = []
    rest_N = np.zeros(len(points.time_s_N), dtype=np.bool_)
    for at in order:
        of = of_N.ravel() == at
        size, hosts, _, comp_s = each[:, at]
        beside = f" + {1e3 * comp_s:.0f} ms" if comp_s else ""
        if len(found) < len(_COLOURS) - 1:
            found.append((f"{size / 1e6:.1f} MB, {hosts:.0f} hosts{beside}", of))
        else:
            rest_N |= of
    return [*found, (_OTHERS, rest_N)] if rest_N.any() else found


def _curve(network: RingNetwork, own: RingPoints, curve: FloatArray) -> FloatArray:
    """What the fit says of rings like these with so many contenders, which need not be whole."""
    like = own.where(np.zeros(len(curve), dtype=np.int64))
    return round_at_s_J(network, like.jobs, curve, like.servers_N)  # type: ignore[arg-type]
