"""The section of the evidence page on rings placed side by side on a testbed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from _evidence_live import table

QUEUES: Final = {
    "fair": "flows in turns", "fresh": "flows in turns, fresh sets", "fifo": "one for all flows"
}  # fmt: skip


def placements(result: Mapping[str, Any]) -> str:
    """What was fitted, and how far the rounds of other placements are from it."""
    parts = result["parts"]
    rows = [
        [QUEUES[queue], name, error["rings"], _percent(error["mean"]), _percent(error["median"]),
         _percent(error["largest"]), _percent(error["worst_placement"]), _percent(error["within"])]
        for queue, part in _in_order(parts) for name, error in part["errors"].items()
    ]  # fmt: skip
    head = ["queue before a link", "prediction", "rings", "mean error", "median", "largest",
            "worst placement, mean", "rings within a host, mean"]  # fmt: skip
    return (
        "## Rings placed side by side\n\n"
        f"{result['hosts']} hosts of `warren testbed`, links of {result['link_bps'] / 1e6:.0f} "
        "Mbit/s. `warren calibrate --rings` fits (6)-(8) of SJF-BCO to 1 to 8 rings at a time; "
        f"then {result['placements']} sets of 2 to 6 rings drawn by a seed, none of which was "
        "fitted, run at once: over 2 to 4 hosts, some with several ranks on one, some within one, "
        "exchanges of 0.3 to 0.6 s alone, 0.02 to 0.08 s of compute time beside. The error is that "
        "of a ring's mean round, predicted / measured - 1, absolute, of the rings between hosts. "
        "*Flows in turns* is what `warren testbed up` makes; with one for all (`--queue fifo`) TCP "
        "shares "
        "links unevenly for as long as the rings run, which no model of averages predicts. *Fresh "
        "sets* were drawn, by another seed, when program and queue were settled. *Fluid* "
        "has max-min shares: a ring whose neighbors on a link are held up elsewhere gets what "
        "they leave, which (6) does not see. What is far off by both may be two flows that "
        "met in one of the 256 queues of a port; that was not verified.\n\n"
        + table(head, rows)
        + "\n\n"
        + _fits(parts)
    )


def _fits(parts: Mapping[str, Any]) -> str:
    rows = []
    for queue, part in _in_order(parts):
        for reading in ("ours", "published"):
            fit = part["fit"][reading]
            stored = " (stored)" if part["network"]["reading"] == reading else ""
            rows.append([QUEUES[queue], reading + stored, f"{fit['xi1']:.3f}",
                         f"{fit['alpha']:.3f}", f"{fit['xi2_ms']:.1f}", f"{fit['outer_mbit']:.1f}",
                         _percent(fit["error"]["mean"]), _percent(fit["left_out_error"]["mean"]),
                         _percent(fit["left_out_error"]["largest"])])  # fmt: skip
    head = ["queue before a link", "reading", "xi1", "alpha", "xi2, ms", "b^e, Mbit/s",
            "mean error of the fit", "left out, mean", "largest"]  # fmt: skip
    return (
        "What was fitted. *Left out*: each kind of point predicted from all others. Of xi1 and "
        "alpha `ours` tells xi1 (1 + alpha) alone.\n\n" + table(head, rows)
    )


def _in_order(parts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, parts[name]) for name in QUEUES if name in parts]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
