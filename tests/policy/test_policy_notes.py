"""What policies remember: how long similar jobs ran, and what was predicted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from immutables import Map

from warren.model.past import NO_PAST, Past
from warren.policy.common.job_history import MOST, kinds_by_name, records_of, similar
from warren.policy.place.hlas.predicted_rounds import ahead_of, guess, is_due

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds


def past(*jobs: tuple[str, str, int]) -> Past:
    """Jobs that have ended, by name, user and rounds."""
    return Past(
        jobs=tuple(
            replace(worlds.job(at, rounds=rounds, user=user), name=name)
            for at, (name, user, rounds) in enumerate(jobs)
        )
    )


def test_similar_is_the_same_name_but_for_numbers_else_the_same_user() -> None:
    records = records_of(
        past(("1-bert", "ana", 3), ("2-gcn", "ana", 5), ("3-bert", "ben", 7), ("4-vgg", "", 9)),
        kinds_by_name,
    )

    def like(name: str, user: str) -> tuple[str, tuple[int, ...]]:
        return similar(records, replace(worlds.job(0, user=user), name=name))

    assert like("77-bert", "ben") == ("name", (7,))
    assert like("77-bert", "cia") == like("bert", "") == ("name", (3, 7))
    assert like("gcn-2", "ben") == ("name", (5,))
    assert like("resnet", "ana") == ("user", (3, 5))
    assert like("resnet", "cia") == ("", ())
    assert like("resnet", "") == ("", ())
    assert similar(records_of(NO_PAST, kinds_by_name), worlds.job(0)) == ("", ())


def test_the_latest_of_a_long_past_are_remembered() -> None:
    records = records_of(
        past(*(("a", "", rounds) for rounds in range(1, MOST + 11))), kinds_by_name
    )
    kind, rounds = similar(records, replace(worlds.job(0), name="a"))
    assert (kind, rounds) == ("name", tuple(range(11, MOST + 11)))


def test_a_prediction_is_consumed_round_by_round_and_grows_back_with_rounds_taken_back() -> None:
    guesses = Map({5: guess(4, 3)})
    assert [ahead_of(guesses, 5, rounds) for rounds in (2, 4, 5, 6, 7, 8)] == [5, 3, 2, 1, 0, 0]
    assert ahead_of(guesses, 6, 0) == 0


def test_no_number_of_rounds_is_none_and_endless_many_have_an_end() -> None:
    assert guess(4, float("nan")).until == guess(4, -2).until == guess(4, 0.9).until == 4
    assert guess(4, float("inf")).until > 10**12


def test_a_prediction_is_due_after_a_quarter_more_rounds_and_at_least_one() -> None:
    due = [0]
    for rounds in range(1, 100):
        if is_due(guess(due[-1], 0), rounds):
            due.append(rounds)
    assert due == [0, 1, 2, 3, 4, 5, 7, 9, 12, 15, 19, 24, 30, 38, 48, 60, 75, 94]
    assert is_due(None, 0)
    assert not is_due(guess(8, 0), 3)
