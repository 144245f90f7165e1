"""What a service bears: the load test of another queue, many starts a second, and a long queue.

All of it is asked of ``warren serve`` itself, in a process of its own, by HTTP, with its journal on
disk and a sync of the disk before each answer. Its hosts are fake: they start no process, and a
command lasts as long as its job says, in real time.

*Kueue's baseline* (test/performance/scheduler/configs/baseline of kubernetes-sigs/kueue): 15,000
jobs in 30 queues of 5 cohorts, 39,600 device seconds on 600 devices, so 66 s at least; Kueue's own
continuous integration measured 351 s. A queue is a user with a token here, a cohort a host of 120
devices. Jobs come as there: per queue 350 of 1 device and 0.2 s every 0.1 s, 100 of 5 devices and
0.5 s every 0.5 s, 50 of 20 devices and 1 s every 1.2 s, at priorities 50, 100 and 200.

*Starts*: 10,000 jobs of no duration wait for 8 devices that are then undrained.

*Long queue*: 50,000 jobs wait, each with an environment of 30 variables; then single ones come,
while 8 devices are busy with jobs of 0.1 s.

*Idle*: the service with the agent of this machine, and no job.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from _ranges import median_s, report

from warren.model.units import NS_PER_S
from warren.serve.client.client import Client
from warren.serve.daemon.service import JOURNAL, run_service
from warren.serve.hosts.fake import FakeHosts, Played, fake_machine
from warren.serve.hosts.port import StartOrder
from warren.serve.hosts.tls import credentials
from warren.serve.journal.journal import Journal
from warren.serve.records.events import AttemptBegun, JobEnded, JobSubmitted

COHORTS: Final = 5
QUEUES: Final = 6
COHORT_DEVICES: Final = 120
KINDS: Final = {
    "small": (350, 0.1, 0.2, 50, 1),
    "medium": (100, 0.5, 0.5, 100, 5),
    "large": (50, 1.2, 1.0, 200, 20),
}
"""Jobs of a queue; seconds between two, seconds that one runs, priority, devices."""
STARTS: Final = 10_000
LONG: Final = 50_000
SINGLE: Final = 1_000
IDLE_S: Final = 20.0
PLAYED: Final = "PLAYED_S"
SERVE: Final = "--serve"


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    wanted = sys.argv[1:] or ["kueue", "starts", "long", "idle"]
    figures: dict[str, float] = {}
    for name in wanted:
        figures.update({"kueue": kueue, "starts": starts, "long": long, "idle": idle}[name]())
    report(figures)


def kueue() -> dict[str, float]:
    """Kueue's baseline: how long all jobs take, and how long each kind waits."""
    with service(*(f"cohort-{i}:{COHORT_DEVICES}" for i in range(COHORTS))) as at:
        clients = at.users([f"queue-{i}" for i in range(COHORTS * QUEUES)])
        plan = sorted(
            (index * every_s, kind, number)
            for kind, (count, every_s, *_) in KINDS.items()
            for index in range(count)
            for number in range(len(clients))
        )
        begun, late_s = time.monotonic(), 0.0
        for at_s, kind, number in plan:
            wait_s = begun + at_s - time.monotonic()
            late_s = max(late_s, -wait_s)
            time.sleep(max(0.0, wait_s))
            submit_kueue(clients[number], kind, number)
        at.until_ended(len(plan))
        used_s, memory = at.processor_s(), at.memory_bytes()
        waits, spans_s, makespan_s = at.waits()
    for kind, seconds in waits.items():
        print(f"kueue: {kind}: {len(seconds)} jobs waited {fmean(seconds):.2f} s in the mean")
    print(
        f"kueue: {len(plan)} jobs in {makespan_s:.1f} s; submissions late by at most {late_s:.2f} s"
        f"; most starts in a second {spans_s}; processor {used_s:.1f} s, {memory / 1e6:.0f} MB"
    )
    return {"kueue_baseline_s": makespan_s, "kueue_large_wait_s": fmean(waits["large"])}


