"""What the page of Cruise says of jobs that changed their shape on a testbed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, Final

import _common
import _shapes_pictures as pictures
from _cruise_claims import PUBLISHED, fell_pct, named
from _evidence_live import table
from _shapes_live import EQUAL, MODEL_BYTES, UNEQUAL, BedKind, predicted

APPS: Final = ("mlr", "nmf", "lda", "net")
THERE_S: Final = ((60, 120), (180, 240))
"""When the four hosts of part ``coming`` are there."""
READINGS: Final = ("nic", "server", "published")
HEAD: Final = """
## On a testbed

`experiments/shapes_live.py`: six hosts with a fifth of a core each behind links of 100 Mbit, real
computation, rounds of twelve tasks, models of about 1 MB. One run of each app goes through the
shapes below {visits}, some rounds in each, so each visit but the first begins with a migration; a
round is the median of {rounds} or more. From the first shape alone (how long tasks keep their
hosts, and what rounds take beyond the model) the others are *predicted*, by
`solve/shapes/task_rounds.py`, and *simulated* (`experiments/shapes_simulated.py`, without what
rounds take beyond). *(3.4)* is the published model with the same times of tasks. Shapes are
workers + servers; *both*: each host does both.

What was looked at: quotas, links and models were chosen, and the way of predicting was first
settled, with `mlr`. Of the others `lda` and `net` were then predicted 27 and 21 % off in the mean.
Two things were changed then, with `lda`. A quota of processors had held for 100 ms at a time and
holds for 10 ms now: {work:.0f} ms of processor time on a fifth of a core had taken {waited:.0f} ms
after a wait and {row:.0f} ms otherwise, and take {now:.0f} and {now_row:.0f} ms
(`experiments/quota_periods.py`). And where tasks wait for links, how long one keeps its host had
been taken from the first of a round, beside which no update is sent.

![Rounds by shape](cruise-shapes.svg)

Each app's rounds by how many hosts work, with quartiles (Cruise has such a grid behind its Tables
3.1 and 3.4).

{grids}

{summary}

### Policies from a bad start

Each job begins as 5 + 1 (`all` and `optimus`, which measures small shapes first, begin by
themselves) and has {long} rounds; one run each. *first*: median of rounds 2 to 5, *last*: of the
last ten whole ones. All policies of an app give the same parameters to the bit: {bits}.

*The runs of policies, here and below, are from before `cruise` split the model by the linear
program, measured the rates of links, took noise for noise and went back where rounds did not get
shorter. They were not made again.*

![Rounds over time](cruise-policies.svg)

Rounds over time, as in the paper's Fig. 3.4; dotted: servers move.

{policies}

`cruise` counts an update a task and lets hosts do both; `cruise-published` decides by (3.4), for
which a task pulls and pushes by itself: here a round pulls once. {slower}
"""
BESIDE: Final = """
Other work ran at the lowest priority beside the grids of `nmf`, `lda`, `net` and `kinds`. Before
hosts of a testbed used Reno and TLS, on another day, `fixed` took 72.9, 77.5, 73.8 and 71.7 s in
the four apps, `cruise` 48.8, 50.9, 38.4 and 39.4 s, and 78 % more rounds were made below with hosts
that come and go. How much of that is TLS, and how much the day, was not looked at.
"""
PARTS_TEXT: Final = """
### What a change takes

Moves of servers above. *answer to barrier*: new
servers start and the next barrier passes, while the job trains; *barrier to blocks*: it waits;
*round after*: the first one on the new servers, against the median of the next five. Medians, and
the most.

{rows}
"""
KINDS: Final = """
### Which reading of b_ij?

Four slow hosts (0.15 of a core, 50 Mbit) and two fast ones (0.3, 200 Mbit), `mlr`; the model is
split by bandwidth, as `nic` has it, in every row. *s + f*: so many slow and fast ones.

{rows}

{choices}
"""
UNEQUAL_TEXT: Final = """
### A bad start on unequal hosts

The same hosts, `mlr`; at first a fast and a slow one serve, and the others work (`all` begins by
itself). As above, one run each.

![Rounds over time on unequal hosts](cruise-unequal.svg)

{rows}
"""
COMING_TEXT: Final = """
### Hosts that come and go

