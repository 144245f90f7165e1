"""A record as the files of a run's folder, and a folder back as a record."""

from __future__ import annotations

import json

from warren.cli.bounds import lower_bound
from warren.core.history import read_history
from warren.model.errors import JournalError, Problem, SpecError
from warren.report.record import Record


def result_files(record: Record) -> dict[str, bytes | str]:
    """Every file of the folder but the journal, which was written as the run went."""
    from warren.report.metrics import summary, summary_text
    from warren.report.page.page import page
    from warren.report.parquet import timeline_parquet
    from warren.report.tables import devices_csv, jobs_csv, profile_csv
    from warren.report.trace import chrome_trace
    from warren.workload.dump import dump_run

    return {
        "run.yaml": dump_run(record.run),
        "summary.json": summary_text(summary(record)),
        "jobs.csv": jobs_csv(record),
        "devices.csv": devices_csv(record),
        "profile.csv": profile_csv(record),
        "timeline.parquet": timeline_parquet(record),
        "trace.json": chrome_trace(record),
        "report.html": page(record),
    }


def load_record(name: str, files: dict[str, bytes]) -> Record:
    """The record of a folder, from its ``run.yaml``, ``profile.csv`` and journal.

    Raises
    ------
    SpecError
        If a file is missing or damaged.
    """
    from warren.report.tables import read_profile_csv
    from warren.workload.load import load_run

    for needed in ("run.yaml", "journal", "profile.csv", "summary.json"):
        if needed not in files:
            raise SpecError(Problem(file=f"{name}/{needed}", message="is missing"))
    run = load_run(f"{name}/run.yaml", lambda _: files["run.yaml"])
    try:
        history = read_history(files["journal"])
    except JournalError as error:
        raise SpecError(Problem(file=f"{name}/journal", message=str(error))) from None
    costs = read_profile_csv(files["profile.csv"], run)
    old = json.loads(files["summary.json"])
    kept = ("decide_s", "wall_s", "overruns")
    extra = {key: float(old[key]) for key in kept if isinstance(old.get(key), int | float)}
    bound = lower_bound(run, costs, history)
    return Record(run=run, history=history, costs=costs, extra=extra, bound=bound)
