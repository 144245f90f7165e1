"""A controller to be interrupted or killed: trains for ever, says when, leaves like a command.

Run as ``python live_victim.py FOLDER [MOMENT]``; with MOMENT ``start`` it says so before the
zygote is warm; with ``limited`` its processes have a memory limit. Prints the session of its
processes.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from live_worlds import drive, job, shuffled, world

from warren.live.control.local_engine import LivePort
from warren.live.process.linux import die_with_parent
from warren.live.process.process_pool import ProcessPool
from warren.model.cluster import Local


def main() -> int:
    """Exit code 130 when interrupted."""
    die_with_parent(os.getppid())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    folder, moment = Path(sys.argv[1]), sys.argv[2:]
    jobs = [job(0, "Forks", rounds=2000), job(1, rounds=2000, params={"sleep_s": 0.05}, user="bob")]
    run, costs = world(folder, jobs, 2)
    if moment == ["start"]:
        _announce_before_warm()
    if moment == ["limited"]:
        run = replace(run, cluster=replace(run.cluster, local=Local(memory_bytes=10**9)))
    try:
        with LivePort(run, costs, folder / "out") as port:
            port.submit(tuple(shuffled(run, seed=1)))
            port.next_events()
            print(port.session, flush=True)
            drive(port, ())
    except KeyboardInterrupt:
        return 130
    return 0


def _announce_before_warm() -> None:
    plain = ProcessPool.await_zygote

    def announced(self: ProcessPool) -> object:
        print(self.session, flush=True)
        return plain(self)

    ProcessPool.await_zygote = announced  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    sys.exit(main())
