"""Numbers in text: a match inside a number stands for all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.predict.reading.curve_files import log_curve
from warren.predict.reading.numbers import is_missing, number_in, whole_number

README = r"loss=(?P<value>[0-9.]+)"


@pytest.mark.parametrize(
    ("line", "part", "whole"),
    [
        ("l: 1.041956E+01 |", "1.041956", "1.041956E+01"), ("3.2E-02", "3.2", "3.2E-02"),
        ("1e-05", "1", "1e-05"), ("x=-0.5,", "0.5", "-0.5"), ("loss 12.5", "2.5", "12.5"),
        ("loss 12.5", "5", "12.5"), ("a 1,234.5", "1", "1,234.5"), ("1,234,567", "7", "1,234,567"),
        ("a .5 b", "5", ".5"), ("1.0D+01 ", "1.0", "1.0D+01"), ("-inf", "inf", "-inf"),
        ("[0.25]", "[0.25]", "0.25"), ("0.5.", "0.5.", "0.5"), ("0.5;", "0.5;", "0.5"),
        # What stands beside these numbers is no part of them.
        ("0.5,0.9", "0.5", "0.5"), ("10,5,3", "5", "5"), ("iter-10", "10", "10"), ("1-2", "2", "2"),
        ("epoch3loss", "3", "3"), ("12/1000", "12", "12"), ("12:30", "12", "12"),
        ("93.5%", "93.5", "93.5"),
        ("2024-05-01", "05", "05"), ("12,345", "345", "345"), ("2.5e", "2.5", "2.5"),
        # These are no single number, and stay as they are.
        ("oss", "oss", "oss"), ("0.5 0.6", "0.5 0.6", "0.5 0.6"), ("info", "inf", "inf"),
    ],
)  # fmt: skip
def test_a_part_of_a_number_stands_for_all_of_it(line: str, part: str, whole: str) -> None:
    start = line.index(part)
    assert whole_number(line, (start, start + len(part))) == whole


def test_no_number_goes_over_a_comma_into_another_group() -> None:
    assert whole_number("12,345", (0, 2), [(3, 6)]) == "12"
    assert whole_number("12,345", (0, 2)) == "12,345"


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda x: f"{x:.4E}"),
    st.floats(-1e12, 1e12).map(lambda x: f"{x:,.3f}"),
    st.integers(-(10**9), 10**9).map(str),
)


@given(
    NUMBERS,
    st.sampled_from(["{}", "loss={}", "[{}]", "a {}% b", "x: {}, y", "{}|", "({});"]),
    st.data(),
)
def test_any_part_of_any_number_is_read_whole(text: str, form: str, data: st.DataObject) -> None:
    line = form.format(text)
    first = line.index(text)
    # A part of digits, as a pattern of digits finds it.
    digits = [at for at, one in enumerate(text) if one.isdigit()]
    at = data.draw(st.sampled_from(digits))
    found = whole_number(line, (first + at, first + at + 1))
    if "," in text and text[at - 1 : at] == ",":
        return  # Behind a comma another number may begin: it is not put together.
    assert found == text
    assert number_in(found) == float(text.replace(",", ""))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("93.5%", 93.5), ("93.5 %", 93.5), ("1,234.5", 1234.5), ("1_000", 1000), (" 2 ", 2),
        ("\u22120.5", -0.5), ("+1", 1), ("1.", 1), ("1.5d-3", 0.0015), ("1,23", None), ("", None),
        ("0x1", None), ("1.2.3", None), ("--1", None), ("1 2", None), ("12,345,6", None),
    ],
)  # fmt: skip
def test_a_cell_is_one_number_or_none(text: str, number: float | None) -> None:
    assert number_in(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "nan", "NaN", "NA", "N/A", "#N/A", "<NA>", "null", "NULL", "None", "-", "--",
        "inf", "-Infinity",
    ],
)  # fmt: skip
def test_a_missing_value_has_many_spellings(text: str) -> None:
    assert is_missing(text)


def log(*values: str, step: bool = True) -> str:
    return "".join(f"epoch {at}: lr=0.01 loss={value} ok\n" for at, value in enumerate(values))


def test_the_readmes_pattern_reads_numbers_with_exponents_signs_and_thousands() -> None:
    found = log_curve("t.log", log("1.041956E+01", "9.5e0", "-3.2E-02", "1,234.5", ".25"), README)
    assert found.curve.values.tolist() == [10.41956, 9.5, -0.032, 1234.5, 0.25]
    assert found.notes[0] == (
        "4 matches of --pattern are part of a number, which is read whole: '1.041956' in line 1 is "
        "1.041956E+01"
    )


def test_a_pattern_that_ends_where_numbers_end_has_no_note() -> None:
    assert log_curve("t.log", log("3", "2.5", "1e-3"), r"loss=(?P<value>\S+)").notes == ()


def test_a_greedy_pattern_that_leaves_the_last_digit_is_read_whole() -> None:
    found = log_curve("t.log", "a loss 12.5\na loss 11.25\n", r"loss.*(?P<value>[0-9.]+)")
    assert found.curve.values.tolist() == [12.5, 11.25]
    assert "'5' in line 1 is 12.5" in found.notes[0]


@pytest.mark.parametrize(
    "pattern",
    [
        README,
        r"loss=(?P<value>\S+)",
        r"epoch.*?loss=(?P<value>\d+\.\d+)",
        r"epoch (?P<step>\d+):.*?loss=(?P<value>\d+.\d+)",
    ],
)
def test_a_nan_is_a_missing_value_and_not_the_next_number(pattern: str) -> None:
    text = log("3.5", "2.5", "nan", "1.5", "-inf").replace(" ok", " grad 7.5")
    found = log_curve("t.log", text, pattern)
    assert found.curve.values.tolist() == [3.5, 2.5, 1.5]
    (note, *_) = found.notes
    assert (
        note == "2 rows have no value and are passed over, the first in line 3: 1 'nan', 1 '-inf'"
    )


def test_a_decimal_comma_is_reported() -> None:
    found = log_curve("t.log", log("3,5", "2,5"), README)
    assert (
        "2 values end at a comma before a digit, which is not read: '3,5' in line 1" in found.notes
    )


def test_values_some_of_which_are_in_percent_are_reported() -> None:
    found = log_curve("t.log", log("0.5", "60%", "70%"), README)
    assert "2 of 3 values are in percent, and the others are not" in found.notes
    assert log_curve("t.log", log("50%", "60%"), r"loss=(?P<value>\S+)").notes == ()
