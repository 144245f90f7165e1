"""The error of a request that the service refused, or that did not reach it."""

from __future__ import annotations

from warren.model.errors import Problem, SpecError


class ServiceError(SpecError):
    """A request had no success; the text says why in one line.

    ``kind`` is that of the service's answer (``wrong``, ``forbidden``, ``unknown``, ``conflict``,
    ...), or ``unreachable`` where there was no answer.
    """

    def __init__(self, message: str, kind: str = "unreachable") -> None:
        self.kind = kind
        super().__init__(Problem(file="", message=message))
