"""An experiment of several parts, which can be made one at a time: ``--part NAME``."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import _common

Make: TypeAlias = Callable[[Path], Mapping[str, Any]]
"""Makes one part, given a scratch folder."""


def make_parts(
    name: str,
    text: str | None,
    make: Mapping[str, Make],
    *,
    seed: int,
    stated: Mapping[str, Any],
    cannot: Callable[[str], str] = lambda part: "",
) -> dict[str, Any]:
    """Make the parts asked for, each in a scratch folder, and save after each; gives all parts.

    Those that are not made keep their earlier results. ``text`` is the program's help and
    ``stated`` stands beside the parts in the file; ``cannot`` says why a part is skipped.
    """
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--part", choices=list(make), help="only this one")
    wanted = parser.parse_args().part
    parts = _common.earlier(name)
    for part in [wanted] if wanted else list(make):
        if reason := cannot(part):
            print(f"part ({part}) skipped: {reason}", flush=True)
            continue
        scratch = Path(tempfile.mkdtemp(prefix=f"warren-{name}-"))
        try:
            parts[part] = {**make[part](scratch), "made_by": _common.made_by()}
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        _common.save(name, seed, {**stated, "parts": parts})
    return parts
