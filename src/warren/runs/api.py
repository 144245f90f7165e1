"""Warren from Python: ``warren.simulate``, ``warren.run``, ``warren.resume``, ``warren.load``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warren.live.extras import need
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.report.record import LIVE
from warren.runs.compose import PreparedRun
from warren.runs.compose import simulate as simulate_run
from warren.runs.history_source import recorded, recorded_elsewhere
from warren.runs.inputs import named_after, renamed, with_absolute_base
from warren.runs.machine import hosts_here
from warren.runs.results import read_summary
from warren.runs.train import train
from warren.runs.user_policies.from_python import PolicyLike, given
from warren.store.files import read, read_dir
from warren.store.run_folder import RunFolder, default_dir

if TYPE_CHECKING:
    import pandas
    import torch

RunLike = Run | str | Path | Mapping[str, Any]
"""A run in any form that the library takes: resolved, a run file's path, or its content."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobResult:
    """One job of a finished run: its row of ``jobs.csv``, numbers as numbers, and its parameters.

    An unknown value is None in the row.
    """

    name: str
    row: Mapping[str, Any]
    folder: Path

    def __repr__(self) -> str:
        return f"JobResult({self.name!r}, {self.row.get('status')}, {str(self.folder)!r})"

    def params(self, *, ema: bool = False) -> dict[str, torch.Tensor]:
        """Load the job's final ``state_dict``, in order of name.

        Parameters
        ----------
        ema
            Whether to load the moving average of the weights, which an app with ``ema`` keeps.

        Raises
        ------
        SpecError
            If the run was simulated, the job did not finish, its app keeps no average, or PyTorch
            is not installed.
        """
        path = self.folder / "params" / f"{self.name}.safetensors"
        if not path.is_file():
            raise SpecError(
                Problem(file=str(path), message="no parameters: not trained to its end")
            )
        need("live")
        # Imported here: most callers want figures, and PyTorch takes a second or more to load.
        from safetensors.torch import load_file

        from warren.live.training.weight_average import average_path

        if ema and not (path := average_path(path)).is_file():
            message = "no averaged weights: its app sets no ema"
            raise SpecError(Problem(file=str(path), message=message))
        tensors: dict[str, torch.Tensor] = load_file(path)
        return dict(sorted(tensors.items()))

    def checkpoint(self) -> tuple[int, dict[str, torch.Tensor]]:
        """Load the last state of a job that did not finish: rounds done, and its model then.

        Raises
        ------
        SpecError
            If it has no checkpoint; a job that finished has its parameters instead.
        """
        need("live")
        # Imported here, as PyTorch is above.
        from warren.live.training.checkpoints.archive import unpack
        from warren.live.training.checkpoints.files import latest_round, load_parts

        path = self.folder / "checkpoints" / self.name
        rounds = latest_round(path) if path.is_dir() else 0
        if not rounds:
            raise SpecError(Problem(file=str(path), message="no checkpoint"))
        # A checkpoint may have several parts; beside the model's tensors, which the prefix tells,
        # they hold other state.
        found = [unpack(part)[0] for part in load_parts(path, rounds)]
        kind = "model/"
        tensors = {name: one for part in found for name, one in part.items()}
        model = {name: one for name, one in sorted(tensors.items()) if name.startswith(kind)}
        return rounds, {name.removeprefix(kind): one for name, one in model.items()}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result:
    """The results of a run: summary and jobs, and the folder they lie in; None: in none."""

    summary: Mapping[str, Any]
    jobs: Mapping[str, JobResult]
    folder: Path | None

    def __repr__(self) -> str:
        of, place = self.summary.get("run"), (self.summary.get("scheduler") or {}).get("place")
        ended = f"{self.summary.get('finished')} of {len(self.jobs)} jobs finished"
        where = "no folder" if self.folder is None else repr(str(self.folder))
        return f"Result({of!r}, place {place}, {ended}, {where})"

    def frame(self) -> pandas.DataFrame:
        """Return the jobs as a table of pandas, by name; columns as in ``jobs.csv``.

        Raises
        ------
        SpecError
            If pandas is not installed.
        """
        rows = {name: dict(job.row) for name, job in self.jobs.items()}
        frame = _pandas().DataFrame.from_dict(rows, orient="index")
        return frame.drop(columns="job").rename_axis("job")

    def timeline(self) -> pandas.DataFrame:
        """Return the stretches that ran, a row each, with place and time, as ``timeline.parquet``.

        Raises
        ------
        SpecError
            If pandas is not installed, or the run was simulated without a folder.
        """
        return self._table("timeline.parquet")

    def links(self) -> pandas.DataFrame:
        """Return the bytes on each link over time; columns as in ``links.parquet``.

        Raises
        ------
        SpecError
            As ``timeline`` does, or if the run did not count the bytes on its links.
        """
        if self.folder is not None and not (self.folder / "links.parquet").is_file():
            message = "is missing: this run did not count the bytes on its links"
            raise SpecError(Problem(file=str(self.folder / "links.parquet"), message=message))
        return self._table("links.parquet")

    def _table(self, name: str) -> pandas.DataFrame:
        """Return a table of the folder."""
        if self.folder is None:
            message = f"has no folder; simulate with out= to have {name}"
            raise SpecError(Problem(file=str(self.summary.get("run")), message=message))
        from pyarrow.parquet import ParquetFile

        _pandas()
        return ParquetFile(self.folder / name).read(use_threads=False).to_pandas()

    def job(self, name: str) -> JobResult:
        """Return the result of the job of this name.

        Raises
        ------
        SpecError
            If there is none.
        """
        if name not in self.jobs:
            some = ", ".join(list(self.jobs)[:8])
            raise SpecError(
                Problem(file=str(self.folder), message=f"no job {name!r}; jobs: {some}")
            )
        return self.jobs[name]


