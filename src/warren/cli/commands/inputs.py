"""What several commands share: run files with overrides, and printing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from warren.cli.files import read
from warren.model.errors import Problem, SpecError
from warren.model.run import Run


def run_of(path: str, place: str | None, overrides: Sequence[str]) -> Run:
    """The run of a file, with ``--place`` and ``--set key=value`` applied.

    Raises
    ------
    SpecError
        All that is wrong with the file or the options.
    """
    from warren.profile.table import BATCHES
    from warren.workload.load import load_run

    values: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key:
            message = f"{override!r} is not KEY=VALUE, for example grain='60 s'"
            raise SpecError(Problem(file="--set", message=message))
        values[key.strip()] = value
    if place is not None:
        values["scheduler.place"] = json.dumps(place)
    run = load_run(path, read, values, BATCHES)
    return replace(run, base=os.path.abspath(run.base))


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """JSON alone on standard output."""
    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def say(text: str) -> None:
    """A line for people: standard error, so that standard output stays clean for ``--json``."""
    print(text, file=sys.stderr)
