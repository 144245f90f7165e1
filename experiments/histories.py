"""Random histories of jobs whose servers migrate: nothing may be lost, whatever happens when.

10,000 times: a job on real servers, executors and a real controller, in one thread, with a virtual
network, clock and processes (``tests/live/history_world.py``). Each is drawn by its seed: shapes
that come at any time, delayed rounds, tasks that run twice, servers and executors that are lost at
any moment, links and processes that are slow. All states, losses, metrics and parameters have to be
those of the plain loop, each barrier and each task has to count once, servers have to end where the
last shape has them, and nothing may wait for ever.

``--histories N`` plays fewer, ``--seed S`` others; only all of them from seed 0 on are saved. A
history that breaks a promise is told by its seed, with what came last.
"""

from __future__ import annotations

from typing import Final

from _histories import play_all
from history_core import play

HISTORIES: Final = 10_000

if __name__ == "__main__":
    play_all("histories", play, HISTORIES, __doc__)
