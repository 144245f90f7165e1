"""What a user of the service waits for: to submit, to start, to list, and a thousand short jobs.

A service of a temporary home runs with the agent of this machine, and two of its devices. Each
answer is on disk before it is given. *Client*: the command ``warren submit`` as a process of its
own, beside a bare interpreter. *Socket*: the same request from a process that is there. *Start*:
from the request to the moment at which the command runs, on an idle service. *Thousand*: an array
of 1,000 jobs ``true``, from the request to the last end. *List*: ``warren queue`` of 1,000 jobs
beside one of none. *Idle*: memory and processor time of the daemon after all that.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from _ranges import report

from warren.serve.client.client import Client, quoted
from warren.serve.client.errors import ServiceError

CALLS: Final = 40
REQUESTS: Final = 200
STARTS: Final = 20
JOBS: Final = 1_000
DEVICES: Final = 2
IDLE_S: Final = 20.0
PATIENCE_S: Final = 60.0
TICKS: Final = os.sysconf("SC_CLK_TCK")


class Taken(NamedTuple):
    """Median time of a command, by the clock and by its processor."""

    wall_ms: float
    cpu_ms: float


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    with tempfile.TemporaryDirectory() as folder, service(Path(folder) / "home") as (server, pid):
        with Client(server) as client:
            keep_two_devices(client)
            figures = {
                **calls(server),
                "service_submit_socket_ms": socket_ms(client),
                "service_start_ms": start_ms(client),
                "service_1000_jobs_s": thousand_s(client),
                "service_list_1000_ms": list_ms(server),
            }
        figures.update(idle(pid))
    report(figures)


@contextmanager
def service(home: Path) -> Iterator[tuple[str, int]]:
    """Run ``warren serve`` until the block ends; yields its address and its process."""
    words = [sys.executable, "-m", "warren", "serve", "--home", str(home)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        with Client(str(home / "socket")) as client:
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                try:
                    if client.ask("GET", "/v1/hosts"):
                        break
                except ServiceError:
                    time.sleep(0.05)
        yield str(home / "socket"), process.pid
    finally:
        process.terminate()
        process.wait()


def keep_two_devices(client: Client) -> None:
    """Let jobs start on two devices only, however many this machine has."""
    (host,) = client.ask("GET", "/v1/hosts")
    for device in host["devices"][DEVICES:]:
        client.ask("POST", f"/v1/hosts/{quoted(host['name'])}/drain", {"device": device["id"]})


def taken(words: Sequence[str]) -> Taken:
    """Run a command ``CALLS`` times."""
    walls, cpus = [], []
    for _ in range(CALLS):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        walls.append(time.perf_counter() - begin)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Taken(1e3 * median(walls), 1e3 * median(cpus))


def command(server: str, *words: str) -> list[str]:
    """Return the words of the installed command."""
    return [str(Path(sys.executable).with_name("warren")), words[0], "--server", server, *words[1:]]


def calls(server: str) -> dict[str, float]:
    """Time ``warren submit``; held jobs, so that none runs meanwhile."""
    bare = taken([sys.executable, "-c", "pass"])
    submit = taken(command(server, "submit", "--hold", "--", "true"))
    print(f"python -c pass: {bare.wall_ms:.1f} ms, {bare.cpu_ms:.1f} ms of a processor")
    return {
        "service_submit_cli_ms": submit.wall_ms,
        "service_submit_cli_cpu_ms": submit.cpu_ms,
        "service_submit_cli_over_python": submit.cpu_ms / bare.cpu_ms,
    }


def socket_ms(client: Client) -> float:
    """Time a submission of a process that is connected."""
    times = []
    for _ in range(REQUESTS):
        begin = time.perf_counter()
        client.submit(["true"], held=True)
        times.append(time.perf_counter() - begin)
    return 1e3 * median(times)


def start_ms(client: Client) -> float:
    """Time from a submission to the start of its command."""
    times = []
    for _ in range(STARTS):
        begin_s = time.time()
        shown = client.wait(client.submit(["true"]))
        times.append(shown["started_s"] - begin_s)
    return 1e3 * median(times)


def thousand_s(client: Client) -> float:
    """Time 1,000 jobs ``true``, from their submission to the last end."""
    begin = time.perf_counter()
    array = client.submit(["true"], array=(1, JOBS))
    for row in client.queue(array=array):
        assert client.wait(row["id"])["state"] == "finished"
    return time.perf_counter() - begin


def list_ms(server: str) -> float:
    """Time the list of 1,000 jobs beyond that of none."""
    none = taken(command(server, "queue", "--user", "none", "--all"))
    full = taken(command(server, "queue", "--all", "--limit", str(JOBS)))
    return full.wall_ms - none.wall_ms


def idle(pid: int) -> dict[str, float]:
    """Look at the daemon while nothing is asked of it."""
    begin = processor_s(pid)
    time.sleep(IDLE_S)
    share = (processor_s(pid) - begin) / IDLE_S
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    pss_kb = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return {"service_idle_mb": pss_kb / 1e3, "service_idle_percent": 100 * share}


def processor_s(pid: int) -> float:
    """Return the processor time that a process has had, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    main()