`mlr` on the six equal hosts, of which four are there from second 60 to 120 and from 180 to 240 and
shape `cruise` knows when (`away`), against `cruise` on the other two alone: {more} more rounds by
second 240.

![Rounds over time where hosts come and go](cruise-coming.svg)

As in the paper's Fig. 3.5; shaded: the four hosts are there.

{rows}
"""
SPEED_TEXT: Final = """
### A host that becomes faster

`mlr` on the six equal hosts, from 4 + 2 on (`all` begins by itself). From second {begin:.0f} on
host {host}, which works, has twice its share of a core. *before*: median of the ten rounds before
that; *last*: as above. One run each.

![Rounds over time where a host becomes faster](cruise-speed.svg)

The paper's Fig. 3.6 has hosts of two kinds from the start. Shaded: the host is faster.

{rows}
"""


def live_text(parts: Mapping[str, Any], simulated: Mapping[str, Any]) -> str:
    """The text; only of the parts that are there."""
    apps = [app for app in APPS if app in parts]
    if not apps:
        return ""
    for app in apps:
        _say(app, parts[app], EQUAL)
    if "kinds" in parts:
        _say("mlr", parts["kinds"], UNEQUAL)
    policies = [[app, *_policy(row)] for app in apps for row in parts[app]["policies"]]
    same = [len({row["sha256"] for row in parts[app]["policies"]}) == 1 for app in apps]
    text = HEAD.format(
        **_quotas(json.loads((_common.RESULTS / "quota_periods.json").read_text())),
        visits="three times",
        rounds=min(row["rounds"] for app in apps for row in parts[app]["rows"]),
        long=len(pictures.rounds_of(parts[apps[0]]["policies"][0])) + 1,
        grids=table(
            [
                "app",
                "shape",
                "round",
                "predicted",
                "error",
                "simulated",
                "error",
                "(3.4)",
                "error",
                "migration",
            ],
            [
                [app, *_row(row, told["simulated_s"])]
                for app in apps
                for row, told in zip(parts[app]["rows"], simulated[app]["rows"], strict=True)
            ],
        ),
        summary=table(
            [
                "app",
                "error, mean",
                "error, most",
                "best",
                "ours chooses",
                "by (3.4)",
                "(3.4): error",
            ],
            [[app, *_summary(parts[app]["rows"])] for app in apps],
        ),
        bits=f"{sum(same)} of {len(same)} apps",
        slower=_slower(apps, parts),
        policies=table(["app", "policy", "first", "last", "change", "JCT", "migrations"], policies),
    )
    text += BESIDE + _changes(apps, parts)
    text += _kinds(parts["kinds"]["rows"]) if "kinds" in parts else ""
    text += _unequal(parts["unequal"]["rows"]) if "unequal" in parts else ""
    text += _coming(parts["coming"]["rows"]) if "coming" in parts else ""
    return text + (_speed(parts["speed"]) if "speed" in parts else "")


def _slower(apps: Sequence[str], parts: Mapping[str, Any]) -> str:
    """Say in which apps the published policy ends slower than it began."""
    rows = {app: named(parts[app]["policies"], PUBLISHED) for app in apps}
    slower = [f"{app} ({-fell_pct(row):+.1f} %)" for app, row in rows.items() if fell_pct(row) < 0]
    told = f", {' and '.join(slower)}" if slower else ""
    return f"It ends slower than it began in {len(slower)} of {len(rows)} apps{told}."


def regrets_pct(parts: Mapping[str, Any]) -> dict[str, float]:
    """How far what (3.4) would choose is behind the best shape in which no host does both."""
    found = {}
    for app in APPS:
        if app in parts:
            rows = [row for row in parts[app]["rows"] if _name(row["shape"]) != "both"]
            chosen = min(rows, key=lambda row: row["published_s"])
            best_s = min(row["measured_s"] for row in rows)
            found[app] = 100 * (chosen["measured_s"] / best_s - 1)
    return found


def _quotas(found: Mapping[str, Any]) -> dict[str, float]:
    """What work took with quotas of 100 ms and of 10 ms at a time."""
    then, now = (
        next(row for row in found["rows"] if row["period_ms"] == period) for period in (100, 10)
    )
    return {
        "work": 34.0, "waited": then["after_a_wait_ms"], "row": then["in_a_row_ms"],
        "now": now["after_a_wait_ms"], "now_row": now["in_a_row_ms"],
    }  # fmt: skip


def draw(parts: Mapping[str, Any], simulated: Mapping[str, Any]) -> None:
    """Draw what the text shows: after it, which predicts; only of the parts that are there."""
    apps = [app for app in APPS if app in parts]
    if not apps:
        return
    pictures.shapes("cruise-shapes", apps, parts, simulated)
    pictures.policies(
        "cruise-policies",
        {app: {row["policy"]: row for row in parts[app]["policies"]} for app in apps},
    )
    if "unequal" in parts:
        pictures.over_time("cruise-unequal", _labelled(parts["unequal"]["rows"]))
    if "coming" in parts:
        used, never = parts["coming"]["rows"]
        pictures.over_time(
            "cruise-coming", {"used": used, "never there": never}, THERE_S, "four more hosts"
        )
    if "speed" in parts:
        rows = parts["speed"]["rows"]
        begin_s = fmean(row["faster_s"] for row in rows)
        ends_s = max(row["jct_s"] for row in rows)
        spans = [(begin_s, ends_s)]
        pictures.over_time("cruise-speed", _labelled(rows), spans, "a host is twice as fast")


def _labelled(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Rows by the names that pictures have for them."""
    return {
        row["policy"] + (f" ({row['options']['reading']})" if row["options"] else ""): row
        for row in rows
    }