def submit_kueue(client: Client, kind: str, number: int) -> None:
    """Submit a job of a queue."""
    _, _, runs_s, priority, devices = KINDS[kind]
    spec = job_of(runs_s) | {
        "name": kind,
        "devices": devices,
        "priority": priority,
        "host": f"cohort-{number // QUEUES}",
    }
    client.ask("POST", "/v1/jobs", {"spec": spec})


def starts() -> dict[str, float]:
    """Starts a second where nothing else limits them."""
    with service("h:8") as at:
        client = at.client()
        client.ask("POST", "/v1/hosts/h/drain", {"reason": "until all have come"})
        submit_many(client, STARTS, job_of(0.0))
        client.ask("POST", "/v1/hosts/h/undrain", {})
        at.until_ended(STARTS)
        with Journal(at.home / JOURNAL, read_only=True) as journal:
            begun = [e.time_ns for e in journal.events() if isinstance(e, AttemptBegun)]
    seconds = (max(begun) - min(begun)) / NS_PER_S
    print(f"starts: {len(begun)} in {seconds:.2f} s on 8 devices")
    return {"service_starts_per_s": len(begun) / seconds}


def long() -> dict[str, float]:
    """A long queue: what listing it, submitting to it and holding it cost."""
    with service("h:8") as at:
        client = at.client()
        spec = job_of(0.1)
        spec["environment"] |= {f"VARIABLE_{i}": f"/folder/of/a/user/{i}" for i in range(30)}
        submit_many(client, LONG, spec)
        taken_s = []
        for _ in range(SINGLE):
            begun = time.perf_counter()
            client.ask("POST", "/v1/jobs", {"spec": spec})
            taken_s.append(time.perf_counter() - begun)
        taken_s.sort()
        listing_s = median_s(lambda: client.ask("GET", "/v1/jobs?state=queued"))
        command = [sys.executable, "-m", "warren", "queue", "--server", at.server]
        command_s = median_s(lambda: subprocess.run(command, capture_output=True, check=True))
        command.append("--json")
        json_s = median_s(lambda: subprocess.run(command, capture_output=True, check=True))
        memory = at.memory_bytes()
        ran = at.ended()
    middle_ms, p99_ms = 1000 * taken_s[SINGLE // 2], 1000 * taken_s[SINGLE * 99 // 100]
    print(
        f"long: submit {middle_ms:.1f} ms, p99 {p99_ms:.1f} ms, most {1000 * taken_s[-1]:.0f} ms; "
        f"listing {listing_s:.2f} s, `warren queue` {command_s:.2f} s, with --json {json_s:.2f} s; "
        f"{memory / 1e6:.0f} MB; "
        f"{ran} jobs ran meanwhile"
    )
    return {
        "service_long_submit_ms": middle_ms,
        "service_long_submit_p99_ms": p99_ms,
        "service_long_listing_s": listing_s,
        "service_long_queue_command_s": command_s,
        "service_long_queue_json_s": json_s,
        "service_long_memory_bytes": memory,
    }


def idle() -> dict[str, float]:
    """An idle service with its agent: memory, and share of a core."""
    with service() as at:
        time.sleep(3)
        before_s = at.processor_s()
        time.sleep(IDLE_S)
        share = (at.processor_s() - before_s) / IDLE_S
        memory = at.memory_bytes()
    print(f"idle: {memory / 1e6:.1f} MB, {100 * share:.2f} % of a core")
    return {"service_idle_memory_bytes": memory, "service_idle_cores": share}


def job_of(runs_s: float) -> dict[str, Any]:
    """A job that plays a command of this duration."""
    return {"command": ["true"], "folder": "/", "environment": {PLAYED: str(runs_s)}}


def submit_many(client: Client, count: int, spec: dict[str, Any]) -> None:
    """Submit equal jobs, 1,000 a request."""
    for done in range(0, count, 1000):
        part = [{"spec": spec}] * min(1000, count - done)
        client.ask("POST", "/v1/jobs", part)


@contextmanager
def service(*hosts: str) -> Iterator[Running]:
    """A service with fake hosts, each named with its number of devices; without, its own agent."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        process = subprocess.Popen([sys.executable, __file__, SERVE, str(home), str(port), *hosts])
        try:
            while not (home / "socket").exists():
                time.sleep(0.05)
            at = Running(home, process, port)
            while len(at.client().ask("GET", "/v1/hosts")) < max(1, len(hosts)):
                time.sleep(0.05)
            yield at
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def serve(home: str, port: str, *hosts: str) -> None:
    """Run the service of this process."""
    fake = None
    if hosts:
        machines = [fake_machine(name, int(count)) for name, count in (h.split(":") for h in hosts)]
        fake = FakeHosts(machines, played)
    listen = f"127.0.0.1:{port}" if hosts else None
    run_service(Path(home), listen=listen, hosts=fake, say=lambda _: None)


def played(order: StartOrder) -> Played:
    """What the command of a job does."""
    return Played(float(order.environment[PLAYED]))


class Running:
    """A service that runs in a process of its own."""

    def __init__(self, home: Path, process: subprocess.Popen[bytes], port: int) -> None:
        self.home, self.process, self.port = home, process, port
        self.server = str(home / "socket")

    def client(self) -> Client:
        """A client by the socket."""
        return Client(self.server)

    def users(self, names: list[str]) -> list[Client]:
        """Add users; return a client by TLS for each."""
        pin = credentials(self.home / "tls").fingerprint
        admin = self.client()
        found = []
        for name in names:
            token = admin.ask("PUT", f"/v1/users/{name}", {})["token"]
            client = Client(f"https://127.0.0.1:{self.port}#sha256={pin}", token)
            client.ask("GET", "/v1/service")  # its token is known from now on
            found.append(client)
        return found

    def ended(self) -> int:
        """Jobs that have ended."""
        with Journal(self.home / JOURNAL, read_only=True) as journal:
            (count,) = journal._db.execute(
                "SELECT count(*) FROM events WHERE kind = 'done'"
            ).fetchone()
        return int(count)

    def until_ended(self, jobs: int) -> None:
        """Wait until this number of jobs have ended."""
        while self.ended() < jobs:
            time.sleep(0.25)

    def waits(self) -> tuple[dict[str, list[float]], int, float]:
        """Waits of jobs in seconds by name, most starts in a second, and seconds of all."""
        submitted: dict[str, JobSubmitted] = {}
        waits: dict[str, list[float]] = {}
        seconds: dict[int, int] = {}
        ends = []
        with Journal(self.home / JOURNAL, read_only=True) as journal:
            for event in journal.events():
                if isinstance(event, JobSubmitted):
                    submitted[event.job] = event
                elif isinstance(event, AttemptBegun):
                    came = submitted[event.job]
                    wait_s = (event.time_ns - came.time_ns) / NS_PER_S
                    waits.setdefault(came.spec.name, []).append(wait_s)
                    second = event.time_ns // NS_PER_S
                    seconds[second] = seconds.get(second, 0) + 1
                elif isinstance(event, JobEnded):
                    ends.append(event.time_ns)
        first = min(one.time_ns for one in submitted.values())
        return waits, max(seconds.values()), (max(ends) - first) / NS_PER_S

    def processor_s(self) -> float:
        """Processor time of the service and its agent in seconds."""
        return sum(ticks(pid) for pid in self._pids()) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Memory of the service and its agent, shared pages by their share."""
        return sum(pss_bytes(pid) for pid in self._pids())

    def _pids(self) -> list[int]:
        pid = self.process.pid
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, below)]


def ticks(pid: int) -> int:
    """Processor time of a process in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def pss_bytes(pid: int) -> int:
    """Proportional memory of a process in bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    serve(*sys.argv[2:]) if sys.argv[1:2] == [SERVE] else main()
