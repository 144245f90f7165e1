"""Figs. 4 to 6 of the Hare paper on the reproduction page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import _pictures
from _evidence_live import table
from _hare_rows import named
from hare_figures import HARES, PUBLISHED

Row = Mapping[str, Any]


def rows(parts: Mapping[str, Any]) -> list[Sequence[str]]:
    """Claim, what comes of the published Hare and of ours, and the verdict of each figure."""
    ends = {row["place"]: row["ends_s"] for row in parts["4"]["rows"]}
    epochs = {(row["cell"], row["place"]): row for row in parts["5"]["rows"]}
    slow, mixed = (epochs[cell, "gavel-fifo"] for cell in ("4 K80", "2 K80, 2 V100"))
    hares = [epochs["2 K80, 2 V100", hare] for hare in HARES]
    alone, t4 = (epochs[cell, "gavel-fifo"] for cell in ("4 V100", "2 K80, 2 T4"))
    sooner = ends[PUBLISHED] < ends["gavel-fifo"]
    nothing = min(mixed["epoch_s"], t4["epoch_s"]) >= 0.99 * slow["epoch_s"]
    gang = (
        f"on 4 K80 {slow['epoch_s']:.0f} s, with two T4 in place of K80s {t4['epoch_s']:.0f} s, "
        f"with two V100 {mixed['epoch_s']:.0f} s"
    )
    rarely = mixed["busy"]["V100"] < 0.5
    first = "as it says" if rarely else "not as it says"
    return [
        ["Fig. 4", "relaxed rounds end sooner than waiting for three GPUs",
         *(f"the job ends at {ends[hare]:.0f} s" for hare in HARES),
         f"{'yes' if sooner else 'no'}: as a gang it ends at {ends['gavel-fifo']:.0f} s"],
        ["Fig. 5", "T4s or V100s added to K80s bring a gang nothing (here in place of two of four)",
         *(f"an epoch on 2 K80, 2 V100: {hare['epoch_s']:.0f} s" for hare in hares),
         f"about gangs: {'yes' if nothing else 'no'}, with ResNet50 for ResNet152 ({gang}). "
         f"{_cured(epochs[('2 K80, 2 V100', PUBLISHED)], mixed)}"],
        ["Fig. 6", "K80s always busy, V100s rarely over 50 %",
         *(_busy(hare) for hare in hares),
         f"about gangs: on 2 K80, 2 V100 they compute {_busy(mixed)} of the epoch, {first}; but "
         f"four V100 alone {_busy(alone)}, so it does not show that K80s are the reason"],
    ]  # fmt: skip


def _cured(published: Row, gang: Row) -> str:
    """Whether the algorithm as printed gains what the gang does not."""
    gains = published["epoch_s"] < 0.99 * gang["epoch_s"]
    return f"hare-published gains {'more' if gains else 'nothing either'}"


def _busy(row: Row) -> str:
    return ", ".join(f"{kind} {100 * share:.0f} % busy" for kind, share in row["busy"].items())


def section(parts: Mapping[str, Any]) -> str:
    """The pictures and the table, and which figures there cannot be."""
    titles = {"gavel-fifo": "as a gang"} | {hare: f"relaxed, {named(hare)}" for hare in HARES}
    _pictures.gantt("hare-4", titles, parts["4"]["rows"])
    found = parts["5"]["rows"]
    epochs = {
        place: {row["cell"]: row["epoch_s"] for row in found if row["place"] == place}
        for place in titles
    }
    _pictures.bars("hare-5", "time of an epoch, s", epochs)
    lines = [
        [row["cell"], named(row["place"]), f"{row['epoch_s']:.1f} s", _busy(row)] for row in found
    ]
    return "\n".join([
        "### Figs. 4 to 6: the motivation", "",
        "`experiments/hare/fig4.yaml` and `fig5.yaml`. The text prints neither the times of Fig. 4 "
        "nor how many GPUs of which type Fig. 5 mixes: these are ours. A gang is `gavel-fifo`. A "
        "T4 is twice as fast as a K80, so two tasks on one T4 take as long as one on a K80, and "
        "nothing is gained from two of them. Fig. 1's table of times is in the picture only. Figs. "
        "2, 3, 7, 8 and 11 measure GPUs, not schedules; where the profile's times come from is in "
        "`src/warren/profile/published.py`.", "",
        "![Fig. 4](reproduction/hare-4.svg)", "", "![Fig. 5](reproduction/hare-5.svg)", "",
        table(["GPUs", "policy", "epoch", "computing"], lines), "",
    ])  # fmt: skip
