"""What simulations wrote before the house was rebuilt, they write still."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cases import CASES, JOURNALS, Case, journal_sha256

RECORDED: dict[str, str] = json.loads(JOURNALS.read_text())


def test_every_case_is_recorded_and_no_two_are_alike() -> None:
    assert [case.name for case in CASES] == list(RECORDED)
    assert len(set(RECORDED.values())) == len(RECORDED)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_journal_is_the_recorded_one(case: Case, tmp_path: Path) -> None:
    assert journal_sha256(case, tmp_path / "out") == RECORDED[case.name]
