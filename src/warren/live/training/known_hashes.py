"""What tasks of a job gave before, as far as that is known: here, or in an earlier life of it."""

from __future__ import annotations

from collections.abc import Callable

from warren.live.training.app.app_contract import refuse
from warren.live.training.task_result import nondeterministic
from warren.live.training.tensor_layout import Layout
from warren.model.job import Job

Expected = Callable[[int, int], bytes | None]
"""Round and shard to the marks that this task gave in an earlier life, if it is known."""


class KnownMarks:
    """Marks by round and shard. ``expected``: where to look up those of an earlier life."""

    def __init__(self, layout: Layout, job: Job) -> None:
        self._layout, self._job = layout, job
        self._marks: dict[tuple[int, int], bytes] = {}
        self.expected: Expected | None = None

    def check(self, round_no: int, shard: int, marks: bytes) -> None:
        """Compare a task with what it gave before, as far as that is known.

        Raises
        ------
        SpecError
            It differs; the message names the tensor.
        """
        known = self._marks.get((round_no, shard))
        if known is None and self.expected is not None:
            known = self.expected(round_no, shard)
        if known is None or known == marks:
            return
        message = nondeterministic(self._layout, round_no, shard, known, marks)
        raise refuse(self._job, "", message)

    def add(self, round_no: int, shard: int, marks: bytes) -> None:
        """Keep what a task gave."""
        self._marks[round_no, shard] = marks

    def forget_before(self, round_no: int) -> None:
        """Tasks of earlier rounds will not run again."""
        self._marks = {key: marks for key, marks in self._marks.items() if key[0] >= round_no}

    def clear(self) -> None:
        """Keep nothing; what is ``expected`` stays."""
        self._marks.clear()
