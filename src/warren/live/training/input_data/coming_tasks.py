"""A guess at the next tasks of a process, by the tasks that it has had."""

from __future__ import annotations

from collections.abc import Iterator

from warren.live.training.input_data.input_reader import Task


class ComingTasks:
    """Guesses that a process gets the tasks of a round in each later round, too.

    ``rounds``: the rounds of the job; None: unknown.
    """

    def __init__(self, rounds: int | None) -> None:
        self._rounds = rounds
        self._round = -1
        self._shards: list[int] = []
        self._before: list[int] = []

    def note(self, round_no: int, shard: int) -> None:
        """Note a task that has come."""
        if round_no != self._round:
            self._before, self._shards, self._round = self._shards, [], round_no
        if shard not in self._shards:
            self._shards.append(shard)

    def after(self, round_no: int, shard: int) -> Iterator[Task]:
        """Yield the tasks that may come after one, in their order."""
        shards = self._before if shard in self._before else self._shards
        rest = shards[shards.index(shard) + 1 :] if shard in shards else []
        while self._rounds is None or round_no < self._rounds:
            yield from ((round_no, one) for one in rest)
            # In a first round it is not known yet which tasks come here.
            if not shards or (not self._before and round_no > self._round):
                return
            round_no, rest = round_no + 1, shards
