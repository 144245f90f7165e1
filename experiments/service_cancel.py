"""Cancel is death: how often nothing is left of a command that is hard to end.

The command ignores SIGTERM, has a child, and a daemon of two forks in a session of its own that
holds a port. Each is cancelled through the service. All its processes must be gone, and the port
free, within the grace and one second. It is done as the machine allows (cgroups) and by the runners
alone.

    python experiments/service_cancel.py [--count 100]
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _common import ROOT, save
from _service import Service, running, until

GRACE_S = 0.3
"""Seconds between SIGTERM and SIGKILL."""
LATE_S = 1.0
"""Seconds after the grace in which all must be gone."""
NASTY = ROOT / "tests" / "serve" / "nasty.py"


def cancel_once(service: Service, folder: Path) -> float:
    """Start the command and cancel it; returns the seconds until nothing was left of it."""
    pids, port = folder / "pids", folder / "port"
    with service.client() as client:
        job = client.submit(
            [sys.executable, str(NASTY), str(pids), str(port)],
            folder=str(folder),
            environment={"PATH": os.environ["PATH"]},
            grace_s=GRACE_S,
        )
        until(lambda: port.exists() and port.read_text().endswith("\n"), "the command hangs")
        known = [int(word) for word in pids.read_text().split()]
        assert len(known) == 3, known
        begun = time.monotonic()
        client.cancel(job)
        until(lambda: not any(map(lives, known)), "its processes live on")
        until(lambda: is_free(int(port.read_text())), "its port is held")
        took_s = time.monotonic() - begun
        shown = client.wait(job)
        assert shown["state"] == "cancelled", shown
    pids.unlink()
    port.unlink()
    return took_s


def lives(pid: int) -> bool:
    """Tell whether a process runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def is_free(port: int) -> bool:
    """Tell whether a port can be listened to."""
    with socket.socket() as end:
        try:
            end.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def cancel_many(count: int, cgroups: str) -> dict[str, Any]:
    """Cancel the command ``count`` times."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        with running(home, {"WARREN_CGROUPS": cgroups}) as service:
            until(lambda: bool(service.agents()), "there is no agent")
            times = [cancel_once(service, Path(folder)) for _ in range(count)]
            until(lambda: not service.left(), f"left behind: {service.left()}")
    in_time = sum(took <= GRACE_S + LATE_S for took in times)
    print(f"cgroups {cgroups}: {in_time} of {count} gone within the grace and {LATE_S:g} s; "
          f"slowest {max(times):.2f} s")  # fmt: skip
    return {
        "cgroups": cgroups,
        "cancelled": count,
        "gone_in_time": in_time,
        "slowest_s": round(max(times), 3),
        "median_s": round(sorted(times)[count // 2], 3),
    }


def main() -> None:
    """Cancel, count, and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    count = parser.parse_args().count
    rows = [cancel_many(count, cgroups) for cgroups in ("on", "off")]
    save("service_cancel", 0, {"grace_s": GRACE_S, "rows": rows})


if __name__ == "__main__":
    main()
