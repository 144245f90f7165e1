"""An experiment of several parts, which can be made one at a time: ``--part NAME``.

``--part 'NAME-*'`` makes those of a pattern.
Where a part has rows of several policies, ``--place NAME`` makes those of some policies again.
"""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import _common

Make: TypeAlias = Callable[[Path], Mapping[str, Any]]
"""Makes one part, given a scratch folder."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts to make, and the policies; ``some`` where the rows of other policies are kept."""

    parts: Sequence[str]
    places: Sequence[str] = ()
    some: bool = False


def ask(text: str | None, parts: Sequence[str], places: Sequence[str] = ()) -> Asked:
    """What the command line asks for. ``text`` is the program's help."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--part", help=f"only these of {','.join(parts)}")
    if places:
        parser.add_argument("--place", help=f"only these of {','.join(places)}; others keep rows")
    found = vars(parser.parse_args())
    chosen = {}
    for name, known in (("part", parts), ("place", places)):
        given = found.get(name)
        chosen[name] = list[str]() if given else list(known)
        for one in given.split(",") if given else ():
            if not (meant := fnmatch.filter(known, one)):
                parser.error(f"--{name} {one}: one of {', '.join(known)}")
            chosen[name] += meant
    in_order = [place for place in places if place in chosen["place"]]
    return Asked(chosen["part"], in_order, some=len(in_order) < len(places))


def make_parts(
    name: str,
    asked: Asked,
    make: Mapping[str, Make],
    *,
    seed: int,
    stated: Mapping[str, Any],
    cannot: Callable[[str], str] = lambda part: "",
    finish: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> dict[str, Any]:
    """Make the parts asked for, each in a scratch folder, and save after each; gives all parts.

    Those that are not made keep their earlier results. ``stated`` stands beside the parts in the
    file; ``cannot`` says why a part is skipped; ``finish`` sees a part when all its rows are there.
    """
    parts = _common.earlier(name)
    for part in asked.parts:
        if reason := cannot(part):
            print(f"part ({part}) skipped: {reason}", flush=True)
            continue
        scratch = Path(tempfile.mkdtemp(prefix=f"warren-{name}-"))
        try:
            made = {**make[part](scratch), "made_by": _common.made_by()}
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        parts[part] = finish(merged(parts[part], made) if asked.some and part in parts else made)
        _common.save(name, seed, {**stated, "parts": parts})
    return parts


def merged(before: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """A part with the rows that were made in the places of the earlier ones; each has its commit.

    A row is the same if its cell, or its trace, and its policy are.
    """
    rows = {
        (row.get("cell"), row.get("trace"), row["place"]): {
            "commit": part["made_by"]["commit"], **row
        }
        for part in (before, made)
        for row in part["rows"]
    }  # fmt: skip
    return {**before, **made, "rows": list(rows.values())}
