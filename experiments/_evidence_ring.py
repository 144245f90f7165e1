"""The section of the evidence page on rings that share a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from _evidence_live import table

PARTS: Final = {"averaged": "mean over the time in which all jobs overlap", "noisy": "another"}
FITS: Final = {
    "least_squares": "squares (shipped)",
    "least_absolute": "absolute",
    "fluid": "squares, `fluid`",
    "fluid_alone": "squares of a job alone, `fluid`",
}
POINTS: Final = {"all": "all points", "left_out": "jobs left out"}


def tables(result: Mapping[str, Any]) -> str:
    """What is fitted to measured all-reduces, and how far off it is on what it saw and did not."""
    parts = result["parts"]
    rows = [
        [PARTS[part], FITS[fit], f"{found[fit]['slope']:.2f}",
         f"{found[fit]['outer_bytes_per_s'] / 1e6:.0f}", f"{1e3 * found[fit]['xi2_s']:.1f}",
         POINTS[points], *_errors(found[fit][points])]
        for part, found in parts.items() for fit in FITS for points in POINTS
        if points in found[fit]
    ]  # fmt: skip
    head = ["aggregation", "least sum of", "xi1 (1 + alpha)", "b^e, MB/s", "xi2, ms", "error of",
            "mean", "median", "largest", "at jobs", "largest, of several jobs"]  # fmt: skip
    first = parts["averaged"]
    sizes = ", ".join(f"{size / 2**20:.0f}" for size in first["messages_bytes"])
    return (
        "## Rings that share a network\n\nPublic measurements of all-reduces: "
        f"{first['jobs'][0]} to {first['jobs'][-1]} jobs at a time, each with one process on each "
        f"of the same {result['hosts']} hosts, messages of {sizes} MiB, {first['points']} points. "
        "Fitted is equation (8) of SJF-BCO, by relative errors. Of xi1 and alpha such times tell "
        "xi1 (1 + alpha) only; 1 is equal sharing of the link. *Jobs left out*: every number of "
        "jobs is predicted from the others; a job alone is the hardest, as all slow-downs count "
        "from it. The model `fluid` has no slope: jobs that send at once share a link equally, "
        "which is a slope of 1; all are taken to be in step, which is the longest that it gives. "
        "Fitted to *a job alone*, it has seen no contention, and predicts "
        "2 jobs and more. b^e is what the form needs to "
        "give the measured times; the table does not say which links and which all-reduce it "
        "was.\n\n" + table(head, rows) + "\n\n" + _shape(first)
    )


def _errors(errors: Mapping[str, Any]) -> list[object]:
    named = ("mean", "median", "largest", "largest_of_several_jobs")
    shown: list[object] = [f"{100 * errors[name]:.1f} %" for name in named]
    return [*shown[:3], errors["largest_at_jobs"], shown[3]]


def _shape(part: Mapping[str, Any]) -> str:
    head = ["fitted / measured - 1, jobs", *part["least_squares"]["all"]["mean_by_jobs"]]
    rows = [
        [name, *(f"{100 * one:+.1f} %" for one in part[fit]["all"]["mean_by_jobs"].values())]
        for fit, name in FITS.items()
        if fit != "least_absolute"
    ]
    return (
        "The first aggregation by number of jobs, mean of the messages: time grows a little less "
        "than linearly with the jobs. From a job alone, more jobs take longer than equal parts of "
        "the link explain.\n\n" + table(head, rows)
    )
