"""Simulations whose journals must stay as they are while the house is rebuilt.

``python tests/goldens/cases.py`` records their hashes in journals.json: only in a commit that means
to change a schedule, and says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import warren
from warren.runs.inputs import run_of

HERE = Path(__file__).parent
JOURNALS = HERE / "journals.json"
ONLINE = (
    "fifo", "gavel-fifo", "gittins", "hlas", "hlas-l", "hlas-p", "hlas-published", "las-2d",
    "sched-allox", "sched-allox-unit", "sched-homo", "sched-homo-unit", "srtf",
)  # fmt: skip
RINGS = ("braid", "braid-online", "first-fit", "list-scheduling", "random", "sjf-bco", "fifo")
NOISE = ("truth.task_cv=0.3", "truth.job_cv=0.2", "truth.seed=5")
PAST = "history={generate: hare-mix, jobs: 60, load: 1, rounds_factor: 0.01, repeats: 4}"


class Case(NamedTuple):
    """A run file of this folder, a policy, and what is set."""

    file: str
    place: str
    sets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called in journals.json."""
        return " ".join((self.file, self.place, *self.sets))


def _each(file: str, places: Sequence[str], *sets: str) -> list[Case]:
    return [Case(file, place, sets) for place in places]


CASES = (
    *_each("mix", (*ONLINE, "hare")),
    *_each("mix", (*ONLINE, "hare"), "grain=7 rounds"),
    *_each("mix", ("hare-published",), "workload.jobs=5"),
    *_each("mix", ("hare-published",), "workload.jobs=5", "policy.idle=fastest"),
    *_each("mix", ("hlas", "hlas-published", "gittins", "srtf", "hare"), "grain=20 s"),
    *_each("mix", ("hlas",), "policy.round=per-gpu"),
    *_each("mix", ("hlas",), "policy.groups=3", "policy.age=1 min"),
    *_each("mix", ("las-2d",), "policy.fit_first=true"),
    *_each("mix", ("gittins",), "policy.weighted=true"),
    *_each("mix", ("srtf", "hare"), "cluster.network={model: lane}"),
    *_each("mix", ("srtf", "hare", "hlas"), *NOISE),
    *_each("mix", ("srtf", "hare"), *NOISE, "scheduler.copies_after=1.5"),
    *_each("mix", ("srtf", "hare"), "cluster.switching={time: 2 s}"),
    *_each("mix", ("srtf", "hare"), "cluster.switching={scheme: pipeswitch}"),
    *_each("mix", ("srtf", "hare", "hlas"), "cluster.overheads=machine.yaml"),
    *_each("mix", ("gittins", "hlas-p", "hlas-l"), PAST),
    *_each(
        "mix", ("hlas-p", "hlas-l"), PAST, "workload.targets=true", "workload.searches=3",
        "truth.losses={noise: 0.01}",
    ),
    *_each("mix", ("srtf", "hare"), "workload={trace: {path: ../../examples/traces/bursts.csv}}"),
    *_each("rings", RINGS),
    *_each("rings", ("first-fit", "fifo"), "cluster.network={model: fluid, xi2: 15 us}"),
    *_each("rings", ("sjf-bco",), "cluster.network={model: constant}"),
    *_each("both", ("fifo", "braid-online")),
)  # fmt: skip


def journal_sha256(case: Case, folder: Path) -> str:
    """The hash of the journal of a case, which is simulated into a folder that is not there."""
    run = run_of(str(HERE / f"{case.file}.yaml"), case.place, case.sets, history=False)
    warren.simulate(run, out=folder)
    return hashlib.sha256((folder / "journal").read_bytes()).hexdigest()


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        found = {
            case.name: journal_sha256(case, Path(scratch) / str(place))
            for place, case in enumerate(CASES)
        }
    JOURNALS.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(found)} journals, {len(set(found.values()))} of them different")
