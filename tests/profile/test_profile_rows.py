"""The tables of the history are what their rows say, and a version of them stays as it is."""

from __future__ import annotations

import hashlib
import re
from dataclasses import astuple, fields, replace
from typing import Any

import pytest
from profile_rows import BLANK

from warren.model.history_rows import TABLES, Profile, row_of
from warren.store.history_database import TABLE_STATEMENTS, VERSION


def test_every_table_has_the_columns_of_its_rows_in_order() -> None:
    for kind, statement in zip(TABLES, TABLE_STATEMENTS, strict=True):
        body = statement.partition("(")[2].partition("PRIMARY KEY (")[0]
        columns = re.findall(r'"?(\w+)"? (?:TEXT|INTEGER|REAL)', body)
        assert statement.startswith(f"CREATE TABLE {TABLES[kind]} ")
        assert columns == [field.name for field in fields(kind)]


def test_the_tables_change_only_with_the_version() -> None:
    """Whoever changes them writes how an old database becomes a new one, and its number."""
    text = "".join(" ".join(statement.split()) for statement in TABLE_STATEMENTS)
    known = {1: "484aa275838be919", 2: "34dc652ab862d593"}
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == known[VERSION]


@pytest.mark.parametrize(
    ("column", "value"),
    [("batch", "8"), ("batch", True), ("batch", -1), ("batch", 1.0), ("key", None), ("app", b"a"),
     ("comp_s", 1), ("comp_s", float("nan")), ("comp_s", -0.5), ("updated_at", None)],
)  # fmt: skip
def test_a_value_that_a_column_may_not_hold_is_reported_with_its_place(
    column: str, value: Any
) -> None:
    row = replace(BLANK, **{column: value})
    with pytest.raises(ValueError, match=f"^table profiles: column {column} holds "):
        row_of(Profile, astuple(row))
    assert row_of(Profile, astuple(BLANK)) == BLANK
