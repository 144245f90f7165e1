"""What a request may not do, and which jobs a request names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from warren.model.errors import WarrenError
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import ServiceJob
from warren.serve.records.users import Caller


class Refusal(WarrenError):
    """A request that changes nothing; the text is one line for the caller.

    Attributes
    ----------
    kind
        ``wrong``: the request is not sound; ``never``: no machine could run the job; ``forbidden``:
        the caller may not do this; ``unknown``: what it names is not there; ``conflict``: the state
        does not allow it.
    """

    def __init__(
        self, kind: Literal["wrong", "never", "forbidden", "unknown", "conflict"], text: str
    ) -> None:
        super().__init__(text)
        self.kind = kind


def admin_only(caller: Caller, action: str) -> None:
    """Refuse what only admins may do.

    Raises
    ------
    Refusal
        If the caller is no admin.
    """
    if caller.role != "admin":
        raise Refusal("forbidden", f"only an admin may {action}")


def named_jobs(queue: Queue, targets: Sequence[str], caller: Caller) -> list[ServiceJob]:
    """Return the jobs that a caller names, each once, in the order named.

    Parameters
    ----------
    queue
        The queue.
    targets
        Ids of jobs, ids of arrays (all of their jobs), or names of the caller's own jobs: those
        that have not ended.
    caller
        The user that asks.

    Raises
    ------
    Refusal
        If a target is unknown, or a job belongs to another user and the caller is no admin.
    """
    if not targets:
        raise Refusal("wrong", "name at least one job")
    found: dict[str, None] = {}
    for target in targets:
        ids = queue.ids(target)
        if not ids:
            units = queue.names.get((caller.user, target), ())
            ids = [one for unit in units for one in queue.ids(unit)]
        if not ids:
            raise Refusal("unknown", why_unknown(queue, target, caller.user))
        owner = queue.jobs[ids[0]].user
        if owner != caller.user and caller.role != "admin":
            raise Refusal("forbidden", f"job {target} belongs to {owner}")
        found.update(dict.fromkeys(ids))
    return [queue.jobs[one] for one in found]


def why_unknown(queue: Queue, target: str, user: str) -> str:
    """Return why a target names no job that a user can change by it, and what to write instead."""
    shown = target[:100]
    ended = queue.last_named.get((user, target))
    if ended is not None:
        return f"your job '{shown}', {ended}, has ended"
    others = [(owner, min(ids)) for (owner, name), ids in queue.names.items() if name == target]
    if others:
        owner, unit = min(others)
        return f"no job of yours is named '{shown}'; {owner} has one, {unit}: name it by its id"
    return f"job '{shown}' is unknown"
