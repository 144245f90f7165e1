"""Which files of Warren one small simulation enters, and how often it goes from one to another.

What a newcomer with a debugger steps through: functions that have a name, called while a command of
two jobs of one round runs under `srtf`. What runs while a file is imported does not count, nor
comprehensions, nor templates of the page. `--list` names the files in the order in which they are
entered. Each simulation has a process of its own, as a command has: a second one in one process
would find caches filled, and solve for its lower bound itself.

What is to be at most 50 files and 130 changes of file was counted as 85 and 226 before the house
was rebuilt (commit a48cd30). This script gives there 67 files and 162 steps for the table, 82 and
229 for the table and a folder: the count that is nearest is the latter, "files entered" and
"different steps" of `table and --out`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

import warren
from warren.cli.main import call

PACKAGE = f"{Path(warren.__file__).parent}/"
RUN = """
cluster: {hosts: [{name: a, count: 1, devices: {V100: 2}, memory: 64 GB, nic: 10 Gbps}]}
workload: [{name: a, model: resnet50, rounds: 1}, {name: b, model: vgg19, rounds: 1}]
"""
_IS_FUNCTION = 1
"""Bit of ``co_flags`` that the body of a class lacks."""


class Trail:
    """The files entered, one after the other, and who called into which other."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.calls: Counter[tuple[str, str]] = Counter()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Take a call of the interpreter's profiler."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if not code.co_filename.endswith(".py"):
            return
        if code.co_name.startswith("<") or not code.co_flags & _IS_FUNCTION:
            return
        callers = [one for one in _above(frame) if one.f_code.co_filename.startswith(PACKAGE)]
        if any(one.f_code.co_name == "<module>" for one in callers):
            return
        file = code.co_filename.removeprefix(PACKAGE)
        self.entered.append(file)
        if callers and callers[0].f_code.co_filename != code.co_filename:
            self.calls[callers[0].f_code.co_filename.removeprefix(PACKAGE), file] += 1


def _above(frame: FrameType) -> list[FrameType]:
    found = []
    above = frame.f_back
    while above is not None:
        found.append(above)
        above = above.f_back
    return found


def main() -> None:
    """Simulate twice, with the table only and with a folder of results, and print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="Name the files.")
    asked = parser.parse_args()
    for title, more in (("table", []), ("table and --out", ["--out", "{folder}/out"])):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            trail = process.submit(trail_of, more).result()
        pairs = set(zip(trail.entered, trail.entered[1:], strict=False))
        print(f"{title}: files entered: {len(set(trail.entered))}")
        if asked.list:
            print("\n".join(f"  {name}" for name in dict.fromkeys(trail.entered)))
        steps = sum(a != b for a, b in pairs)
        print(f"{title}: different steps from a file to another, in order of time: {steps}")
        print(f"{title}: different pairs of caller and called file: {len(trail.calls)}")
        print(f"{title}: calls into another file: {trail.calls.total()}")


def trail_of(more: list[str]) -> Trail:
    """Return the trail of one simulation; ``{folder}`` in options is a fresh folder."""
    trail = Trail()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run.yaml"
        run.write_text(RUN)
        options = [one.format(folder=folder) for one in more]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            sys.setprofile(trail.note)
            code = call(["simulate", str(run), "--place", "srtf", *options])
            sys.setprofile(None)
    if code:
        raise SystemExit(f"the simulation ended with {code}")
    return trail


if __name__ == "__main__":
    main()
