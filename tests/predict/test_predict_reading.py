"""Curves from tables and logs; what is wrong is told with its line."""

from __future__ import annotations

import pytest

from warren.model.errors import SpecError
from warren.predict.reading.curve_files import log_curve, table_curve

LOG = """\
start, loss=9
[Epoch 0] train=0.3 val=0.25 loss=2.5
[Epoch 1] train=0.4 val=0.35 loss=1.5
saved
[Epoch 2] train=0.5 val=0.45 loss=1.25e0
"""


def test_a_table_gives_its_two_columns_in_any_place() -> None:
    text = "time,value,step\n9,0.5,10\n9,0.75,20\n"
    curve = table_curve("c.csv", text).curve
    assert (curve.steps.tolist(), curve.values.tolist()) == ([10, 20], [0.5, 0.75])
    named = table_curve("c.csv", text, ("value", "time")).curve
    assert named.steps.tolist() == [0.5, 0.75]


def test_tabs_carriage_returns_blank_lines_and_empty_values_are_read() -> None:
    text = "epoch\tacc\tf1\r\n1\t10\t\r\n\r\n2\t20\t0.5\r\n3\t30\t0.75\r\n"
    assert table_curve("c.tsv", text, ("epoch", "acc")).curve.values.tolist() == [10, 20, 30]
    assert table_curve("c.tsv", text, ("epoch", "f1")).curve.steps.tolist() == [2, 3]


def test_a_pattern_reads_a_log_by_its_groups() -> None:
    curve = log_curve("t.log", LOG, r"Epoch (?P<step>\d+)\].*loss=(?P<value>[\d.e+-]+)").curve
    assert (curve.steps.tolist(), curve.values.tolist()) == ([0, 1, 2], [2.5, 1.5, 1.25])


def test_without_a_step_matches_are_counted() -> None:
    curve = log_curve("t.log", LOG, r"loss=(?P<value>\S+)").curve
    assert (curve.steps.tolist(), curve.values.tolist()) == ([1, 2, 3, 4], [9, 2.5, 1.5, 1.25])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "c.csv: is empty"),
        ("a,b\n1,2\n", "c.csv:1: no column 'step'; --columns STEP,VALUE names two"),
        ("step,value,step\n1,2,3\n", "c.csv:1: more than one column 'step'"),
        ("step,value\n1,2\n2,nan\n", "c.csv:3: value 'nan' is not a finite number"),
        ("step,value\n1,2\n\n2,inf\n", "c.csv:4: value 'inf' is not a finite number"),
        ("step,value\n1,2\nx,3\n", "c.csv:3: step 'x' is not a finite number"),
        ("step,value\n,2\n", "c.csv:2: step '' is not a finite number"),
        ("step,value\n1,2\n7\n", "c.csv:3: has 1 cells, the header 2"),
        ("step,value\n1,2\n2,1,234.5\n", "c.csv:3: has 3 cells, the header 2"),
        ("step,value\n1,2\n", "c.csv: 1 different steps; a prediction needs 2"),
    ],
)
def test_what_is_wrong_in_a_table_is_one_line(text: str, told: str) -> None:
    with pytest.raises(SpecError) as error:
        table_curve("c.csv", text)
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("loss=(", "--pattern: is not a regular expression: "),
        (r"loss=(\d+)", "--pattern: has no group (?P<value>...)"),
        (r"perplexity=(?P<value>\d+)", "t.log: no line matches --pattern"),
        (r"val=(?P<value>\S+) l(?P<step>\w+)", "t.log:2: step 'oss' is not a finite number"),
    ],
)
def test_what_is_wrong_with_a_pattern_is_one_line(pattern: str, told: str) -> None:
    with pytest.raises(SpecError) as error:
        log_curve("t.log", LOG, pattern)
    assert str(error.value).startswith(told)
