"""Sections of the page of evidence about simulations beside the live runs that they predict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from _evidence_live import table

_NONE: Final[Mapping[str, Any]] = {"rows": []}
_NOT_MADE: Final = "not yet made"
_WORKLOADS: Final = {"c": "testbed2, by hand", "c1": "drawn by seed 1", "c2": "drawn by seed 2"}
_LIMIT_PCT: Final = 10
_CONTROL: Final = dict.fromkeys(("a", "no synchronisation"), "no synchronization")
"""Name of a control by its name in results."""
Row: TypeAlias = Mapping[str, Any]


def fidelity(result: Mapping[str, Any]) -> str:
    """Decisions of (a), JCT errors of (b) and (c), and all rounds of (c)."""
    parts = result["parts"]
    inputs = [
        f"({name}) {', '.join(part['inputs'])}" for name, part in parts.items() if "inputs" in part
    ]
    again = sum(len(part.get("void", ())) for part in parts.values())
    return (
        "## Does the simulator predict the live run?\n\nThe simulator decides for itself, from "
        "inputs that were committed before the live run. Case (c), where nothing is emulated, is "
        "the answer; the other two show less.\n\n"
        + _decisions(parts.get("a", _NONE))
        + _jittered(parts.get("b"))
        + _unpadded(parts)
        + _rounds(parts.get("rounds", _NONE)["rows"])
        + "\n\nA run of (a) or (b) of which more than 1 % of the tasks overran is void and made "
        f"again: {again} of them. Inputs, with the commit they are of: {'; '.join(sorted(inputs))}."
    )


def _decisions(part: Row) -> str:
    rows = [
        [row["place"], row["run"], _equal(row), _differ(row), row["tasks"],
         f"{row['overruns']:.0f}"]
        for row in part["rows"]
    ]  # fmt: skip
    controls = [
        [_CONTROL.get(row["what"], row["what"]), row["place"], _differ(row),
         f"{row['mean_error_pct']:.2f} %"]
        for row in part.get("controls", ())
    ]  # fmt: skip
    head = ["policy", "run", "decisions equal", "tasks whose row differs", "tasks", "overran"]
    return (
        "*(a) Equal decisions.* `testbed15`: 28 jobs of eight models on 15 emulated devices. A "
        "padded task lasts what the profile says, live as in a simulation, so its time is computed "
        "and not measured: times are equal by construction wherever decisions are and nothing "
        "overran. This shows that both worlds decide alike, and says nothing of predicted times. A "
        "row is a task's device, and the task before it there. hare plans all beforehand: that a "
        "live run keeps to its plan is all that its lines show. The jobs are drawn so that small "
        "delays move their simulated JCTs little; `make_testbed15.py` says how, and how much "
        "others move.\n\n"
        + table(head, rows)
        + "\n\nControls, whose pads or simulation are wrong on purpose, so that times differ:\n\n"
        + table(["what", "policy", "tasks whose row differs", "mean JCT error"], controls)
    )


def _equal(row: Row) -> str:
    if "decisions_equal" not in row:
        return _NOT_MADE
    return "yes" if row["decisions_equal"] else "no"


def _differ(row: Row) -> object:
    return row.get("rows_differ", _NOT_MADE)


def _jittered(part: Row | None) -> str:
    text = (
        "\n\n*(b) Pads that the simulator does not know.* The same, with pads drawn from measured "
        "iteration times that only the live side sees. A task's time is still a pad; the error is "
        "what draws do to JCTs.\n\n"
    )
    if part is None:
        return text + f"{_NOT_MADE.capitalize()}."
    rows = [
        [place, _means(mine), f"{part['limit_pct']:g} %", f"{_most(mine):.1f} %"]
        for place, mine in _by_place(part["rows"])
    ]
    return text + table(["policy", "mean JCT error of each run", "limit", "largest of a job"], rows)


def _unpadded(parts: Mapping[str, Any]) -> str:
    rows: list[list[object]] = []
    for case, workload in _WORKLOADS.items():
        if case not in parts:
            rows.append([workload, "-", _NOT_MADE, f"{_LIMIT_PCT} %", "-", "-", "-", "-"])
            continue
        for place, mine in _by_place(parts[case]["rows"]):
            comp = ", ".join(f"{row.get('comp_over_predicted', 1.0):.2f}" for row in mine)
            load = ", ".join(f"{row['load_before']:.1f}" for row in mine)
            rows.append([workload, place, _means(mine), f"{_LIMIT_PCT} %", f"{_most(mine):.1f} %",
                         comp, _given(mine), load])  # fmt: skip
    head = ["workload", "policy", "mean JCT error of each run", "limit", "largest of a job",
            "COMP seconds over predicted", "given the run's COMP", "load before"]  # fmt: skip
    return (
        "\n\n*(c) Nothing emulated.* Ten jobs on two pinned cores, measured before each run. The "
        "first workload was written by hand; the others were drawn, each by one seed, and not "
        "selected (`make_testbed2.py`). *Given the run's COMP*: the mean JCT error once more, "
        "simulated afterwards with each job's COMP as long as it was in the run, and with the "
        "run's decisions. It is no prediction, but what is left of the error if the machine is as "
        "fast as when it was measured; in brackets its bias, below 0 where the live run takes "
        "longer. The last round of each:\n\n" + table(head, rows)
    )


def _given(rows: Sequence[Row]) -> str:
    if not all("given_pct" in row for row in rows):
        return _NOT_MADE
    return (
        ", ".join(f"{row['given_pct']:.2f} ({row['given_bias_pct']:+.1f})" for row in rows) + " %"
    )


def _rounds(rows: Sequence[Row]) -> str:
    text = (
        "\n\nAll rounds of (c) that were run and committed, the oldest first, also those that "
        "missed. Program, model of overheads and machines changed in between.\n\n"
    )
    if not rows:
        return f"{text}{_NOT_MADE.capitalize()}."
    found = [
        [_WORKLOADS[row["case"]], row["commit"], row["processor"], row["place"],
         ", ".join(f"{one:.2f}" for one in row["mean_error_pct"]) + " %",
         f"{row['max_error_pct']:.1f} %"]
        for row in rows
    ]  # fmt: skip
    worst: dict[tuple[str, str], float] = {}
    for row in rows:
        key = row["case"], row["commit"]
        worst[key] = max(worst.get(key, 0.0), *row["mean_error_pct"])
    runs = [one for row in rows for one in row["mean_error_pct"]]
    head = ["workload", "commit", "processor", "policy", "mean JCT error of each run",
            "largest of a job"]  # fmt: skip
    return (
        f"{text}{table(head, found)}\n\nThe worst run of a round is between "
        f"{min(worst.values()):.1f} and {max(worst.values()):.1f} %; "
        f"{sum(one > _LIMIT_PCT for one in runs)} of {len(runs)} runs are above {_LIMIT_PCT} %."
    )


def _by_place(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for place in dict.fromkeys(row["place"] for row in rows):
        yield place, [row for row in rows if row["place"] == place]


def _means(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row['mean_error_pct']:.2f}" for row in rows) + " %"


def _most(rows: Sequence[Row]) -> float:
    return float(max(row["max_error_pct"] for row in rows))