def simulate(
    run: RunLike,
    *,
    out: str | Path | None = None,
    place: PolicyLike | None = None,
    flow: PolicyLike | None = None,
    group: PolicyLike | None = None,
    shape: PolicyLike | None = None,
    joint: PolicyLike | None = None,
) -> Result:
    """Predict a run in virtual time; with ``out``, write its folder.

    Parameters
    ----------
    run
        A run file's path, the same content as a mapping, or a ``Run``.
    out
        A new folder for the results; None: none is written.
    place, flow, group, shape, joint
        Policies that replace those of the run file: a name, ``FILE.py:Class``, a class of Python or
        an object of it. Results know a class as ``python:Class``.

    Raises
    ------
    SpecError
        If the run, its policy or its costs are wrong, or ``out`` is taken.
    """
    from warren.report.metrics import summary
    from warren.report.tables import jobs_csv

    policies = {"place": place, "flow": flow, "group": group, "shape": shape, "joint": joint}
    with _given(policies) as names:
        resolved, file = _resolve(run, names), _file_of(run)
        if out is None:
            with named_after(file, resolved):
                record = simulate_run(resolved)
            return _result(summary(record), jobs_csv(record).encode(), None)
        with named_after(file, resolved), RunFolder(str(out)) as folder:
            simulate_run(resolved, folder)
    return load(out)


def run(
    run: RunLike,
    *,
    out: str | Path | None = None,
    place: PolicyLike | None = None,
    flow: PolicyLike | None = None,
    group: PolicyLike | None = None,
    shape: PolicyLike | None = None,
    joint: PolicyLike | None = None,
    history: bool = True,
    share: bool = False,
) -> Result:
    """Train a run for real and write its folder (``out/<name>-<policy>`` unless given).

    It is checked as ``warren run`` checks it, before a folder is made or a process started.

    Parameters
    ----------
    run, out, place, flow, group, shape, joint
        As for ``simulate``. A run under a class of Python goes on by ``resume`` with that class.
    history
        Whether to use known costs from the history database, and store the finished jobs and their
        task times in it.
    share
        Whether to use devices that another run on this machine holds.

    Raises
    ------
    SpecError
        If an input is wrong or missing, ``out`` exists already, or another run holds its devices.
    """
    policies = {"place": place, "flow": flow, "group": group, "shape": shape, "joint": joint}
    with _given(policies) as names:
        resolved = _resolve(run, names, history=history)
        path = str(out) if out else default_dir(resolved)
        to = RunFolder(path, durable=True, numbered=not out)
        prepared = PreparedRun(run=resolved, world=LIVE, history=history)
        train(prepared, to, file=_file_of(run), share=share)
    return load(to.path)


def resume(
    folder: str | Path,
    *,
    place: PolicyLike | None = None,
    flow: PolicyLike | None = None,
    group: PolicyLike | None = None,
    shape: PolicyLike | None = None,
    joint: PolicyLike | None = None,
    history: bool = True,
    app: str = "pinned",
    share: bool = False,
) -> Result:
    """Go on with a run that was cut off, from its folder; ``history``, ``share`` as for ``run``.

    Parameters
    ----------
    folder
        The folder of the run.
    place, flow, group, shape, joint
        Classes or objects of Python that the run began with. Its other policies are in its folder.
    app
        ``pinned``, with the texts of apps that the run has, or ``new``, with those on disk.

    Raises
    ------
    SpecError
        If the folder is not that of a live run, or the run began with another policy.
    """
    from warren.runs.results import load_folders_run
    from warren.runs.resume import resume as go_on

    policies = {"place": place, "flow": flow, "group": group, "shape": shape, "joint": joint}
    with _given(policies) as names:
        if names:
            began = load_folders_run(str(folder), read_dir(str(folder))).scheduler
            for question, name in names.items():
                if name != (own := getattr(began, question)):
                    message = f"the run began with {own}, not with {name}; a run keeps its policies"
                    raise SpecError(Problem(file=question, message=message))
        go_on(str(folder), remember=history, app=app, share=share)
    return load(folder)


