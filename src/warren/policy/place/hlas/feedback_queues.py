"""Queues by attained service: the common part of HLAS, HLAS-P and 2D-LAS.

A job belongs to the queue whose thresholds hold its attained service; the first queue goes first.

If no thresholds are given, the past gives them: in each of 8 queues as many of its jobs ended. The
mean JCT of HLAS with a task a GPU is 104.5 s with a past and 106.5 s without, over five seeds:
`warren compare experiments/hlas/mix.yaml --place hlas --set policy.round=per-gpu --seeds 5`, and
with `--set 'history={generate: hare-mix, jobs: 1000, load: 1, rounds_factor: 0.1}'`. Without a past
each queue holds four times as much as the one before, from one second on: no size of jobs is taken
for granted, and a job waits behind others of a quarter to four times its own attained service.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from warren.model.units import NS_PER_S, parse_time_s, seconds_to_ns

QUEUES: Final = 16
"""Queues where nothing is known: their thresholds go from 1 s to 4**14 s, which is eight years."""
_RATIO: Final = 4
"""Ratio of the service that one of these queues holds to that of the queue before."""
OF_PAST: Final = 8
"""Queues whose thresholds come from a past."""


@dataclass(frozen=True, slots=True)
class FeedbackQueues:
    """Thresholds of queues: E_k^L of HLAS (TCC'24), IV-C, in nanoseconds of attained service.

    ``above_ns``: the least attained service of each queue after the first, ascending.
    """

    above_ns: tuple[int, ...]

    def of(self, attained_ns: float) -> int:
        """Return the queue of a job that has attained ``attained_ns``; 0 goes first."""
        return bisect_right(self.above_ns, attained_ns)

    def __len__(self) -> int:
        return len(self.above_ns) + 1


def parse_queues(text: str) -> FeedbackQueues | None:
    """Parse thresholds as a user writes them, ``10 min, 2 h``; None for an empty text.

    Raises ValueError if one is no time, or they do not ascend from above zero.
    """
    if not text.strip():
        return None
    above_ns = tuple(seconds_to_ns(parse_time_s(part.strip())) for part in text.split(","))
    if list(above_ns) != sorted(set(above_ns)) or above_ns[0] <= 0:
        raise ValueError(f"thresholds are times that ascend from above zero, got {text!r}")
    return FeedbackQueues(above_ns)


def queues_of(text: str, ended_ns: Sequence[int]) -> FeedbackQueues:
    """Return the queues that a user gave, else those of the attained service of past jobs.

    Without past jobs, the queues for unknown jobs.
    """
    # The paper gives no thresholds E_k: the rest is ours, see the head of this file.
    given = parse_queues(text)
    if given is not None:
        return given
    return by_past(ended_ns) if ended_ns else geometric()


def by_past(ended_ns: Sequence[int]) -> FeedbackQueues:
    """Return queues in each of which equally many past jobs ended.

    ``ended_ns``: attained service of each ended job, at least one, at its end.
    """
    # Quantiles by nearest rank: the k-th cut has ceil(k n / OF_PAST) jobs at or below it. Equal
    # cuts are one, and none is 0, so thresholds ascend from above zero.
    sizes_ns = sorted(ended_ns)
    cuts = [sizes_ns[-(-k * len(sizes_ns) // OF_PAST) - 1] for k in range(1, OF_PAST)]
    return FeedbackQueues(tuple(sorted({max(1, cut) for cut in cuts})))


def geometric() -> FeedbackQueues:
    """Return the queues for unknown jobs, each four times the one before."""
    return FeedbackQueues(tuple(NS_PER_S * _RATIO**k for k in range(QUEUES - 1)))
