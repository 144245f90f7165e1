"""Nothing is lost: daemon and agents are killed while jobs come, run, end and are cancelled.

Each run has a service of its own. Jobs are submitted and cancelled by clients; meanwhile the daemon
and the agent get SIGKILL, or stand still for a while, at random moments, and the daemon is started
again. With ``--full-disk`` the disk of the service is also full for a while, now and then (as root:
it is a small file system in memory). A job writes a line into one file when it starts and when it
ends. Counted are

- lost: jobs that were answered, and are not known or have not ended;
- twice: attempts that started more than once, or jobs that ran again although they had not failed;
- harmed: jobs that were not cancelled, and did not end with the exit code of their command;
- at once: times at which more jobs ran than there are devices;
- left: processes of jobs, and runners, after the end.

    python experiments/service_kills.py [--runs 200] [--seconds 3] [--seed 0] [--full-disk]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from _common import save
from _service import Service, running, until

from warren.model.errors import WarrenError

SCRIPT = (
    'echo "start $WARREN_ATTEMPT_ID" >> $MARK; sleep $1; echo "end $WARREN_ATTEMPT_ID" >> $MARK; '
    "exit $2"
)
DISK_BYTES = 6 << 20
"""Size of the small disk in bytes."""
COUNTS = ("lost", "twice", "harmed", "at_once", "left")


class Run:
    """One run: what was answered, and what happened."""

    def __init__(self, service: Service, marks: Path, seed: int, small_disk: bool) -> None:
        self.service, self.marks, self.random = service, marks, random.Random(seed)
        self.small_disk = small_disk
        self.answered: dict[str, int] = {}
        self.cancelled: set[str] = set()
        self.kills: Counter[str] = Counter()
        self.over = False

    def ask(self, request: Callable[[Any], Any]) -> Any:
        """Ask the service; None if it did not answer, as when it is killed meanwhile."""
        try:
            with self.service.client() as client:
                return request(client)
        except (WarrenError, OSError):
            return None

    def clients(self) -> None:
        """Submit and cancel jobs until the run is over."""
        while not self.over:
            if self.random.random() < 0.8 or not self.answered:
                seconds = self.random.choice(["0", "0.05", "0.2", "0.6"])
                code = self.random.choice([0, 0, 7])
                command = ["sh", "-c", SCRIPT, "job", seconds, str(code)]
                environment = {"PATH": os.environ["PATH"], "MARK": str(self.marks)}
                job = self.ask(
                    lambda client, command=command, environment=environment: client.submit(
                        command, folder="/", environment=environment, grace_s=0.5
                    )
                )
                if job is not None:
                    self.answered[job] = code
            else:
                job = self.random.choice(list(self.answered))
                self.cancelled.add(job)  # an unanswered cancel may count
                self.ask(lambda client, job=job: client.cancel(job))
            time.sleep(self.random.expovariate(20))

    def strikes(self, seconds: float) -> None:
        """Kill and stop daemon and agents at random moments."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            time.sleep(self.random.uniform(0.0, 0.8))
            kinds = ["daemon", "agent", "both", "stop"]
            kind = self.random.choice([*kinds, "disk"] if self.small_disk else kinds)
            self.kills[kind] += 1
            agents = self.service.agents()
            if kind == "stop":
                assert self.service.process is not None
                stopped = self.random.choice([agents, [*agents, self.service.process.pid]])
                send(stopped, signal.SIGSTOP)
                time.sleep(self.random.uniform(0.05, 0.5))
                send(stopped, signal.SIGCONT)
            elif kind == "disk":
                self.fill_disk()
            else:
                if kind in ("agent", "both"):
                    send(agents, signal.SIGKILL)
                if kind in ("daemon", "both"):
                    self.service.kill()
                    time.sleep(self.random.uniform(0.0, 0.5))
                    self.service.start()

    def fill_disk(self) -> None:
        """Let the disk be full for a while."""
        filler = self.service.home.parent / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(b"x" * 4096)
                file.flush()
        time.sleep(self.random.uniform(0.1, 0.6))
        filler.unlink()

    def counts(self) -> dict[str, int]:
        """Wait for the end of all jobs, and count what went wrong."""

        def rows() -> dict[str, dict[str, Any]]:
            return {row["id"]: row for row in self.ask(lambda client: client.queue()) or ()}

        def all_ended() -> bool:
            known = rows()
            return bool(known) and all(
                row["state"] in ("finished", "failed", "cancelled") for row in known.values()
            )

        with contextlib.suppress(AssertionError):
            until(all_ended, "jobs have not ended")
        known = rows()
        lines = self.marks.read_text().split("\n")[:-1] if self.marks.exists() else []
        started = Counter(line[6:] for line in lines if line.startswith("start "))
        harmed = []
        lost = [
            job
            for job in self.answered
            if job not in known or known[job]["state"] not in ("finished", "failed", "cancelled")
        ]
        for job, code in self.answered.items():
            if job in self.cancelled or job in lost:
                continue
            shown = self.ask(lambda client, job=job: client.show(job))
            if shown["exit_code"] != code:
                harmed.append(f"{job}: {shown['state']}, {shown['exit_code']}, {shown['reason']}")
        again = Counter(attempt.rpartition(".")[0] for attempt in started)
        twice = [name for name, times in started.items() if times > 1]
        twice += [job for job, times in again.items() if times > 1]
        with contextlib.suppress(AssertionError):
            until(lambda: not self.service.left(), "left", 10.0)
        left = self.service.left()
        for what, names in (("lost", lost), ("twice", twice), ("harmed", harmed), ("left", left)):
            if names:
                print(f"  {what}: {names[:5]}", flush=True)
        return {
            "lost": len(lost),
            "twice": len(twice),
            "harmed": len(harmed),
            "at_once": int(most_at_once(lines) > len(os.sched_getaffinity(0))),
            "left": len(left),
        }


