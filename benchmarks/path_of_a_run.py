"""Which files of Warren one small simulation enters, and how often it goes from one to another.

What a newcomer with a debugger steps through: functions that have a name, called while a command of
two jobs of one round runs under `srtf`. What runs while a file is imported does not count, nor
comprehensions. `--list` names the files in the order in which they are entered.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
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
    """Simulate once and print three numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="Name the files.")
    asked = parser.parse_args()
    trail = Trail()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run.yaml"
        run.write_text(RUN)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            sys.setprofile(trail.note)
            code = call(["simulate", str(run), "--place", "srtf", "--json"])
            sys.setprofile(None)
    if code:
        raise SystemExit(f"the simulation ended with {code}")
    pairs = {
        pair for pair in zip(trail.entered, trail.entered[1:], strict=False) if len(set(pair)) > 1
    }
    if asked.list:
        print("\n".join(dict.fromkeys(trail.entered)))
    print(f"files entered: {len(set(trail.entered))}")
    print(f"different steps from a file to another, in order of time: {len(pairs)}")
    print(f"different pairs of caller and called file: {len(trail.calls)}")
    print(f"calls into another file: {trail.calls.total()}")


if __name__ == "__main__":
    main()
