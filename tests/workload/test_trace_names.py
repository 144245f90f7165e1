"""Names of a trace's jobs become names of files: no two alike, and each change is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.workload.specs.types import is_name
from warren.workload.traces.job_names import file_names
from warren.workload.traces.read_trace import TraceRows, read_rows
from warren.workload.traces.rows import TraceRequest

COLUMNS = {"name": "job", "submitted": "at", "run": "took"}


def read(*names: str, **more: int) -> TraceRows:
    rows = "".join(f'"{name}",{index},30\n' for index, name in enumerate(names))
    content = f"job,at,took\n{rows}".encode()
    request = TraceRequest(file="f", content=content, types=("GPU",), columns=COLUMNS, **more)
    return read_rows("table", request)


def test_a_name_that_cannot_be_a_files_is_changed_and_reported() -> None:
    found = read("1004+0", "1002_[2-9%2]", "exp/a b", "plain", "71", "72")
    assert [row.name for row in found.rows] == [
        "1004-0", "1002_-2-9-2", "exp-a-b", "plain", "job-71", "job-72"
    ]  # fmt: skip
    assert found.notes == (
        "f: 2 jobs have numbers for names: 71 is called job-71",
        "f: 3 names cannot name a file: '1004+0' is called 1004-0, '1002_[2-9%2]' is called "
        "1002_-2-9-2, 'exp/a b' is called exp-a-b",
    )


def test_names_that_stay_are_not_reported() -> None:
    assert read("a", "b.c_d-e").notes == ()


def test_two_names_that_would_become_one_stay_two() -> None:
    found = read("a b", "a/b", "a-b", "7", "job-7")
    assert [row.name for row in found.rows] == ["a-b-2", "a-b-3", "a-b", "job-7-2", "job-7"]


def test_only_the_names_of_jobs_that_are_taken_are_reported() -> None:
    assert "1 name cannot name a file: 'a b'" in read("a b", "c d", limit=1).notes[0]


@given(st.lists(st.text(max_size=90), unique=True))
def test_names_are_safe_distinct_and_kept_where_they_can_be(names: list[str]) -> None:
    new = file_names(names)
    assert all(map(is_name, new))
    assert len({*new}) == len(new)
    for old, one in zip(names, new, strict=True):
        if is_name(old) and not old.isdigit():
            assert one == old
