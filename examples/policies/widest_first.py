"""A place policy that is an order of jobs, as a template for your own.

    W=examples/policies/widest_first.py:WidestFirst
    warren simulate examples/quickstart/run.yaml --place $W

``warren.policy.order`` does the rest: which devices the tasks take, and how long they keep them.
"""

from collections.abc import Sequence

from warren.model.view import View
from warren.policy.order import JobOrder


class WidestFirst(JobOrder):
    """The job with the most tasks a round goes first; ties go by arrival."""

    def order(self, view: View, ready: Sequence[int]) -> list[int]:
        """Rank the ready jobs."""
        return sorted(ready, key=lambda job: (-view.scale_J[job], view.arrival_ns_J[job]))
