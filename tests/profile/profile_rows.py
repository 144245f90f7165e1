"""Rows of the history for tests, and strategies that draw them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from warren.model.cluster import PROCESSOR
from warren.model.history_rows import EndedJob, LiveRun, Profile
from warren.profile.averages import blank
from warren.profile.measured import TaskKind

KIND = TaskKind(
    app="a.py:A", source_sha256="s", params="{}", batch=8, sync="ps", numerics="n", machine="m"
)
BLANK = blank(KIND, PROCESSOR, 5.0)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.floats(0, 1e9)
_OF = {
    "str": TEXT,
    "int": st.integers(0, 2**63 - 1),
    "float": TIMES,
    "str | None": st.none() | TEXT,
    "float | None": st.none() | TIMES,
}


def drawn(kind: type) -> st.SearchStrategy[Any]:
    """Rows of this kind with any values their columns may hold."""
    return st.builds(kind, **{field.name: _OF[str(field.type)] for field in fields(kind)})


def ended(name: str = "a", **given: Any) -> EndedJob:
    """A finished job."""
    values: dict[str, Any] = {
        "run": "r", "position": 0, "run_name": "night", "began_at": 100.0, "arrival_s": 0.0,
        "name": name, "user": "ana", "group": "g", "model": None, "app": "a.py:A", "batch": 8,
        "scale": 2, "sync": "ps", "weight": 1.0, "rounds": 5, "status": "finished",
        "model_bytes": 40, "ended_at": 200.0,
        "costs": '{"CPU": {"comp_s": 0.5, "sync_s": 0.25, "tasks": 10}}',
    }  # fmt: skip
    return EndedJob(**{**values, **given})


def rows() -> list[LiveRun | EndedJob | Profile]:
    """One of each, which belong together."""
    run = LiveRun(id="r", name="night", began_at=100.0, until_ns=7)
    return [run, ended(), ended("b", position=1, status="failed"), BLANK]
