"""Runs side by side: simulated now, or read from their folders."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from warren.model.errors import Problem, SpecError
from warren.report.record import Record
from warren.runs.comparison.variations import PlannedSimulation, Variations, planned_simulations
from warren.runs.compose import Attend
from warren.runs.grain_advice import MANY_BY_EVENTS, size_note
from warren.runs.notices import say
from warren.runs.results import load_record
from warren.runs.simulate_many import simulated
from warren.store.files import read_dir

_CHOSEN: Final = ("policy.", "scheduler.", "grain")
"""Keys of --sweep whose values schedule one problem in other ways; other keys change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One run to compare; ``folder`` is None when it was simulated just now.

    ``swept``: the values that --sweep set, by key.
    """

    record: Record
    folder: str | None
    swept: Mapping[str, str] = field(default_factory=dict)

    @property
    def named(self) -> Record:
        """Return the record under its folder's name, which tells more than its run file's."""
        if self.folder is None:
            return self.record
        return replace(self.record, run=replace(self.record.run, name=self.folder))

    @property
    def problem(self) -> tuple[tuple[str, str], ...]:
        """Return the swept settings that are not policy options."""
        return tuple(item for item in self.swept.items() if not item[0].startswith(_CHOSEN))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs side by side, in the order in which they were given."""

    runs: tuple[ComparedRun, ...]
    against: str | None = None
    """The policy that the others are set against; None: none is."""

    def records(self) -> list[Record]:
        """Return the records as a person tells them apart: by run file, or else by folder."""
        # Of all runs the folder if two share a name: one kind of names in a comparison.
        count = Counter(one.record.run.name for one in self.runs)
        clear = all(number == 1 for number in count.values())
        return [one.record if clear else one.named for one in self.runs]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row a run, as ``warren.report.compare.compare`` makes them."""
        from warren.report.compare import compare

        return compare(self.records(), [one.problem for one in self.runs])

    def summaries(self) -> list[dict[str, Any]]:
        """Return the runs' summaries; that of a folder names it as ``dir``.

        A live run carries the errors of each simulation's prediction (``jct_errors``), and whether
        the other live runs of its jobs ended with the same parameters (``same_params``). A run of
        several seeds carries their means and 95 % intervals (``over_seeds``).
        """
        from warren.report.metrics import summary

        found = []
        for one, mean in zip(self.runs, self._means(), strict=True):
            values = summary(one.record)
            if mean is not None:
                values["over_seeds"] = _over_seeds(mean, self.against)
            if one.folder is not None:
                values["dir"] = one.folder
            if one.record.live:
                values |= self._against_others(one)
            found.append(values)
        return found

    def csv_text(self) -> str:
        """Return a table of one row a run, by name of column, with a column a key of --sweep.

        Runs of several seeds have their number, and means and 95 % intervals over them, in columns
        of their own: the same in each row of a policy.
        """
        text = io.StringIO()
        # All rows have all swept keys, so that folders and other run files have empty cells.
        swept = dict.fromkeys((key for one in self.runs for key in one.swept), "")
        means = [_mean_cells(mean, self.against) for mean in self._means()]
        empty = dict.fromkeys((key for cells in means for key in cells), "")
        rows = [
            {
                "run": row["run"],
                "place": row["place"],
                **swept,
                **one.swept,
                **row,
                **empty,
                **cells,
            }
            for row, one, cells in zip(self.rows(), self.runs, means, strict=True)
        ]
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def table(self) -> list[dict[str, Any]]:
        """Return one row a policy and swept value: means over its seeds, or its only run.

        ``KEY_ci95`` is half the 95 % interval of the mean of ``KEY``; None where seeds change
        nothing, and of a single run. With ``against``, ``against_mean`` and ``against_ci95`` are
        weighted JCT over that policy's of the same seed, minus one.
        """
        from warren.report.seeds import SPREAD

        found: list[dict[str, Any]] = []
        shown = set[int]()
        for row, one, mean in zip(self.rows(), self.runs, self._means(), strict=True):
            if mean is not None and id(mean) in shown:
                continue
            shown.add(id(mean))
            source = row if mean is None else mean
            half = source.get("half") or {}
            name = row["run"] if mean is None else row["run"].removesuffix(f" seed {row['seed']}")
            cells = {"run": name, "place": source["place"], **one.swept}
            cells |= {"seeds": source.get("seeds", 1), "finished": source["finished"]}
            for key in SPREAD:
                cells |= {key: source[key], f"{key}_ci95": half.get(key)}
            if self.against is not None:
                difference = source.get("difference") or (None, None)
                cells |= dict(zip(("against_mean", "against_ci95"), difference, strict=True))
            found.append(cells)
        return found

    def _means(self) -> list[Mapping[str, Any] | None]:
        """Return for each run the row of means over seeds that it is part of; None: of none."""
        from warren.report.compare import means
        from warren.report.seeds import over_seeds

        rows = self.rows()
        return over_seeds(rows, means(rows, self.against))

    def _against_others(self, live: ComparedRun) -> dict[str, Any]:
        """Return a comparison of a live run with the simulations, and with the other live runs."""
        from warren.report.compare import jct_errors
        from warren.report.same_params import same_params

        simulations = [one.named for one in self.runs if not one.record.live]
        others = [one.named for one in self.runs if one.record.live and one is not live]
        own = live.named
        # Pairs of two other live runs are reported with those.
        same = [one for one in same_params([own, *others]) if one["live"] == own.run.name]
        return {"jct_errors": jct_errors([own, *simulations]), "same_params": same}


def _over_seeds(mean: Mapping[str, Any], against: str | None) -> dict[str, Any]:
    """Return a row of means as a value for JSON."""
    from warren.report.seeds import SPREAD

    found: dict[str, Any] = {
        "seeds": mean["seeds"],
        "mean": {key: mean[key] for key in SPREAD},
        # A mean of all seeds is mean ± ci95; null where seeds change nothing.
        "ci95": mean["half"] or None,
    }
    if against is not None:
        difference, half = mean.get("difference") or (None, None)
        found["against"] = {"place": against, "weighted_jct": difference, "ci95": half}
    return found


def _mean_cells(mean: Mapping[str, Any] | None, against: str | None) -> dict[str, Any]:
    """Return a row of means as cells of its runs' rows, by column; empty: unknown values."""
    if mean is None:
        return {}
    found = _over_seeds(mean, against)
    half = found["ci95"] or {}
    cells: dict[str, Any] = {"seeds": found["seeds"]}
    for key, value in found["mean"].items():
        cells |= {f"{key}_mean": value, f"{key}_ci95": half.get(key)}
    if against is not None:
        cells["against"] = against
        cells["against_mean"] = found["against"]["weighted_jct"]
        cells["against_ci95"] = found["against"]["ci95"]
    return cells


