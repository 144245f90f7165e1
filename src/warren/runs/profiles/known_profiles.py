"""Tasks and jobs in a history database: looked up, forgotten, and exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warren.model.errors import Problem, SpecError
from warren.model.history_rows import Profile
from warren.profile.history import exported, on_types, snapshot, with_own_names
from warren.runs.inputs import some_of
from warren.runs.machine import hosts_here
from warren.store.files import read, refused, write_atomic
from warren.store.history_database import Database, default_file, known_jobs, known_profiles

_KEY_CHARS = 12
"""Characters of a key that are shown; they identify a kind of tasks."""
_KEYS_SHOWN = 8
"""Most keys named in an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedProfiles:
    """Profiles as a file that ``profiles:`` of a run names.

    ``rows``: how many it has. ``spare``: the names of rows that price no job of a run.
    """

    text: str
    rows: int
    spare: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedJobs:
    """The number of jobs written, the file of their costs, and a hash of all data read."""

    jobs: int
    costs: Path
    digest: str


def database_file(db: str | None) -> Path:
    """Return the history database of this name; None: the user's own.

    Raises SpecError if the user has no place for one.
    """
    try:
        return default_file() if db is None else Path(db)
    except OSError as error:
        raise SpecError(Problem(file="--db", message=str(error))) from None


def existing_database(db: str | None) -> Path:
    """Return the database to look into: the user's own, which may be missing, or a named one.

    Raises SpecError if a named file does not exist.
    """
    path = database_file(db)
    if db is not None and not path.exists():
        raise refused(path, "no such file")
    return path


def latest_profiles(path: Path) -> list[Profile]:
    """Return all profiles of a database, the latest first."""
    return sorted(known_profiles(path), key=lambda row: (-row.updated_at, row.key))


def profiles_under(path: Path, key: str) -> list[Profile]:
    """Return the profiles of one key, a device type each.

    ``key``: a key, its beginning, or the name of the job it was measured for. Raises SpecError if
    it matches no key, or several.
    """
    return _of_key(known_profiles(path), key)


def forget_profiles(path: Path, key: str) -> Profile:
    """Remove the profiles of one key, found as ``profiles_under`` does; return one of them.

    Raises SpecError if the key matches none, or several, or the database cannot be written.
    """
    rows = profiles_under(path, key)
    with Database(path) as database, database.transaction():
        database.forget(rows[0].key)
    return rows[0]


def export_profiles(
    path: Path, cluster: str | None = None, *, averages: bool = False
) -> ExportedProfiles:
    """Return the profiles of a database as rows for ``profiles:`` of a run.

    With a cluster file, the rows are for its device types, in its seconds; otherwise for the types
    that were measured, in real seconds. ``averages``: moving averages of live runs take precedence
    over single measurements. Raises SpecError if the database or the cluster file cannot be read.
    """
    from warren.workload.run_file import load_cluster
    from warren.workload.specs.write import dump_profiles

    # Measured times are real seconds of this machine's processor; a cluster that emulates its
    # devices counts each real second as 1 / time_scale of its own.
    found = exported(known_profiles(path), averages=averages)
    rows = found.rows
    if cluster is not None:
        its = load_cluster(cluster, read, hosts_here)
        scale = its.emulate.time_scale if its.emulate else 1.0
        rows = tuple(on_types(row, its.type_names, scale) for row in rows)
    seconds = "real" if cluster is None else f"{cluster}'s"
    text = dump_profiles(rows, f"Made by `warren profile export`, in {seconds} seconds.")
    return ExportedProfiles(text=text, rows=len(rows), spare=found.spare)


def export_jobs(path: Path, to: Path) -> ExportedJobs:
    """Write the finished jobs of a database as a jobs file, and beside it their costs.

    Raises SpecError if ``to`` is no ``.csv``, the database cannot be read, or a file cannot be
    written.
    """
    from warren.workload.specs.write import dump_profiles
    from warren.workload.traces.convert import jobs_csv

    if to.suffix != ".csv":
        raise refused(to, "allowed: a table of jobs, .csv")
    try:
        past = snapshot(known_jobs(path))
    except ValueError as error:
        raise refused(path, str(error)) from None
    costs = to.with_suffix(".profiles.yaml")
    # The costs first: a jobs file must not name costs that are not there.
    write_atomic(costs, dump_profiles(past.rows, f"Costs of {to.name}, jobs of live runs."))
    write_atomic(to, jobs_csv(with_own_names(past.jobs)))
    return ExportedJobs(jobs=len(past.jobs), costs=costs, digest=past.digest)


def _of_key(rows: Sequence[Profile], key: str) -> list[Profile]:
    """Return the rows whose key begins with this, or whose job has this name, if of one key."""
    found = sorted({row.key for row in rows if (key and row.key.startswith(key)) or row.job == key})
    if len(found) != 1:
        # For an ambiguous key the possible ones are named, otherwise all in the database.
        keys = found or sorted({row.key for row in rows})
        some = some_of([one[:_KEY_CHARS] for one in keys], _KEYS_SHOWN)
        what = "stands for several keys" if found else "no such key and no such job"
        message = f"{key!r}: {what}; allowed: {some}" if some else "nothing was measured yet"
        raise SpecError(Problem(file="profile", field="KEY", message=message))
    return [row for row in rows if row.key == found[0]]
