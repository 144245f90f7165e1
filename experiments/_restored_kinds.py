"""All apps of this project that keep something, by the file and class that have them."""

from __future__ import annotations

from _restored_base import Base
from _restored_buffers import BUFFERS
from _restored_corners import CORNERS
from _restored_data import DATA
from _restored_hooks import HOOKS
from _restored_optimisers import OPTIMISERS
from _restored_schedules import SCHEDULES
from _restored_tasks import TASKS


def own_kinds() -> dict[str, type[Base]]:
    """The apps, by ``file.py:Class``."""
    kinds = BUFFERS | CORNERS | DATA | OPTIMISERS | HOOKS | SCHEDULES | TASKS
    return {f"{one.__module__}.py:{one.__name__}": one for one in kinds.values()}