def most_at_once(lines: list[str]) -> int:
    """The most jobs at once. A cancelled job has no end: it counts until another starts."""
    ended = {line[4:] for line in lines if line.startswith("end ")}
    now = most = 0
    for line in lines:
        word, _, attempt = line.partition(" ")
        if word == "start" and attempt in ended:
            now += 1
            most = max(most, now)
        elif word == "end":
            now -= 1
    return most


def send(pids: list[int], signum: int) -> None:
    """Send a signal to processes that may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


@contextlib.contextmanager
def disk(small: bool) -> Iterator[Path]:
    """A folder for a run, on a small disk or not."""
    folder = Path(tempfile.mkdtemp(prefix="warren-kills-"))
    if small:
        options = f"size={DISK_BYTES}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
    try:
        yield folder
    finally:
        if small:
            subprocess.run(["umount", "-l", folder], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def run_once(seed: int, seconds: float, small_disk: bool) -> tuple[dict[str, int], Run]:
    """Run a service through its kills, and count what went wrong."""
    marks = Path(tempfile.mkdtemp(prefix="warren-marks-")) / "marks"
    with disk(small_disk) as folder, running(folder / "home") as service:
        run = Run(service, marks, seed, small_disk)
        clients = threading.Thread(target=run.clients)
        clients.start()
        try:
            run.strikes(seconds)
        finally:
            run.over = True
            clients.join()
        counts = run.counts()
    shutil.rmtree(marks.parent)
    return counts, run


def main() -> None:
    """Run, count, and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full-disk", action="store_true")
    given = parser.parse_args()
    total: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
    kills: Counter[str] = Counter()
    jobs = runs = 0
    with contextlib.suppress(KeyboardInterrupt):  # what was counted until then is saved
        for seed in range(given.seed, given.seed + given.runs):
            counts, run = run_once(seed, given.seconds, given.full_disk)
            total.update(counts)
            kills.update(run.kills)
            jobs += len(run.answered)
            runs += 1
            text = ", ".join(f"{name} {total[name]}" for name in COUNTS)
            print(f"{runs} runs, {jobs} jobs, {kills.total()} kills: {text}", flush=True)
    name = "service_kills_full_disk" if given.full_disk else "service_kills"
    rows = {"runs": runs, "jobs": jobs, "kills": dict(kills), **total}
    save(name, given.seed, {"seconds": given.seconds, **rows})


if __name__ == "__main__":
    main()
