"""A log of a job that Warren did not start is followed: steps and a metric, read by a pattern."""

from __future__ import annotations

import math
import os
import re
import time
from pathlib import Path
from typing import Final

from warren.live.enforcement.requests import wrong
from warren.predict.reading.numbers import number_in, whole_number

PATTERN: Final = (
    r"(?i)(?:step|iter(?:ation)?|epoch)\D{0,3}(?P<step>\d+)"
    r".{0,200}?acc(?:uracy)?\D{0,3}(?P<value>\d+(?:\.\d+)?)"
)
"""The default pattern: a step, and after it on the same line an accuracy."""
_MOST_BYTES: Final = 1 << 20
"""Most bytes of one read: the rest waits for the next."""
_LINE_CHARS: Final = 4096
_MOST_POINTS: Final = 20_000


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with a group ``value`` and, where lines have one, a group ``step``.

    Raises
    ------
    SpecError
        If it is no pattern or has no group ``value``.
    """
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise wrong("--pattern", f"is no regular expression: {error}") from None
    if "value" not in found.groupindex:
        raise wrong("--pattern", "needs a group (?P<value>...), and (?P<step>...) if there is one")
    return found


class TrainingLog:
    """A log file that may not be there yet, grows, is cut or replaced; reading never waits.

    ``steps`` and ``values`` are the values found; without a group ``step`` lines are counted. A
    step that is not above the last one (another attempt of the job) begins the curve again.
    ``age_s``: age of the file's last change at the last read that found more.
    """

    def __init__(self, path: Path, pattern: re.Pattern[str]) -> None:
        self.path = path
        self.steps: list[float] = []
        self.values: list[float] = []
        self.age_s = 0.0
        self._pattern = pattern
        self._offset = 0
        self._file = -1
        self._part = ""

    def read(self) -> int:
        """Read new bytes; return the number of points in them."""
        before = len(self.steps)
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._file or status.st_size < self._offset:
                    self._file, self._offset, self._part = status.st_ino, 0, ""
                file.seek(self._offset)
                got = file.read(_MOST_BYTES)
        except OSError:
            return 0
        if got:
            self.age_s = max(0.0, time.time() - status.st_mtime)
        self._offset += len(got)
        *lines, rest = (self._part + got.decode(errors="replace")).split("\n")
        self._part = rest[-_LINE_CHARS:]
        for line in lines:
            self._take(line[:_LINE_CHARS])
        return max(0, len(self.steps) - before)

    def _take(self, line: str) -> None:
        match = self._pattern.search(line)
        if not match:
            return
        value, step = _number(line, match, "value"), float(len(self.steps) + 1)
        if match.groupdict().get("step"):
            step = _number(line, match, "step")
        if not (math.isfinite(value) and math.isfinite(step)):
            return
        if self.steps and step == self.steps[-1]:
            self.values[-1] = value  # logged twice: the later one counts
            return
        if self.steps and step < self.steps[-1]:
            self.steps.clear()
            self.values.clear()
        self.steps.append(step)
        self.values.append(value)
        if len(self.steps) > _MOST_POINTS:
            # Every other point of a curve this long is enough.
            del self.steps[1:-1:2], self.values[1:-1:2]


def _number(line: str, match: re.Match[str], group: str) -> float:
    """Return the whole number in which a group of a match lies; nan if it is none."""
    spans = [match.span(name) for name in match.re.groupindex if name != group]
    found = number_in(whole_number(line, match.span(group), spans)) if match[group] else None
    return math.nan if found is None else found
