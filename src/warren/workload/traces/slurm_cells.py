"""Cells that Slurm's accounting writes: lists of resources, ids of jobs and steps, states.

*Source.* The manual of ``sacct``; tables of other tools have cells of these kinds too.
"""

from __future__ import annotations

import re
from typing import Final

PART: Final = 0.5
"""GPUs of a job that asks for shares of one alone: less than a whole."""
NOTHING: Final = frozenset({"", "unknown", "none", "n/a", "(null)", "null", "-", "invalid"})
"""Contents of a cell, in small letters, that mean no value."""
WAITING: Final = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "QUEUED", "WAITING"}
)
"""States of a job that waits for its devices."""
UNDER_WAY: Final = frozenset(
    {"RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"}
)
"""States of a job that has devices and has not ended."""
NEVER_RAN: Final = "has not run"
NOT_ENDED: Final = "has not ended: its run time is what it had run when the table was made"

# In parentheses: the GPUs' numbers, with commas of their own.
_PARENTHESES: Final = re.compile(r"\([^()]*\)")
_WHOLE: Final = re.compile(
    r"(?:gres[/:])?(?:gpu|nvidia\.com/gpu)(?::(?P<type>(?!\d+$)[^:=]+))?(?:[:=](?P<count>\d{1,9}))?"
)
_SHARE: Final = re.compile(r"(?:gres[/:])?(?:mps|shard)(?::(?!\d+$)[^:=]+)?[:=](?P<count>\d{1,9})")
_LISTED: Final = re.compile(r"[A-Za-z][^:=,]*(?:[:=][^:=,]*)*[:=][^,]*|gpu")
_STEP: Final = re.compile(
    r"(?P<job>.+?)\.(?:batch|extern|interactive|allocation|\d{1,9}(?:\+\d+)?)"
)
_STATE: Final = re.compile(r"[A-Za-z_]+")


def gpus_of(text: str) -> float | None:
    """Return the GPUs of a list of resources, such as ``cpu=8,gres/gpu=2`` or ``gpu:a100:2``.

    A count without a type is the sum of all types, so the typed counts beside it add nothing. A
    list without GPUs has 0, or ``PART`` if it has shares of one. None if the text is no list of
    resources.
    """
    items = [item.strip() for item in _PARENTHESES.sub("", text).split(",")]
    if not all(_LISTED.fullmatch(item) for item in items):
        return None
    whole = [match for item in items if (match := _WHOLE.fullmatch(item.lower()))]
    # A name without a count means one.
    untyped = [int(one["count"] or 1) for one in whole if one["type"] is None]
    found = sum(untyped or [int(one["count"] or 1) for one in whole])
    shares = [match for item in items if (match := _SHARE.fullmatch(item.lower()))]
    part = not whole and any(int(one["count"]) for one in shares)
    return PART if part else float(found)


def job_of_step(name: str) -> str | None:
    """Return the job of which ``name`` is a step, such as ``7.batch`` or ``7+0.1``; else None."""
    match = _STEP.fullmatch(name)
    return match["job"] if match else None


def state_of(text: str) -> str:
    """Return the first word of a state in capitals: ``CANCELLED by 1000`` is ``CANCELLED``."""
    match = _STATE.match(text.strip())
    return match[0].upper() if match else ""


def tells_nothing(text: str) -> bool:
    """Tell whether a cell is empty, or a word for that."""
    return text.strip().lower() in NOTHING
