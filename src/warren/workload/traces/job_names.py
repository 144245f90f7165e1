"""Give jobs of a trace names that files can have, and no name twice.

A name of other characters, or a number, is changed; the notes tell how.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from warren.workload.specs.types import is_name
from warren.workload.text import shown

_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MOST: Final = 80
_SHOWN: Final = 10


def file_names(names: Sequence[str]) -> list[str]:
    """Return a name for each job, all different: its own where that can name a file.

    Parameters
    ----------
    names
        The jobs' own names, all different.
    """
    # Names that stay are taken from the start, wherever they stand.
    taken = {name for name in names if _stays(name)}
    found = []
    for name in names:
        if not _stays(name):
            name = _free(_changed(name), taken)
            taken.add(name)
        found.append(name)
    return found


def name_notes(file: str, new: Mapping[str, str]) -> Iterator[str]:
    """Yield remarks on changed names; ``new``: from each job's own name to its new one."""
    numbers = [name for name, one in new.items() if one == f"job-{name}" and _is_number(name)]
    if numbers:
        what = "job has a number for a name" if len(numbers) == 1 else "jobs have numbers for names"
        yield f"{file}: {len(numbers)} {what}: {numbers[0]} is called job-{numbers[0]}"
    others = [name for name, one in new.items() if one != name and name not in {*numbers}]
    if others:
        what = "name" if len(others) == 1 else "names"
        renamed = ", ".join(f"{shown(name)} is called {new[name]}" for name in others[:_SHOWN])
        more = ", ..." if len(others) > _SHOWN else ""
        yield f"{file}: {len(others)} {what} cannot name a file: {renamed}{more}"


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _stays(name: str) -> bool:
    return is_name(name) and not _is_number(name)


def _changed(name: str) -> str:
    """Return a name of allowed characters that is near this one."""
    plain = _OTHERS.sub("-", name).strip("-")[:_MOST].strip("-")
    # No name begins with a dot alone, and none is empty or a number.
    return plain if _stays(plain) else f"job-{plain}".rstrip("-.")[:_MOST]


def _free(stem: str, taken: set[str]) -> str:
    """Return the stem, with a number behind it if it is taken."""
    name, number = stem, 1
    while name in taken:
        number += 1
        end = f"-{number}"
        name = f"{stem[: _MOST - len(end)]}{end}"
    return name