def compared(
    what: Sequence[str],
    wanted: Variations,
    *,
    processes: int = 1,
    against: str | None = None,
    attend: Attend,
    recorded: Mapping[str, Record] = MappingProxyType({}),
) -> Comparison:
    """Simulate run files, and read folders of runs.

    All is read and checked before the first simulation, which may take long. ``processes``: how
    many simulations run at a time. ``against``: a policy that the others will be set against; it
    must be simulated. ``attend``: how a person sees a simulation go on. ``recorded``: what really
    happened, by those of ``what`` that name neither file nor folder of a run; its run is simulated
    under the policies that are asked for. Raises SpecError if a file, a folder or an option is
    wrong.
    """
    found: list[PlannedSimulation | ComparedRun] = []
    for one in what:
        if one in recorded:
            found.append(ComparedRun(record=recorded[one], folder=one))
            if wanted.places:
                found += planned_simulations(one, wanted, recorded[one].run)
        elif Path(one).is_dir():
            found.append(ComparedRun(record=load_record(one, read_dir(one)), folder=one))
        else:
            found += planned_simulations(one, wanted)
    runs = [one for one in found if isinstance(one, PlannedSimulation)]
    _check_use(wanted, runs)
    places = sorted({one.run.scheduler.place for one in runs})
    if against is not None and against not in places:
        message = f"{against!r} is not simulated; allowed: {', '.join(places) or 'none'}"
        raise SpecError(Problem(file="--against", message=message))
    # Each note once: many runs of a comparison are of one size.
    large = [one for one in runs if one.run.stated_tasks > MANY_BY_EVENTS]
    for note in dict.fromkeys(size_note(one.prepared) for one in large):
        if note:
            say(note)
    records = iter(simulated([(one.path, one.prepared) for one in runs], processes, attend))
    # Records come in the order of the simulations among ``found``.
    entries = (
        entry
        if isinstance(entry, ComparedRun)
        else ComparedRun(record=next(records), folder=None, swept=entry.swept)
        for entry in found
    )
    return Comparison(runs=tuple(entries), against=against)


def _check_use(wanted: Variations, runs: Sequence[PlannedSimulation]) -> None:
    """Refuse options of simulations where only folders of runs are compared."""
    given = {
        "--place": bool(wanted.places),
        **dict.fromkeys(wanted.others, True),
        "--seeds": wanted.seeds > 1,
        "--sweep": bool(wanted.sweeps),
        "--set": bool(wanted.overrides),
    }
    if not runs and (unused := [option for option, is_given in given.items() if is_given]):
        message = "is for run files that are simulated; only folders of runs are given"
        raise SpecError(Problem(file=unused[0], message=message))
