"""Numbers as a person reads them."""

import pytest

from warren.report.number_text import count, duration, number, percent, seconds, time_unit


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0123, "0.0123"), (4.5, "4.5"), (78.91, "78.91"), (181.49, "181.5"),
     (100.0, "100"), (12345.6, "12,346"), (600, "600")],
)  # fmt: skip
def test_numbers_have_four_or_five_digits_and_no_exponent(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(None, "–"), (0.0, "0 s"), (0.25, "250 ms"), (1.5, "1.5 s"), (90, "90 s"),
     (150, "2.5 min"), (7200, "2 h"), (200_000, "2.31 d")],
)  # fmt: skip
def test_durations_take_the_largest_unit_that_leaves_two_of_it(value_s, text):
    assert duration(value_s) == text


def test_the_unit_of_a_span_and_other_words():
    assert time_unit(0.0) == (1.0, "s")
    assert time_unit(3600.0) == (60.0, "min")
    assert percent(0.1234) == "12.3 %"
    assert seconds(12.5) == "12.5 s"
    assert (count(1, "job"), count(2000, "job")) == ("1 job", "2,000 jobs")
    assert (count(1, "process"), count(2, "process")) == ("1 process", "2 processes")
