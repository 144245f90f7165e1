"""Random histories of jobs on hosts with leases: promises 1 to 3, whatever messages and hosts do.

1,000 times: two jobs on real servers, executors and a real controller, in one thread, with a
virtual network, clock and processes (``tests/live/leased_world.py``). Between controller and agents
messages are lost, late, repeated and reordered; hosts are cut off for up to three leases; agents
are killed; controllers are killed or hang, and another one goes on. States, losses, metrics and
parameters have to be those of the plain loop, each barrier and each task has to count once, a
device has one executor and one task at a time, nothing runs when a lease begins, a job goes back
one checkpoint interval at most, and none fails but one whose own code ends its process.

``--histories N`` plays fewer, ``--seed S`` others; only all of them from seed 0 on are saved. A
history that breaks a promise is told by its seed, with what came last.
"""

from __future__ import annotations

from typing import Final

from _histories import play_all
from leased_history import play

HISTORIES: Final = 1_000

if __name__ == "__main__":
    play_all("leased_histories", play, HISTORIES, __doc__)