def compare(
    runs: str | Path | Sequence[str | Path],
    *,
    place: PolicyLike | Sequence[PolicyLike] = (),
    flow: PolicyLike | None = None,
    group: PolicyLike | None = None,
    shape: PolicyLike | None = None,
    joint: PolicyLike | None = None,
    seeds: int = 1,
    sweep: Mapping[str, Sequence[object]] | None = None,
    override: Mapping[str, object] | None = None,
    against: PolicyLike | None = None,
    processes: int = 1,
) -> pandas.DataFrame:
    """Put runs side by side, as ``warren compare`` does: a row a policy, means over its seeds.

    Parameters
    ----------
    runs
        Run files to simulate, or folders of runs to read.
    place
        Place policies to simulate each run file under; none: the run file's own. Each is a name,
        ``FILE.py:Class``, a class of Python or an object of it. The table names a class
        ``python:Class``, and an object ``python:Class(option=value)``.
    flow, group, shape, joint
        One policy each that replaces the run file's, in the same forms.
    seeds
        Number of seeds to simulate each policy with. With two or more, ``KEY_ci95`` is half the
        95 % interval of the mean in column ``KEY``.
    sweep
        Values to simulate with, by key: ``{"cluster.hosts.0.count": [2, 4]}``.
    override
        Values that replace fields of the run file, by key.
    against
        The policy that the others are set against, seed by seed (``against_mean``).
    processes
        Number of simulations that run at a time.

    Raises
    ------
    SpecError
        If a run, a policy or a key is wrong, or pandas is not installed.
    """
    from contextlib import nullcontext

    from warren.runs.comparison.compared import compared
    from warren.runs.comparison.variations import Variations, places_of

    frame = _pandas().DataFrame
    places = [place] if isinstance(place, str) or not isinstance(place, Sequence) else place
    others = {"flow": flow, "group": group, "shape": shape, "joint": joint}
    paths = [str(one) for one in ([runs] if isinstance(runs, str | Path) else runs)]
    with (
        given([("place", one) for one in places]) as names,
        _given(others) as rest,
        _given({"against": against}) as versus,
    ):
        wanted = Variations(
            places=[one for name in names for one in places_of(name)],
            others=rest,
            seeds=seeds,
            sweeps=[
                f"{key}={','.join(map(_yaml, values))}" for key, values in (sweep or {}).items()
            ],
            overrides=[f"{key}={_yaml(value)}" for key, value in (override or {}).items()],
        )
        found = compared(
            paths,
            wanted,
            processes=processes,
            against=versus.get("against"),
            attend=lambda core: nullcontext(),
        )
    table: pandas.DataFrame = frame(found.table())
    return table


def _yaml(value: object) -> str:
    """Return a value as ``--set`` takes it; JSON is YAML."""
    return value if isinstance(value, str) else json.dumps(value)


def load(folder: str | Path) -> Result:
    """Load the results in a run's folder.

    Raises
    ------
    SpecError
        If it is not one.
    """
    files = read_dir(str(folder))
    for name in ("summary.json", "jobs.csv"):
        if name not in files:
            raise SpecError(Problem(file=f"{folder}/{name}", message="is missing"))
    return _result(read_summary(str(folder), files), files["jobs.csv"], Path(folder))


def _result(values: Mapping[str, Any], jobs: bytes, folder: Path | None) -> Result:
    """Return the result that a summary and the bytes of ``jobs.csv`` tell."""
    from warren.report.tables import read_jobs_csv

    rows = read_jobs_csv(jobs)
    found = {
        row["job"]: JobResult(name=row["job"], row=row, folder=folder or Path()) for row in rows
    }
    return Result(summary=values, jobs=found, folder=folder)


def _pandas() -> Any:
    """Import pandas, which is an optional dependency."""
    need("frames")
    import pandas

    return pandas


def _file_of(run: RunLike) -> str | None:
    """Return the path of a run file, which its problems name; None for a run in memory."""
    return None if isinstance(run, Run | Mapping) else str(run)


@contextmanager
def _given(policies: Mapping[str, PolicyLike | None]) -> Iterator[dict[str, str]]:
    """Yield the names of those policies that are not None, by question, while runs may use them."""
    stated = [(question, one) for question, one in policies.items() if one is not None]
    with given(stated) as names:
        yield {question: name for (question, _), name in zip(stated, names, strict=True)}


def _resolve(run: RunLike, policies: Mapping[str, str], *, history: bool = True) -> Run:
    """Return the resolved run, under the given policies, by question."""
    from warren.profile.published import TABLE
    from warren.workload.run_file import load_run, run_from_dict

    # ``past`` reads the history database if the run names it; a mapping's paths are relative to
    # the working folder, those of a file to the file.
    past = recorded if history else recorded_elsewhere
    if isinstance(run, Run):
        resolved = run
    elif isinstance(run, Mapping):
        resolved = with_absolute_base(
            run_from_dict(run, ".", read, rows=TABLE, recorded=past, here=hosts_here)
        )
    else:
        named = os.path.abspath(run)
        loaded = load_run(str(run), read, named=named, rows=TABLE, recorded=past, here=hosts_here)
        resolved = with_absolute_base(loaded)
    return renamed(resolved, policies) if policies else resolved
