"""The parts of one simulation, and the question that each of them answers.

``warren.sim.build`` chooses them once, by the features of the run; ``warren.sim.port`` puts them
together. No part is a form of another one, so all of them combine;
``warren.sim.task_durations.check_simulable`` holds the cases that are still refused:

- *durations*, always one: T^c and T^s of a task now, the profile times the hidden truth
  (``task_durations``), or that on processors which all devices share (``shared_cpu``);
- *lanes*, always the same: queues, COMP and COMM lanes and barriers (``lanes``);
- *network*, where jobs are rings: gangs that come together and hold their devices
  (``network.ring_gangs``), and when a round of theirs is over: by T^s or contention
  (``network.contention``), or as flows (``network.fluid``, ``network.linked_rings``);
- *flows* and *servers*, where jobs with servers have their bytes on links, or bytes have classes:
  which bytes are on which link (``network.link_flows``), and pulls, tasks and pushes
  (``network.server_rounds``);
- *after*, where jobs arrive once others have ended (``jobs_after_others``);
- *copies* of late tasks (``speculation``);
- *verified* tasks, which are computed again (``verified_tasks``).

*Order.* A part never calls the port. At the beginning of each step all of the last instant is
known: then devices at work are counted, delayed starts begin, and rings are settled. From there to
the next event the parts pass their own instants, in order of time.

*Not chosen:* a port for each set of features, which doubles with each feature; a chain of ports,
each around another, whose order would matter at every tie; parts that ask the port back, so that
neither could be read alone.
"""

from __future__ import annotations

from typing import Final, Protocol

IDLE_NS: Final = 2**100
"""The next instant of a part that waits for others; later than any time of a run."""


class Durations(Protocol):
    """How long tasks take.

    ``noisy``: the tasks of one job differ. ``changing``: a task's time depends on when it starts.
    """

    @property
    def noisy(self) -> bool:
        """Tell whether the tasks of one job differ."""
        ...

    @property
    def changing(self) -> bool:
        """Tell whether a task's time depends on when it starts."""
        ...

    def run_round(
        self, job: int, round_: int, shards: tuple[int, ...], kind: int, start: int, comm_free: int
    ) -> tuple[int, int]:
        """Return the end of the last COMP and of the last synchronization, ns.

        The tasks ``shards`` run back to back from ``start`` on a device of type ``kind`` whose
        COMM lane is free from ``comm_free`` on.
        """
        ...
