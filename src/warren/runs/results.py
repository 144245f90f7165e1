"""A record as the files of a run's folder, and a folder back as a record."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from warren.core.journal import Header
from warren.core.journal_reader import History, is_empty, read_history
from warren.model.costs import CostTable
from warren.model.errors import JournalError, Problem, SpecError
from warren.model.measured import PhaseTimes
from warren.model.run import Run
from warren.model.timeline import Timeline
from warren.report.phases import times_of
from warren.report.record import Record
from warren.runs.bound_of_run import lower_bound
from warren.store.files import parsed_json


def input_files(run: Run, costs: CostTable) -> dict[str, bytes | str]:
    """Make the files a journal needs beside it to be read.

    They are written first, in case the run is cut off.
    """
    from warren.report.tables import devices_csv, profile_csv
    from warren.workload.specs.write import dump_run

    record = Record(run=run, history=_nothing_yet(run), costs=costs)
    return {
        "run.yaml": dump_run(run),
        "profile.csv": profile_csv(record),
        "devices.csv": devices_csv(record),
    }


def hash_of(inputs: Mapping[str, bytes | str]) -> str:
    """Return a hash of ``input_files``, by which a run that goes on knows they did not change."""
    return hashlib.sha256("".join(map(str, inputs.values())).encode()).hexdigest()


def _nothing_yet(run: Run) -> History:
    """Return the history of a run of which nothing has happened, for tables of its inputs."""
    header = Header(run=run.name, world="", place="", grain="", seed=run.seed, jobs=(), devices=())
    count = len(run.workload.jobs)
    return History(
        header=header,
        timeline=Timeline.from_events([]),
        finish_ns_J=np.full(count, -1, dtype=np.int64),
    )


def result_files(record: Record) -> dict[str, bytes | str]:
    """Make every file of the folder but the journal, which was written as the run went."""
    from warren.report.links import links_parquet
    from warren.report.metrics import summary, summary_text
    from warren.report.page.page import page
    from warren.report.parquet import timeline_parquet
    from warren.report.tables import devices_csv, jobs_csv, profile_csv, servers_csv, users_csv
    from warren.report.trace import chrome_trace
    from warren.workload.specs.write import dump_run

    of_links: dict[str, bytes | str] = {}
    if record.history.link_use is not None:
        of_links = {"links.parquet": links_parquet(record), "servers.csv": servers_csv(record)}
    found = summary(record)
    of_users = {"users.csv": users_csv(record)} if "users" in found else {}
    return {
        "run.yaml": dump_run(record.run),
        "summary.json": summary_text(found),
        "jobs.csv": jobs_csv(record),
        **of_users,
        "devices.csv": devices_csv(record),
        "profile.csv": profile_csv(record),
        "timeline.parquet": timeline_parquet(record),
        **of_links,
        "trace.json": chrome_trace(record),
        "report.html": page(record),
    }


def load_record(name: str, files: dict[str, bytes]) -> Record:
    """Load the record of a folder, from its ``run.yaml``, ``profile.csv`` and journal.

    ``summary.json``, if it exists, adds the figures that only the run itself could measure.

    Raises
    ------
    SpecError
        If a file is missing or damaged, or the files do not belong together.
    """
    # Costs are those of the folder's table, not computed again: profiles may have changed since.
    run = load_folders_run(name, files)
    history = load_history(name, files["journal"], run)
    costs = load_costs(name, files, run)
    summary = read_summary(name, files)
    bound = lower_bound(run, costs, history)
    return Record(
        run=run,
        history=history,
        costs=costs,
        extra=_measured(summary),
        bound=bound,
        phases=_phases(summary, run),
    )


def load_folders_run(name: str, files: dict[str, bytes]) -> Run:
    """Load the run of a folder that has all that is needed to read its journal.

    Raises
    ------
    SpecError
        If a file is missing, or ``run.yaml`` is damaged.
    """
    from warren.workload.run_file import load_run

    # A kill at the very beginning leaves an empty journal without its inputs.
    for needed in ("run.yaml", "journal", "profile.csv"):
        if needed not in files and files.get("journal") == b"":
            message = "its run was killed before it began; start the run again"
            raise SpecError(Problem(file=name, message=message))
        if needed not in files:
            raise SpecError(Problem(file=f"{name}/{needed}", message="is missing"))
    return load_run(f"{name}/run.yaml", lambda _: files["run.yaml"])


def load_costs(name: str, files: dict[str, bytes], run: Run) -> CostTable:
    """Load the costs as the run of a folder used them, to the nanosecond.

    Sizes of models are known where their bytes were on links.

    Raises
    ------
    SpecError
        If the table is damaged, or of other jobs or types.
    """
    from warren.report.tables import model_bytes, read_profile_csv, read_servers_csv

    costs = read_profile_csv(files["profile.csv"], run, f"{name}/profile.csv")
    if "servers.csv" not in files:
        return costs
    servers = read_servers_csv(files["servers.csv"], f"{name}/servers.csv")
    return replace(costs, model_bytes_J=model_bytes(servers, run))


def load_history(name: str, data: bytes, run: Run) -> History:
    """Load the history in the journal of a folder.

    Raises
    ------
    SpecError
        If it is damaged, has other jobs or devices than the run, or the run was cut off before
        anything had run.
    """
    file = f"{name}/journal"
    try:
        if is_empty(data):
            message = f"is empty: nothing had run yet; `warren run --resume {name}` starts the run"
            raise SpecError(Problem(file=file, message=message))
        history = read_history(data)
    except JournalError as error:
        raise SpecError(Problem(file=file, message=str(error))) from None
    # The journal names jobs and devices by position: they must be those of ``run.yaml``.
    header = history.header
    jobs = tuple(job.name for job in run.workload.jobs)
    devices = tuple(device.name for device in run.cluster.devices)
    use = history.link_use
    links = 2 * len(run.cluster.hosts)
    known = use is None or int(use.link_R.max(initial=0)) < links
    if (header.jobs, header.devices) != (jobs, devices) or not known:
        message = "has other jobs or devices than run.yaml beside it"
        raise SpecError(Problem(file=file, message=message))
    return history


def read_summary(name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the summary of a folder; an empty one where it has none.

    Raises
    ------
    SpecError
        If it is not a JSON object.
    """
    file = f"{name}/summary.json"
    try:
        found = parsed_json(files.get("summary.json", b"{}"))
    except ValueError as error:
        raise SpecError(Problem(file=file, message=f"is not JSON: {error}")) from None
    if not isinstance(found, dict):
        raise SpecError(Problem(file=file, message="is not a JSON object"))
    return found


def _phases(old: Mapping[str, Any], run: Run) -> dict[int, PhaseTimes]:
    """Return where the time of tasks went, by job, as an old summary says."""
    rows = old.get("phases")
    index = {job.name: job.index for job in run.workload.jobs}
    named = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {index[row["job"]]: times_of(row) for row in named if row.get("job") in index}


def _measured(old: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of an old summary that only the run itself could measure."""
    # Everything else in a summary follows from the journal and is computed again.
    figures = ("decide_s", "compile_s", "wall_s", "overruns", "verified_tasks", "verify_s")
    kept = (*figures, "stale_messages", "strangers")
    # A file may hold values that are no seconds or tasks, such as 1e999 or an int of any size.
    known = {key: old[key] for key in kept if isinstance(old.get(key), int | float)}
    return {key: float(value) for key, value in known.items() if abs(value) < sys.float_info.max}
