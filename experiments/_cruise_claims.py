"""What Cruise's evaluation claims, what came out here, and whether that is so.

Verdicts are read off the results of ``shapes_live.py``, ``shapes.py`` and ``shape_grid.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from _opportunistic_page import claim as opportunistic

Row = Mapping[str, Any]

PUBLISHED: Final = "cruise-published"
OURS: Final = "cruise"
BOTH: Final = "all"
APPS: Final = ("mlr", "nmf", "lda", "net")
REGRET_PCT: Final = 6.5
"""The most that a shape of Cruise's is behind the best of the grid (Table 3.4, and its text)."""
LEAST_PCT: Final = 8.7
"""The least by which an epoch gets shorter from a bad start (3.4.3)."""
UNEQUAL_PCT: Final = 35.2
SOLVED_S: Final = 37.4


def said(value: bool) -> str:
    """The verdict."""
    return "holds" if value else "does not hold"


def fell_pct(row: Row) -> float:
    """By how many percent rounds are shorter at the end than at first; below 0: longer."""
    return 100 * (1 - float(row["last_s"]) / float(row["first_s"]))


def policies_of(parts: Mapping[str, Any]) -> dict[str, list[Row]]:
    """All comparisons of policies that were run live: of apps, unequal hosts, a faster one."""
    found = {app: parts[app]["policies"] for app in APPS if app in parts}
    return found | {name: parts[name]["rows"] for name in ("unequal", "speed") if name in parts}


def named(rows: Sequence[Row], policy: str) -> Row:
    """The first row of a policy."""
    return next(row for row in rows if row["policy"] == policy)


def claims(
    parts: Mapping[str, Any], shapes: Mapping[str, Any], regrets_pct: Mapping[str, float]
) -> list[list[str]]:
    """Rows of the claim, what came out here, and the verdict; ``regrets_pct``: by app, (3.4)."""
    compared = policies_of(parts)
    rows = [_chosen(regrets_pct)]
    for policy in (PUBLISHED, OURS):
        rows.append(_shorter({app: named(compared[app], policy) for app in APPS}, policy))
    if "unequal" in compared:
        rows += [_unequal(row) for row in compared["unequal"] if row["policy"] in (PUBLISHED, OURS)]
    rows.append(_bits({app: compared[app] for app in APPS}))
    rows.append(_solved(shapes["times"]))
    rows.append(opportunistic())
    rows.append([
        "3.4.6: 31.3 s for a plan of 30 moves", "other hosts and models of 1 MB: *What a change "
        "takes* has times, and no claim is judged by them", "not judged",
    ])  # fmt: skip
    return rows


def _chosen(regrets_pct: Mapping[str, float]) -> list[str]:
    most = max(regrets_pct.values())
    return [
        f"Table 3.4: what Cruise chooses is at most {REGRET_PCT:g} % behind the best of the grid",
        f"by (3.4), from one shape alone, of shapes in which no host does both: at most "
        f"{most:.1f} % in {len(regrets_pct)} apps",
        said(most <= REGRET_PCT),
    ]


def _shorter(rows: Mapping[str, Row], policy: str) -> list[str]:
    """3.4.3: rounds get shorter from a bad start."""
    fell = {app: fell_pct(row) for app, row in rows.items()}
    told = ", ".join(f"{app} {-pct:+.1f} %" for app, pct in fell.items())
    longer = [app for app, pct in fell.items() if pct < 0]
    verdict = said(min(fell.values()) >= LEAST_PCT)
    if longer:
        verdict += f": ends slower than it began in {len(longer)} of {len(fell)}"
    return [f"3.4.3: epochs are {LEAST_PCT} to 55.3 % shorter than at a bad start",
            f"`{policy}`: {told}", verdict]  # fmt: skip


def _unequal(row: Row) -> list[str]:
    reading = f" (reading: {row['options']['reading']})" if row["options"] else ""
    return [
        f"3.4.5: on unequal hosts {UNEQUAL_PCT} to 58.3 % shorter",
        f"`{row['policy']}`{reading}: {-fell_pct(row):+.1f} %",
        said(fell_pct(row) >= UNEQUAL_PCT),
    ]


def _bits(compared: Mapping[str, Sequence[Row]]) -> list[str]:
    same = [len({row["sha256"] for row in rows}) == 1 for rows in compared.values()]
    return ["3.3: training is not affected by moves",
            f"the same parameters to the bit in {sum(same)} of {len(same)} apps",
            said(all(same))]  # fmt: skip


def _solved(times: Sequence[Row]) -> list[str]:
    most_ms = max(row["ms"] for row in times if "10,000" not in str(row["machines"]))
    return [f"3.4.6: the cost is solved in 30 ms, and in {SOLVED_S} s on unequal machines",
            f"32 machines: at most {most_ms:.1f} ms", said(most_ms <= 1000 * SOLVED_S)]  # fmt: skip


def against_both(parts: Mapping[str, Any]) -> str:
    """Say in how many comparisons a static shape in which every host does both ends sooner."""
    pairs = {
        name: (named(rows, BOTH)["jct_s"], named(rows, OURS)["jct_s"])
        for name, rows in policies_of(parts).items()
    }
    sooner = [name for name, (both, ours) in pairs.items() if both < ours]
    told = ", ".join(f"{name} {both:.1f} and {ours:.1f} s" for name, (both, ours) in pairs.items())
    return (
        f"A static `{BOTH}`, from the first round on, has the shorter JCT in {len(sooner)} of "
        f"{len(pairs)} comparisons with `{OURS}` ({told}). `{OURS}`, too, lets a host work and "
        "serve, which Fig. 3.2, line 17, does not allow."
    )
