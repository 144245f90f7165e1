"""The chart of runs of several seeds: one color and one band a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from markupsafe import Markup

from warren.model.costs import FloatArray
from warren.report.page.colours import COLOURS
from warren.report.page.curves import finished_jct_s, jct_frame, jct_scale
from warren.report.page.svg import HEIGHT, WIDTH, Scale, short
from warren.report.record import Record
from warren.report.seeds import Row, group_of, groups

_SHARES: Final = np.linspace(0.0, 1.0, 101)
"""Shares of jobs at which the seeds are compared: every per cent."""


def by_group(records: Sequence[Record], rows: Sequence[Row]) -> dict[str, list[Record]]:
    """Return records by a title without the seed; empty where no runs differ in seed alone.

    ``rows`` are those of the comparison, one a record and in the same order.
    """
    known = groups(rows)
    found: dict[str, list[Record]] = {}
    for record, row in zip(records, rows, strict=True):
        key = group_of(row)
        title = str(row["run"]) if key not in known or key is None else key[0]
        found.setdefault(f"{title} · {row['place']}", []).append(record)
    return found if known else {}


def seeds_chart(found: Mapping[str, Sequence[Record]]) -> Markup:
    """Draw the share of finished jobs by JCT: a line for the seeds' median, a band for all."""
    # Seeds have other jobs, so curves are compared by share: at each share each seed has one JCT.
    quantiles_G = [
        np.array([np.quantile(jct_s, _SHARES) for one in own if len(jct_s := finished_jct_s(one))])
        for own in found.values()
    ]
    known = [quantiles for quantiles in quantiles_G if len(quantiles)]
    if not known:
        return Markup('<p class="note">No job finished.</p>')
    low, high = min(float(one.min()) for one in known), max(float(one.max()) for one in known)
    scale = jct_scale(low, high)
    paths = "".join(
        _group(k, quantiles, scale) for k, quantiles in enumerate(quantiles_G) if len(quantiles)
    )
    frame = jct_frame("Distribution of job completion time, by policy", scale, paths)
    chips = [(f"c{k % COLOURS}", f"r{k}", title) for k, title in enumerate(found)]
    said = "A line is the median of the seeds; its band reaches from the least to the most."
    return frame.render(chips, said)


def _group(number: int, quantiles: FloatArray, scale: Scale) -> str:
    """Return the paths of a policy's band and line."""
    colour, middle = number % COLOURS, _line(np.median(quantiles, axis=0), scale)
    return (
        f'<path class="range c{colour}" data-k="r{number}" d="{_band(quantiles, scale)}"/>'
        f'<path class="line l{colour}" data-k="r{number}" d="M{middle}"/>'
    )


def _band(quantiles: FloatArray, scale: Scale) -> str:
    """Return the path around the area between the least and the most JCT of each share."""
    # Out along the least and back along the most, which closes the area.
    there = _line(quantiles.min(axis=0), scale)
    back = _line(quantiles.max(axis=0), scale).split("L")
    return f"M{there}L{'L'.join(reversed(back))}z"


def _line(values: FloatArray, scale: Scale) -> str:
    """Return the points (JCT, share) of a curve, as a path without its first letter."""
    return "L".join(
        f"{short(scale(float(value)) * WIDTH)} {short((1 - float(share)) * HEIGHT)}"
        for value, share in zip(values, _SHARES, strict=True)
    )
