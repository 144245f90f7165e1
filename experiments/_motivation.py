"""Figs. 4 to 6 of the Hare paper on the reproduction page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import _pictures
from _evidence_live import table

Row = Mapping[str, Any]


def rows(parts: Mapping[str, Any]) -> list[Sequence[str]]:
    """Claim, result and verdict of each figure."""
    gang, relaxed = parts["4"]["rows"]
    epochs = {(row["cell"], row["place"]): row for row in parts["5"]["rows"]}
    slow, mixed, hare = (
        epochs[key]
        for key in (
            ("4 K80", "gavel-fifo"),
            ("2 K80, 2 V100", "gavel-fifo"),
            ("2 K80, 2 V100", "hare"),
        )
    )
    sooner = relaxed["ends_s"] < gang["ends_s"]
    nothing = mixed["epoch_s"] >= 0.99 * slow["epoch_s"]
    return [
        ["Fig. 4", "relaxed rounds end sooner than waiting for three GPUs",
         f"the job ends at {relaxed['ends_s']:.0f} s, as a gang at {gang['ends_s']:.0f} s",
         "yes" if sooner else "no"],
        ["Fig. 5", "V100s or T4s in place of K80s bring a gang nothing",
         f"an epoch on 4 K80: {slow['epoch_s']:.0f} s; on 2 K80, 2 V100: "
         f"{mixed['epoch_s']:.0f} s, hare {hare['epoch_s']:.0f} s",
         "yes, with ResNet50 in place of ResNet152" if nothing else "no"],
        ["Fig. 6", "K80s always busy, V100s rarely over 50 %",
         f"gang on 2 K80, 2 V100: {_busy(mixed)}; hare: {_busy(hare)}",
         "yes; the K80s idle while the round synchronises" if nothing else "no"],
    ]  # fmt: skip


def _busy(row: Row) -> str:
    return ", ".join(f"{kind} {100 * share:.0f} % busy" for kind, share in row["busy"].items())


def section(parts: Mapping[str, Any]) -> str:
    """The pictures and the table, and which figures there cannot be."""
    titles = {"gavel-fifo": "as a gang", "hare": "relaxed rounds (hare)"}
    _pictures.gantt("hare-4", titles, parts["4"]["rows"])
    found = parts["5"]["rows"]
    epochs = {
        place: {row["cell"]: row["epoch_s"] for row in found if row["place"] == place}
        for place in titles
    }
    _pictures.bars("hare-5", "time of an epoch, s", epochs)
    lines = [[row["cell"], row["place"], f"{row['epoch_s']:.1f} s", _busy(row)] for row in found]
    return "\n".join([
        "### Figs. 4 to 6: the motivation", "",
        "`experiments/hare/fig4.yaml` and `fig5.yaml`. The text prints neither the times of Fig. 4 "
        "nor how many GPUs of which type Fig. 5 mixes: these are ours. A gang is `gavel-fifo`. A "
        "T4 is twice as fast as a K80, so two tasks on one T4 take as long as one on a K80, and "
        "hare has nothing to gain from two of them. Figs. 2, 3, 7 and 8 measure GPUs, not "
        "schedules; the profile is made from Fig. 2's two models.", "",
        "![Fig. 4](reproduction/hare-4.svg)", "", "![Fig. 5](reproduction/hare-5.svg)", "",
        table(["GPUs", "policy", "epoch", "computing"], lines), "",
    ])  # fmt: skip
