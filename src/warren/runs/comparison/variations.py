"""The simulations of a comparison: every policy, seed and swept value of a run file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.runs.comparison.observed import replayed
from warren.runs.compose import PreparedRun
from warren.runs.inputs import named_after, run_of
from warren.runs.user_policies.from_python import is_given


@dataclass(frozen=True, slots=True, kw_only=True)
class Variations:
    """The variations in which a comparison simulates each run file.

    ``places``: place policies; none: the run file's own. ``others``: policies of other questions,
    by question. ``seeds``: the number of seeds, from 1; 1: the run file's own seed. ``sweeps``:
    ``KEY=a,b,c`` each, as for ``--sweep``. ``overrides``: ``KEY=VALUE`` each, as for ``--set``.
    """

    places: Sequence[str] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 1
    sweeps: Sequence[str] = ()
    overrides: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSimulation:
    """One run to simulate, of the file at ``path``; ``swept``: the values of --sweep, by key."""

    path: str
    prepared: PreparedRun
    swept: Mapping[str, str]

    @property
    def run(self) -> Run:
        """Return the run that is simulated."""
        return self.prepared.run


def places_of(text: str) -> list[str]:
    """Return the place policies of a text with commas between them; an object's name has its own.

    Raises SpecError if one is empty.
    """
    if is_given(text):
        return [text]
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        message = f"{text!r} has an empty name; give policies with commas between"
        raise SpecError(Problem(file="--place", message=message))
    return names


def planned_simulations(
    path: str, wanted: Variations, base: Run | None = None
) -> Iterator[PlannedSimulation]:
    """Yield the simulations of a run file, each checked as far as that is quick.

    ``base``: the run, where ``path`` names no file of one.

    Raises SpecError if the file, a policy or an option is wrong.
    """
    names: Sequence[str | None] = wanted.places or [None]
    several = wanted.seeds > 1
    # Seeds vary fastest: the runs of one policy stand together.
    for sets, name, seed in product(_swept(wanted.sweeps), names, range(1, wanted.seeds + 1)):
        chosen = [*wanted.overrides, *sets]
        # Both: the seed of the run's own draws, and that of the simulator's hidden truth.
        chosen += [f"seed={seed}", f"truth.seed={seed}"] if several else []
        if base is None:
            run = run_of(path, name, chosen, others=wanted.others)
        else:
            run = replayed(base, name, chosen, wanted.others)
        # ``warren.report.seeds`` joins runs whose names differ only in ``seed N``.
        said = [run.name, *sets, *([f"seed {seed}"] if several else [])]
        prepared = PreparedRun(run=replace(run, name=" ".join(said)))
        with named_after(path, prepared.run):
            prepared.check_policy()
        swept = dict(one.split("=", 1) for one in sets)
        yield PlannedSimulation(path=path, prepared=prepared, swept=swept)


def _swept(sweeps: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Return every combination of swept values, as KEY=value each; of no sweeps, one of none."""
    axes = []
    for one in sweeps:
        key, equals, text = one.partition("=")
        values = list(_parts(text))
        if not equals or not key.strip() or not all(values):
            message = f"{one!r} is not KEY=A,B,C, for example workload.jobs=100,200"
            raise SpecError(Problem(file="--sweep", message=message))
        axes.append([f"{key.strip()}={value}" for value in values])
    return product(*axes)


def _parts(text: str) -> Iterator[str]:
    """Yield the values between commas; a comma within brackets or quotes divides none."""
    begin, depth, quote = 0, 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        # As in YAML: a quote within a word is an apostrophe.
        elif char in "'\"" and not text[at - 1 : at].isalnum():
            quote = char
        elif char == "," and not depth:
            yield text[begin:at].strip()
            begin = at + 1
        else:
            depth += (char in "[{") - (char in "]}")
    yield text[begin:].strip()
