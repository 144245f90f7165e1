"""Curves from JSON: what trainers write is read, and other JSON is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from warren.model.errors import SpecError
from warren.predict.reading.curve_files import file_curve
from warren.predict.reading.curve_rows import FileCurve

VALUES = [3.0, 2.0, 1.5]
TRAINER = {
    "best_metric": None,
    "global_step": 30,
    "log_history": [
        {"epoch": 0.1, "learning_rate": 5e-5, "loss": 3.0, "step": 10},
        {"epoch": 0.1, "eval_loss": 3.25, "eval_accuracy": 0.5, "step": 10},
        {"epoch": 0.2, "loss": 2.0, "step": 20},
        {"epoch": 0.3, "loss": 1.5, "step": 30},
        {"epoch": 0.3, "eval_loss": 1.75, "eval_accuracy": 0.75, "step": 30},
        {"epoch": 0.3, "step": 30, "train_loss": 2.1, "train_runtime": 9.0},
    ],
}


def read(
    value: Any, columns: tuple[str, str] | None = None, metric: str | None = None
) -> FileCurve:
    return file_curve(
        "c.json", value if isinstance(value, str) else json.dumps(value), columns, metric
    )


def test_a_trainers_state_gives_its_loss_and_any_other_key() -> None:
    found = read(TRAINER)
    assert (found.curve.steps.tolist(), found.curve.values.tolist()) == ([10, 20, 30], VALUES)
    assert found.metric == "loss"
    assert found.notes == (
        "of its JSON step and loss are read; --columns STEP,VALUE names others: epoch, "
        "learning_rate, eval_loss, eval_accuracy, train_loss, train_runtime",
    )
    found = read(TRAINER, ("step", "eval_loss"))
    assert (found.curve.values.tolist(), found.notes) == ([3.25, 1.75], ())
    assert read(TRAINER, metric="eval_accuracy").metric == "eval_accuracy"
    evaluated = {"log_history": [{"step": 1, "eval_loss": 2}, {"step": 2, "eval_loss": 1}]}
    assert read(evaluated).metric == "eval_loss"


STEPPED = [{"step": step, "loss": value} for step, value in enumerate(VALUES, start=1)]


@pytest.mark.parametrize(
    "value",
    [
        STEPPED,
        "\n".join(map(json.dumps, STEPPED)),
        "\n".join(map(json.dumps, STEPPED)) + '\n\n{"step": 4, "lo',
        [{"global_step": one["step"], "train": {"loss": one["loss"]}} for one in STEPPED],
        {"loss": VALUES, "val_loss": VALUES},
        {"history": {"loss": VALUES}, "params": {"epochs": 3}},
        {"step": {"0": 1, "1": 2, "2": 3}, "loss": {"0": 3.0, "1": 2.0, "2": 1.5}},
        [[1.7e9, 1, 3.0], [1.7e9, 2, 2.0], [1.7e9, 3, 1.5]],
        [{"epoch": 1, "accuracy": 3}, {"epoch": 2, "accuracy": 2}, {"epoch": 3, "accuracy": "1.5"}],
    ],
)
def test_every_form_of_records_is_read(value: Any) -> None:
    nested = isinstance(value, list) and isinstance(value[0], dict) and "train" in value[0]
    found = read(value, ("global_step", "train.loss") if nested else None)
    assert (found.curve.steps.tolist(), found.curve.values.tolist()) == ([1, 2, 3], VALUES)


def test_a_nan_in_json_is_a_missing_value() -> None:
    found = read(
        '[{"step": 1, "loss": NaN}, {"step": 2, "loss": 1}, {"step": 3, "loss": null}, '
        '{"step": 4, "loss": 2}]'
    )
    assert found.curve.steps.tolist() == [2, 4]
    assert "the first in record 1: 1 'nan', 1 empty" in found.notes[1]


def test_lines_that_are_no_json_are_reported() -> None:
    text = "\n".join(map(json.dumps, STEPPED))
    assert "1 line is no object of JSON, the first is line 4" in read(text + "\nsaved\n").notes


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": {"b": 1}, "c": "x"}, "c.json: is JSON without a curve; allowed: a list of"),
        ([1, 2, 3], "c.json: is JSON without a curve"),
        ({}, "c.json: is JSON without a curve"),
        ({"log_history": []}, "c.json: is JSON without a curve"),
        ("[" * 100_000, "c.json: is JSON that is nested too deeply"),
        ('{"log_history": [{"loss": 1, ', "c.json: is damaged JSON: "),
        ([{"step": 1, "f1": 2, "em": 3}], "c.json: its JSON has no 'loss'; --columns STEP,VALUE"),
        ([{"step": 1, "loss": "x"}, {"step": 2, "loss": 1}], "c.json: record 1: value 'x' is n"),
    ],
)  # fmt: skip
def test_other_json_is_named_for_what_it_is(value: Any, told: str) -> None:
    with pytest.raises(SpecError) as error:
        read(value)
    assert str(error.value).startswith(told)


def test_a_log_that_begins_with_a_bracket_is_no_json() -> None:
    with pytest.raises(SpecError, match="--pattern REGEX reads a log"):
        read("[Epoch 1] loss=2\n[Epoch 2] loss=1\n")