def _say(app: str, part: Mapping[str, Any], kinds: Sequence[BedKind]) -> None:
    """Predict all shapes from the first one, by one rule whenever the part was made."""
    first, size, share = part["rows"][0], float(MODEL_BYTES[app]), part["share"]
    said = [
        predicted(kinds, first["task_s"], row["shape"], size, share).round_s for row in part["rows"]
    ]
    # What rounds take beyond the model they take in every shape; never less than it says.
    beyond_s = max(0.0, first["measured_s"] - said[0])
    for row, said_s in zip(part["rows"], said, strict=True):
        row["predicted_s"] = said_s + beyond_s


def _name(shape: str) -> str:
    works, serves = shape.split(":")
    return "both" if works == serves else f"{len(works)} + {len(serves)}"


def _off(said_s: float, row: Mapping[str, Any]) -> float:
    return 100 * (said_s / row["measured_s"] - 1)


def _row(row: Mapping[str, Any], simulated_s: float) -> list[str]:
    moved = f"{row['moved_bytes'] / 1e6:.2f} MB, {row['moved_s']:.2f} s" if "moved_s" in row else ""
    return [
        _name(row["shape"]), f"{row['measured_s']:.3f} s", f"{row['predicted_s']:.3f} s",
        f"{_off(row['predicted_s'], row):+.1f} %", f"{simulated_s:.3f} s",
        f"{_off(simulated_s, row):+.1f} %", f"{row['published_s']:.3f} s",
        f"{_off(row['published_s'], row):+.1f} %", moved,
    ]  # fmt: skip


