"""Kill processes that write to a history database, at any moment, and look for what they had done.

200 times: two writers append to one database at once, each transaction a run with three jobs and
the profile of their kind of task, and say so on a pipe when it is acknowledged. At a drawn moment
of their first 80 ms, or every other time of the 80 ms after the first has acknowledged one, one
writer gets SIGKILL, a little later the other. Every eighth time they begin with no file, so that
its making is struck too. Then the database has to open, SQLite has to find it
whole, every transaction that was acknowledged has to be there, and none by halves.

``--kills N`` strikes fewer times and saves nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import _common

from warren.model.cluster import PROCESSOR
from warren.model.history_rows import EndedJob, LiveRun, Profile
from warren.profile.averages import TaskAverages, blank, with_taken
from warren.profile.measured import TaskKind
from warren.store.history_database import Database

KILLS: Final = 200
SEED: Final = 1
WITHIN_S: Final = 0.08
NEW_EVERY: Final = 8
JOBS: Final = 3
_WORD: Final = 8


class Writer(NamedTuple):
    """A process that writes; ``heard`` is the end of the pipe where it acknowledges."""

    pid: int
    heard: int


def main() -> None:
    """Strike, save, and stop with an error where something was lost or is there by halves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    kills = parser.parse_args().kills
    folder = Path(tempfile.mkdtemp(prefix="warren-history-"))
    bad: list[str] = []
    acknowledged, files = 0, 0
    draw = random.Random(SEED)
    begin_s = time.perf_counter()
    try:
        told: set[str] = set()
        for number in range(kills):
            if number % NEW_EVERY == 0:
                path, told, files = folder / f"{number}.db", set(), files + 1
            fresh = strike(path, number, draw)
            told |= fresh
            acknowledged += len(fresh)
            bad += [f"strike {number}: {fault}" for fault in faults(path, told)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    took_s = time.perf_counter() - begin_s
    print(f"{kills} strikes at {2 * kills} writers, {acknowledged} acknowledged, {len(bad)} faults")
    if kills == KILLS:
        content = {"strikes": kills, "writers": 2 * kills, "databases": files, "faults": bad}
        took = {"acknowledged": acknowledged, "took_s": round(took_s, 1)}
        _common.save("history_kill", SEED, content | took)
    if bad:
        sys.exit("\n".join(bad))


def strike(path: Path, number: int, draw: random.Random) -> set[str]:
    """Two writers at once, killed one after the other; gives what they had acknowledged."""
    writers = [start(path, f"{number}-{index}") for index in range(2)]
    told: set[str] = set()
    if number % 2:  # once there is something to lose, however long that takes on a busy machine
        select.select([writers[0].heard], [], [])
    for writer in writers:
        time.sleep(draw.uniform(0.0, WITHIN_S))
        os.kill(writer.pid, signal.SIGKILL)
        os.waitpid(writer.pid, 0)
    for index, writer in enumerate(writers):
        with os.fdopen(writer.heard, "rb") as pipe:
            words = pipe.read()
        told |= {f"{number}-{index}-{at}" for at in range(len(words) // _WORD)}
    return told


def start(path: Path, name: str) -> Writer:
    """Fork a writer that appends until it is killed."""
    heard, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(heard)
            write(path, name, says)
        finally:
            os._exit(1)  # not back into the program that it was forked from
    os.close(says)
    return Writer(pid, heard)


def write(path: Path, name: str, says: int) -> None:
    """Append transactions for ever, each acknowledged by one word on the pipe."""
    with Database(path) as database:
        count = 0
        while True:
            with database.transaction():
                known = [one for one in database.profiles() if one.device_type == PROCESSOR]
                database.put(entries(f"{name}-{count}", known))
            os.write(says, count.to_bytes(_WORD, "little"))
            count += 1


def entries(run: str, known: Iterable[Profile]) -> list[LiveRun | EndedJob | Profile]:
    """A run, its jobs, and one task more in the average of their kind."""
    kind = TaskKind(
        app="a.py:A",
        source_sha256="0" * 64,
        params="{}",
        batch=1,
        sync="ps",
        numerics="",
        machine="",
    )
    row = next(iter(known), None) or blank(kind, PROCESSOR, 0.0)
    jobs = [
        EndedJob(
            run=run, position=index, run_name=run, began_at=0.0, arrival_s=0.0, name=f"job-{index}",
            user="", group="", model=None, app="a.py:A", batch=1, scale=1, sync="ps", weight=1.0,
            rounds=1, status="finished", model_bytes=0, costs="{}", ended_at=0.0,
        )
        for index in range(JOBS)
    ]  # fmt: skip
    one_more = with_taken(row, [TaskAverages(tasks=1, comp_s=1.0, sync_s=None)], 0.0)
    return [LiveRun(id=run, name=run, began_at=0.0, until_ns=0), *jobs, one_more]


def faults(path: Path, told: set[str]) -> list[str]:
    """What is wrong with a database in which these runs were acknowledged."""
    with closing(sqlite3.connect(path)) as plain:
        verdict = plain.execute("PRAGMA integrity_check").fetchall()
    found = [] if verdict == [("ok",)] else [f"not whole: {verdict}"]
    with Database(path) as database:
        runs = {one.id for one in database.runs()}
        jobs = Counter(one.run for one in database.jobs())
        tasks = sum(one.avg_tasks for one in database.profiles())
    found += [f"{run} was acknowledged and is not there" for run in sorted(told - runs)]
    found += [f"{run} is there by halves" for run in sorted(runs) if jobs[run] != JOBS]
    if tasks != len(runs) or jobs.total() != JOBS * len(runs):
        found.append(f"{len(runs)} runs, but {jobs.total()} jobs and {tasks} tasks in the average")
    return found


if __name__ == "__main__":
    main()
