"""Sections of docs/background/evidence.md about input data and models on disk."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any, Final

from _evidence_live import table


def input_spill(result: Mapping[str, Any]) -> str:
    """What eight jobs take of memory and time, by the share of their data that is on disk."""
    budget_bytes = result["budget_bytes"]
    rows = [
        [row["run"], ", ".join(f"{one:.1f}" for one in sorted(_makespans_s(row))),
         f"{row['kernel_peak_bytes'] / 1e9:.2f} GB",
         "yes" if row["kernel_peak_bytes"] <= budget_bytes else "no"]
        for row in result["rows"]
    ]  # fmt: skip
    fixed = {row["run"]: row for row in result["rows"] if row["run"].startswith("alpha")}
    within = [one for one, row in fixed.items() if row["kernel_peak_bytes"] <= budget_bytes]
    adaptive = next(row for row in result["rows"] if row["run"] == "adaptive")
    least = min(fixed, key=lambda one: _median_s(fixed[one]))
    fits = min(within, key=lambda one: _median_s(fixed[one]))
    tried = ", ".join(run.split()[1] for run in fixed)
    head = ["run", "makespans, s", "peak memory", "within the memory"]
    return (
        "## Input data on disk\n\nTwo jobs each of mlr, lasso, nmf and lda of `examples/apps` with "
        "drawn data train on one host of two devices, not emulated; each has a trainer on both. "
        f"The trainers' copies of the data have {result['data_bytes'] / 1e9:.2f} GB, the host "
        f"{budget_bytes / 1e9:.2f} GB: {result['data_bytes'] / budget_bytes:.1f} times as much "
        "data as memory for everything. *alpha*: a fixed share of each job's data on disk, with "
        "a budget that never binds; *adaptive*: `local.spill` with the host's memory stated. Peak "
        "memory is the kernel's maximum of a cgroup with all processes of the run, page cache "
        "included. The data of each job alone fit while they are drawn; larger ones have to be "
        "mapped from a file (`torch.from_file`). Makespans begin when all apps are built, and are "
        "of each repeat. All runs end "
        f"with the same parameters: {'yes' if result['same_bits'] else 'no'}. In the median "
        f"*adaptive* takes {_median_s(adaptive) / _median_s(fixed[fits]):.2f} times as long as "
        f"{fits}, the best fixed share within the memory, and "
        f"{_median_s(adaptive) / _median_s(fixed[least]):.2f} times as long as {least}, the best "
        f"of the shares that were tried ({tried}); runs were made in turns "
        f"({len(_makespans_s(adaptive))}), and their spans "
        f"{'overlap' if _overlap(adaptive, fixed[fits]) else 'do not overlap'}."
        f"{_near(adaptive, fixed, budget_bytes)} Harmony (4.4.8) reports 16.3 % less than the best "
        "fixed one, where too little on disk costs garbage collection; here it costs none. The "
        "data are those of eight jobs together: a job whose own data are larger than its host's "
        "memory cannot run, since its dataset is built whole before any of it goes to disk."
        "\n\n" + table(head, rows)
    )


def model_spill(result: Mapping[str, Any]) -> str:
    """What a model of twice its host's free memory takes in memory and on disk."""
    rows = [
        [row["run"], f"{row['makespan_s']:.0f}", *(f"{row[key] / 1e9:.2f} GB" for key in _PEAKS)]
        for row in result["rows"]
    ]
    head = ["run", "makespan, s", "kernel's peak", "anonymous and shared", "pages of files"]
    gb = {key: result[f"{key}_bytes"] / 1e9 for key in ("memory", "free", "model", "data")}
    return (
        "## Models on disk\n\nOne job of one task a round trains a stack of equal layers with Adam "
        f"for {result['rounds']} rounds, on a host of {gb['memory']:.2f} GB and one processor. "
        f"Warren's own processes leave {gb['free']:.2f} GB of it. The parameters have "
        f"{gb['model']:.2f} GB, {gb['model'] / gb['free']:.2f} times as much; the data have "
        f"{gb['data']:.2f} GB. *on disk*: `local.spill` with the host's memory stated; Warren "
        "finds at the builds that the model has no room, and all data and the blocks of the model "
        "go to disk. *kernel's limit*: the same "
        "in a cgroup that the kernel limits to the host's memory, page cache included. The "
        "kernel's peak is of all processes of the run, page cache included; the parts of it were "
        "read every 50 ms. Pages of files, of libraries among them, can be dropped by the kernel "
        "at any time, and Warren does not count them; the other part is largest while a build in "
        "memory is tried. All runs end with the same parameters: "
        f"{'yes' if result['same_bits'] else 'no'}. Within the stated memory "
        "are what the kernel cannot drop, and under the kernel's limit "
        f"all of it: {'yes' if result['within'] else 'no'}. Makespans are of one run each on a "
        "machine that other work shared heavily."
        "\n\n" + table(head, rows)
    )


_PEAKS: Final = ("kernel_peak_bytes", "anonymous_peak_bytes", "cache_peak_bytes")


def _near(adaptive: Mapping[str, Any], fixed: Mapping[str, Any], budget_bytes: int) -> str:
    """Say what a fixed share takes that misses the memory by less than a twentieth."""
    told = ""
    for name, row in fixed.items():
        over = row["kernel_peak_bytes"] - budget_bytes
        if 0 < over < budget_bytes / 20:
            times = _median_s(adaptive) / _median_s(row)
            told += (
                f" {name} misses the memory by {over / 1e6:.0f} MB "
                f"({100 * over / budget_bytes:.1f} %), and *adaptive* takes {times:.2f} times as "
                "long as it: how far ahead it is hangs on the shares tried."
            )
    return told


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the makespans of two runs' repeats overlap."""
    mine, theirs = _makespans_s(one), _makespans_s(other)
    return min(mine) <= max(theirs) and min(theirs) <= max(mine)


def _median_s(row: Mapping[str, Any]) -> float:
    return median(_makespans_s(row))


def _makespans_s(row: Mapping[str, Any]) -> list[float]:
    """Return the makespans of all repeats of a run."""
    found: list[float] = row.get("makespans_s", [row["makespan_s"]])
    return found
