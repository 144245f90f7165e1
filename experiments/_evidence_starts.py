"""The section of docs/background/evidence.md about expected starts and ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _evidence_live import table


def start_times(result: Mapping[str, Any]) -> str:
    """How often intervals of starts and ends held, and how far expected times were off."""
    parts = result["parts"]
    rows = [
        [name, row["place"], row["week"], row["forecasts"], *_cells(row, "start"),
         *_cells(row, "end")]
        for name, part in parts.items() for row in part["rows"] if "start" in row
    ]  # fmt: skip
    head = ["trace", "method", "week", "forecasts", "starts inside", "uncorrected",
            "median error of the start, h", "ends inside", "uncorrected",
            "median error of the end, h"]  # fmt: skip
    return (
        "## When jobs start and end\n\n"
        "Jobs of a real trace go through the queue and the scheduler of the service in played "
        "time. Each job that does not start at once gets a forecast when it is submitted. "
        "*Slurm's rule*: every job takes its time limit, one play, no interval. *Limits alone*: "
        "each length up to the limit is equally likely. *History*: what the service does. The last "
        "two are shown as corrected by their own past errors; 80 % of what comes is to be inside. "
        "The record of errors is empty when the filling week begins. Rules were chosen on the "
        "tuning week. An earlier run reported that week; after it, jobs that come again and the "
        "widening after misses were added. The week reported here was not looked at before. "
        "Helios is not measured: its table of jobs was not at hand.\n\n"
        + "\n\n".join(_about(name, part) for name, part in parts.items())
        + "\n\n"
        + table(head, rows)
        + "\n\nThe Philly table has no users, names, limits or waiting times. A user is a virtual "
        "cluster, and a name says the number of GPUs. A limit is made from the run time: times 1, "
        "2, 4 or 8 by the user's habit, rounded up to 1, 4, 12, 24, 48 or 168 h. So limits tell "
        "more here than in a real queue. Jobs run for 168 h at most."
    )


def _cells(row: Mapping[str, Any], what: str) -> list[str]:
    found = row[what]
    if row["place"] == "Slurm's rule":
        return ["", "", f"{found['median_error_raw_s'] / 3600:.2f}"]
    return [
        f"{100 * found['inside']:.0f} %",
        f"{100 * found['inside_raw']:.0f} %",
        f"{found['median_error_s'] / 3600:.2f}",
    ]


def _about(name: str, part: Mapping[str, Any]) -> str:
    rules, best = part["rules"], part["losses"][0]
    same = all(best[key] == value for key, value in rules.items())
    waited, submitted, out = part["waited"], part["submitted"], part["left_out"]
    return (
        f"*{name}*: {part['gpus']} GPUs, order `{part['order']}`, "
        + (
            f"{part['samples']} replays, each with another job in {part['keep']}; "
            if part["keep"] > 1
            else ""
        )
        + f"tuning week from {part['tuning']}, reported week after it. "
        f"{waited['reported']} of {submitted['reported']} jobs of the reported week had to wait; "
        f"at most {part['most_waiting']} at once. {out['too large']} jobs are left out as too "
        f"large for a host, and {out['cut at the longest limit']} are cut at 168 h. A forecast "
        f"takes {part['forecast_s']['history']:.2f} s. Rules of run lengths in use: "
        f"{_rules(rules)}; "
        + ("those are the best" if same else f"the best are {_rules(best)}")
        + f" of {len(part['losses'])} on the tuning week."
    )


def _rules(rules: Mapping[str, Any]) -> str:
    values = "shares of limits" if rules["shares"] else "run times"
    return f"shrink {rules['shrink']:g}, newest {rules['newest']}, {values}"
