"""The changes of ``experiments/mutants.py``, each of which a test must notice."""

from __future__ import annotations

import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "experiments"))

from mutants import LIVE, MUTANTS  # noqa: E402


def test_each_change_has_its_lines_once_in_the_source_and_its_tests() -> None:
    for one in MUTANTS:
        assert (CHECKOUT / LIVE / one.file).read_text().count(one.before) == 1, one.name
        assert all((CHECKOUT / "tests" / tests).exists() for tests in one.tests), one.name