def _summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Errors but of the first shape; what would be chosen, and how much longer its rounds are."""
    errors = [abs(_off(row["predicted_s"], row)) for row in rows[1:]]
    alone = [row for row in rows if _name(row["shape"]) != "both"]
    best = min(rows, key=lambda row: row["measured_s"])
    return [
        f"{fmean(errors):.1f} %", f"{max(errors):.1f} %", _name(best["shape"]),
        _choice(rows, "predicted_s"), _choice(alone, "published_s"),
        f"{fmean(abs(_off(row['published_s'], row)) for row in rows[1:]):.1f} %",
    ]  # fmt: skip


def _choice(rows: Sequence[Mapping[str, Any]], said: str) -> str:
    """The shape that a model would choose of these, and its regret against the best of them."""
    chosen = min(rows, key=lambda row: row[said])
    best_s = min(row["measured_s"] for row in rows)
    return f"{_name(chosen['shape'])} (+{100 * (chosen['measured_s'] / best_s - 1):.1f} %)"


def _policy(row: Mapping[str, Any]) -> list[str]:
    moves = ", ".join(
        f"{size / 1e6:.2f} MB in {took_s:.2f} s" for _, size, took_s, *_ in row["moves"]
    )
    return [
        row["policy"], f"{row['first_s']:.2f} s", f"{row['last_s']:.2f} s",
        f"{100 * (row['last_s'] / row['first_s'] - 1):+.1f} %", f"{row['jct_s']:.1f} s", moves,
    ]  # fmt: skip


def _changes(apps: Sequence[str], parts: Mapping[str, Any]) -> str:
    """What moves of servers took, by app; nothing where it was not kept."""
    lines = []
    for app in apps:
        found = []
        for row in parts[app]["policies"]:
            rounds = [took_s for _, took_s in pictures.rounds_of(row)]
            for at, size, *times in row["moves"]:
                after = rounds[at : at + 5]  # the first of ``rounds`` is round 1
                if len(times) == 2 and len(after) == 5:
                    found.append([size / 1e6, times[1], times[0], rounds[at - 1] - median(after)])
        if found:
            columns = list(zip(*found, strict=True))
            shown = [f"{median(one):.2f} ({max(one):.2f})" for one in columns]
            lines.append([app, str(len(found)), *shown])
    head = ["app", "moves", "MB", "answer to barrier, s", "barrier to blocks, s", "round after, s"]
    return PARTS_TEXT.format(rows=table(head, lines)) if lines else ""


def _kinds(rows: Sequence[Mapping[str, Any]]) -> str:
    """The part of two kinds of hosts; the first four are slow."""

    def who(hosts: str) -> str:
        return f"{sum(host < '4' for host in hosts)} + {sum(host >= '4' for host in hosts)}"

    lines = [
        [
            who(row["shape"].split(":")[0]), who(row["shape"].split(":")[1]),
            f"{row['measured_s']:.3f} s",
            *(f"{row[f'{one}_s']:.3f} s" for one in ("predicted", *READINGS)),
        ]
        for row in rows
    ]  # fmt: skip
    alone = [row for row in rows if _name(row["shape"]) != "both"]
    best_s = min(row["measured_s"] for row in alone)
    choices = []
    for said in ("predicted", *READINGS):
        chosen = min(alone, key=lambda row: row[f"{said}_s"])
        errors = fmean(abs(_off(row[f"{said}_s"], row)) for row in alone[1:])
        serves = who(chosen["shape"].split(":")[1])
        regret = f"{100 * (chosen['measured_s'] / best_s - 1):.1f} %"
        choices.append([said, f"{errors:.1f} %", serves, regret])
    return KINDS.format(
        rows=table(["work", "serve", "round", "ours", *READINGS], lines),
        choices=table(["by", "error, mean", "would let serve", "regret"], choices),
    )


def _unequal(rows: Sequence[Mapping[str, Any]]) -> str:
    """What policies made of a bad start on hosts of two kinds."""
    lines = [[_with(row), *_policy(row)[1:]] for row in rows]
    return UNEQUAL_TEXT.format(
        rows=table(["policy", "first", "last", "change", "JCT", "migrations"], lines)
    )


def _coming(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many rounds were made with hosts that come and go, and without."""
    lines = [
        [name, row["rounds_by_the_end"], len(row["moves"]), _policy(row)[5]]
        for name, row in zip(("used", "never there"), rows, strict=True)
    ]
    more = rows[0]["rounds_by_the_end"] / rows[1]["rounds_by_the_end"] - 1
    return COMING_TEXT.format(
        rows=table(["four hosts are", "rounds in 240 s", "migrations", "each"], lines),
        more=f"{100 * more:.0f} %",
    )


def _speed(part: Mapping[str, Any]) -> str:
    """What a host that becomes faster did to rounds."""
    lines = []
    for row in part["rows"]:
        began = sum(end_s <= row["faster_s"] for end_s, _ in row["rounds_s"]) + 1
        moves = ", ".join(
            f"{size / 1e6:.2f} MB {'after' if at > began else 'before'}"
            for at, size, *_ in row["moves"]
        )
        lines.append([
            _with(row), f"{row['before_s']:.2f} s", f"{row['last_s']:.2f} s",
            f"{100 * (row['last_s'] / row['before_s'] - 1):+.1f} %", f"{row['jct_s']:.1f} s", moves,
        ])  # fmt: skip
    return SPEED_TEXT.format(
        host=part["host"], begin=fmean(row["faster_s"] for row in part["rows"]),
        rows=table(["policy", "before", "last", "change", "JCT", "migrations"], lines),
    )  # fmt: skip


def _with(row: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name}: {value}" for name, value in row["options"].items())
    return row["policy"] + (f" ({options})" if options else "")
