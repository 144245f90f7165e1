"""What policies remember: notes by key, and how long similar jobs ran."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from warren.model.past import NO_PAST, Past
from warren.policy.common.job_history import MOST, kinds_by_name, records_of, similar
from warren.policy.common.persistent_map import PersistentMap
from warren.policy.place.hlas.predicted_rounds import ahead_of, guess, is_due

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds


@given(st.lists(st.tuples(st.integers(0, 60), st.integers()), max_size=200))
def test_notes_are_a_dictionary_whose_every_version_stays_as_it_was(
    given: list[tuple[int, int]],
) -> None:
    notes: PersistentMap[int, int] = PersistentMap()
    plain = dict[int, int]()
    versions = [(notes, dict(plain))]
    for key, value in given:
        notes, plain[key] = notes.noted(key, value), value
        versions.append((notes, dict(plain)))
    for one, was in versions:
        assert {key: one.get(key) for key in range(61)} == {k: was.get(k) for k in range(61)}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=120))
def test_what_is_forgotten_is_neither_found_nor_kept(steps: list[tuple[bool, int]]) -> None:
    plain = dict[int, int]()
    notes: PersistentMap[int, int] = PersistentMap()
    for is_noted, key in steps:
        if is_noted:
            notes, plain[key] = notes.noted(key, key), key
        else:
            notes = notes.forgotten(key)
            plain.pop(key, None)
        assert {at: found for at in range(31) if (found := notes.get(at)) is not None} == plain
    assert len(notes.older) + len(notes.latest) <= len(plain) + 2 * 8


def test_of_many_notes_few_are_copied_a_time() -> None:
    notes: PersistentMap[int, int] = PersistentMap()
    most = 0
    for key in range(10_000):
        notes = notes.noted(key, key)
        most = max(most, len(notes.latest))
    assert most <= 101
    assert len(notes.older) + len(notes.latest) >= 10_000


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
    guesses = PersistentMap({5: guess(4, 3)})
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
