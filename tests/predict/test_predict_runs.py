"""Several runs in one file, rows without values, and the notes on what is not used."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.model.errors import SpecError
from warren.predict.reading.curve_files import file_curve, log_curve, table_curve
from warren.predict.reading.curve_rows import FileCurve


def table(*rows: Sequence[object]) -> FileCurve:
    lines = "".join(f"{','.join(map(str, row))}\n" for row in rows)
    return table_curve("c.csv", f"step,value\n{lines}")


def run(first: int, last: int, base: float = 0.0, by: int = 1) -> list[tuple[int, float]]:
    return [(step, base + 10 / (step + 1)) for step in range(first, last, by)]


def test_steps_that_begin_again_leave_the_last_run() -> None:
    found = table(*run(0, 40), *run(0, 12, base=3))
    assert found.curve.values.tolist() == [value for _, value in run(0, 12, base=3)]
    assert found.notes == (
        "steps start again at line 42: the 40 points before belong to another run and are not used "
        "(if steps count within an epoch, leave out the step)",
    )


def test_of_many_runs_the_last_one_counts_even_if_each_is_short() -> None:
    found = table(*run(0, 2), *run(0, 2), *run(0, 2, base=5))
    assert found.curve.values.tolist() == [15, 10]
    assert "at line 6: the 4 points before" in found.notes[0]


def test_a_run_that_logs_less_often_begins_at_its_own_distance() -> None:
    found = table(*run(1, 41), *run(10, 120, base=2, by=10))
    assert found.curve.steps.tolist() == list(range(10, 120, 10))


def test_a_run_that_went_back_to_a_checkpoint_replaces_what_was_there() -> None:
    found = table(*run(0, 40), *run(30, 60, base=1))
    assert found.curve.steps.tolist() == list(range(60))
    assert found.curve.values[29] < 1 < found.curve.values[30]
    assert found.notes == ("steps go back at line 42: 10 points are replaced by what follows",)


def test_a_header_in_the_middle_is_no_row() -> None:
    found = table(*run(0, 5), ("step", "value"), *run(0, 4, base=2))
    assert found.curve.steps.tolist() == [0, 1, 2, 3]
    assert "steps start again at line 8" in found.notes[0]


@pytest.mark.parametrize("order", [-1, 17])
def test_rows_in_no_order_are_sorted_and_reported(order: int) -> None:
    rows = run(0, 30)
    mixed = rows[::-1] if order < 0 else [rows[at * order % 30] for at in range(30)]
    found = table(*mixed)
    assert found.curve.values.tolist() == [value for _, value in rows]
    assert found.notes == ("steps are not in rising order: the rows are sorted by them",)


def test_one_row_out_of_order_replaces_nothing() -> None:
    rows = run(0, 12)
    rows[5], rows[6] = rows[6], rows[5]
    found = table(*rows)
    assert found.curve.steps.tolist() == list(range(12))
    assert found.notes == ("1 row is out of order: the rows are sorted by their steps",)


def test_steps_of_several_processes_are_means() -> None:
    found = table(*[(step, value) for step in range(1, 20) for value in (1 / step, 3 / step)])
    assert found.curve.values[0] == 2
    assert found.notes == ("19 steps have several values: their mean counts",)


def test_a_log_and_json_begin_again_too() -> None:
    rows = [*run(0, 9), *run(0, 5, base=2)]
    text = "".join(f"epoch {step} loss {value}\n" for step, value in rows)
    found = log_curve("t.log", text, r"epoch (?P<step>\d+) loss (?P<value>\S+)")
    lines = "".join(json.dumps({"step": step, "loss": value}) + "\n" for step, value in rows)
    records = file_curve("t.jsonl", lines)
    assert (
        found.curve.values.tolist()
        == records.curve.values.tolist()
        == [value for _, value in run(0, 5, base=2)]
    )
    assert "at line 10" in found.notes[0]
    assert "at line 10" in records.notes[1]


@given(st.integers(2, 30), st.integers(2, 30), st.integers(0, 5))
def test_two_runs_of_any_length_leave_the_second(one: int, two: int, first: int) -> None:
    found = table(*run(first, first + one), *run(first, first + two, base=3))
    assert found.curve.steps.tolist() == list(range(first, first + two))
    assert min(found.curve.values) > 3


def test_values_that_are_missing_are_passed_over_and_counted() -> None:
    rows = [(step, value if step % 5 == 0 else "nan") for step, value in run(0, 24)]
    found = table(*rows)
    assert found.curve.steps.tolist() == [0, 5, 10, 15, 20]
    assert found.notes == (
        "19 rows have no value and are passed over, the first in line 3: 19 'nan'",
    )


def test_all_spellings_of_nothing_are_distinguished() -> None:
    found = table((0, 3), (1, "N/A"), (2, ""), (3, 2), (4, "inf"), ("", 5), (6, 1))
    assert found.curve.steps.tolist() == [0, 3, 6]
    assert found.notes == (
        "4 rows have no value and are passed over, the first in line 3: 1 'N/A', 1 empty, 1 'inf', "
        "1 steps empty",
    )


def test_values_that_stop_being_numbers_are_reported_as_a_divergence() -> None:
    found = table(*run(0, 20), *((step, "nan") for step in range(20, 30)))
    assert "from line 22 on no value is a number: the training may have diverged" in found.notes[1]
    assert len(table(*run(0, 20), (20, "nan"), (21, 0.4)).notes) == 1


def test_a_column_without_a_number_is_one_line() -> None:
    with pytest.raises(
        SpecError, match=r"^c.csv:2: value 'nan' is not a finite number; 0 of 3 rows"
    ):
        table((0, "nan"), (1, "nan"), (2, ""))


@pytest.mark.parametrize(
    "text",
    [
        "step;value\n1;2,5\n2;1,5\n", "step|value\n1|2.5\n2|1.5\n",
        "# step  value\n 1   2.5\n 2   1.5\n",
        'Wall time,Step,Value\n9,1,2.5\n9,2,1.5\n', 'step,value\n1,"2.5"\n2,1.5\n',
    ],
)  # fmt: skip
def test_tables_may_be_separated_otherwise(text: str) -> None:
    curve = table_curve("c.csv", text).curve
    assert (curve.steps.tolist(), curve.values.tolist()) == ([1, 2], [2.5, 1.5])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("step,value\n", "c: has a header and no row"),
        ("\n", "c: is empty"),
        ("epoch,loss\n1,2\n", "c:1: no column 'step'; --columns STEP,VALUE names two of this head"),
        ("training\nloss 1\n", "c:1: has no header of columns ('step'); --pattern REGEX reads"),
        ("in training\nloss 1\n", "c:1: has no header of columns ('step'); --pattern REGEX reads"),
    ],
)  # fmt: skip
def test_a_table_that_is_none_is_reported_with_a_way_forward(text: str, told: str) -> None:
    with pytest.raises(SpecError) as error:
        file_curve("c", text)
    assert str(error.value).startswith(told)
