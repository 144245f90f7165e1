"""A run folder in memory, and ways to damage it."""

import json
from dataclasses import fields, replace

import numpy as np

from warren.model.timeline import Timeline
from warren.report.metrics import summary, summary_text
from warren.report.tables import (
    devices_csv,
    jobs_csv,
    profile_csv,
    read_timeline_parquet,
    timeline_parquet,
)


def files_of(record):
    return {
        "jobs.csv": jobs_csv(record).encode(),
        "devices.csv": devices_csv(record).encode(),
        "profile.csv": profile_csv(record).encode(),
        "timeline.parquet": timeline_parquet(record),
        "summary.json": summary_text(summary(record)).encode(),
    }


def edit_timeline(record, files, change):
    """``change(columns)`` edits the columns of the timeline in place, or returns new ones."""
    line = read_timeline_parquet(files["timeline.parquet"]).timeline
    columns = {field.name: getattr(line, field.name).copy() for field in fields(Timeline)}
    columns = change(columns) or columns
    history = replace(record.history, timeline=Timeline(**columns))
    return files | {"timeline.parquet": timeline_parquet(replace(record, history=history))}


def edit_csv(files, name, change):
    """``change(rows)`` edits the list of field lists (header first) in place."""
    rows = [line.split(",") for line in files[name].decode().splitlines()]
    change(rows)
    text = "".join(",".join(row) + "\n" for row in rows)
    return files | {name: text.encode()}


def edit_summary(files, **values):
    return files | {"summary.json": json.dumps(json.loads(files["summary.json"]) | values).encode()}


def drop(columns, row):
    return {name: np.delete(column, row) for name, column in columns.items()}


def double(columns, row):
    return {name: np.append(column, column[row]) for name, column in columns.items()}
