"""A controller to be killed whose processes are in the hosts h0 and h1 of a testbed.

Run as ``python bed_victim.py FOLDER``; prints the session of its processes and its private folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import bed_worlds
from bed_worlds import on_hosts
from live_worlds import drive, job, shuffled, world

from warren.live.control.local_engine import LivePort


def main() -> None:
    """Train for ever."""
    folder, bed_worlds.NAME = Path(sys.argv[1]), sys.argv[2]
    jobs = [job(0, "Forks", rounds=2000), job(1, rounds=2000, params={"sleep_s": 0.05}, user="bob")]
    run, costs = world(folder, jobs, 2)
    run = on_hosts(run, ["h0", "h1"])
    with LivePort(run, costs, folder / "out") as port:
        port.submit(tuple(shuffled(run, seed=1)))
        port.next_events()
        print(port.session, port._folder, flush=True)
        drive(port, ())


if __name__ == "__main__":
    main()
