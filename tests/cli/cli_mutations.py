"""Run, job and cluster files with one thing wrong, by seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from cli_runs import CLUSTER, JOBS, RUN

FILES: Mapping[str, str] = {"run.yaml": RUN, "jobs.yaml": JOBS, "cluster.yaml": CLUSTER}
JUNK = (
    "-1", "0", "1e400", "nan", "99999999999999999999999", "''", "null", "[]", "{}", "[1, [2]]",
    "{a: b}", "yes", "2026-01-01", "'../../x'",
    "\"\\0\"", "*a", "&a x", "!!python/object:os.system",
    "😀", "4 parsecs", "-5 s", "1e-30 s", "\t", "%", "@", "none.yaml", ".", "/", "/dev/null",
)  # fmt: skip


def mutate(folder: Path, seed: int) -> str:
    """Write the three files with one to three changes; gives the path of the run file."""
    chance = random.Random(seed)
    files = {name: text.encode() for name, text in FILES.items()}
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = chance.choice(sorted(files))
        change = chance.choice((_value, _value, _value, _line, _bytes, _cut, _gone))
        files[name] = change(files[name], chance)
    folder.mkdir(parents=True)
    for name, content in files.items():
        if content or chance.random() < 0.5:
            (folder / name).write_bytes(content)
    return str(folder / "run.yaml")


Change = Callable[[bytes, random.Random], bytes]


def _value(content: bytes, chance: random.Random) -> bytes:
    """What stands behind some colon becomes junk."""
    places = [at + 2 for at in range(len(content) - 2) if content[at : at + 2] == b": "]
    if not places:
        return b""
    start = chance.choice(places)
    end = min(
        (at for mark in b",}]\n" if (at := content.find(mark, start)) >= 0), default=len(content)
    )
    return content[:start] + chance.choice(JUNK).encode() + content[end:]


def _line(content: bytes, chance: random.Random) -> bytes:
    """A line is dropped, doubled, or moved."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    one = lines.pop(chance.randrange(len(lines)))
    for _ in range(chance.choice((0, 1, 2))):
        lines.insert(chance.randrange(len(lines) + 1), one)
    return b"".join(lines)


def _bytes(content: bytes, chance: random.Random) -> bytes:
    """A few bytes become others, or come in between."""
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.randbytes(chance.randrange(1, 9)) + content[at + 1 :]


def _cut(content: bytes, chance: random.Random) -> bytes:
    """The end is missing."""
    return content[: chance.randrange(len(content) + 1)]


def _gone(content: bytes, chance: random.Random) -> bytes:
    """The file is empty or missing."""
    return b""
