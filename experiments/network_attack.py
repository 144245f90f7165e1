"""Somebody without the run's secret at every port of a testbed's hosts, for a minute.

Needs root. All example apps of ``spine/faults.yaml`` on four hosts with leases, 12 times as slow
as elsewhere so that they last; on a fifth host of the same network somebody connects to every port
where anything of the run listens, says nothing, half a handshake, noise, frames and records that
are too long, and what a host's connections have sent when the run began; see ``_attacker.py``. The
same run once more, left alone. A run is wrong if a job has not the parameters of ``engine: plain``,
or ``warren report --check`` finds a fault.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import _common
from _rights import cannot
from host_faults import HOSTS, LEASE_S, RUN, differing, hashes_of, ran

from warren.live.testbed import names
from warren.live.testbed.orphans import processes

BED: Final = "network-attack"
ATTACK_S: Final = 60.0
RECORD_S: Final = 15.0
SEED: Final = 1
ATTACKER: Final = Path(__file__).parent / "_attacker.py"


def main() -> None:
    """Make the hosts, run twice, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    if reason := cannot("ip"):
        print(f"skipped: {reason}")
        return
    scratch = Path(tempfile.mkdtemp(prefix="warren-network-attack-"))
    _common.warren_json(
        *("testbed", "up", "--hosts", "5", "--link", "1Gbit", "--name", BED, "--no-measure")
    )
    try:
        oracle = hashes_of(ran(scratch / "plain", ("--set", "cluster.engine=plain")))
        rows = [one(scratch, oracle, attacked=attacked) for attacked in (False, True)]
    finally:
        _common.warren("testbed", "down", "--name", BED)
    for row in rows:
        print(row)
    _common.save("network_attack", SEED, {"rows": rows})
    shutil.rmtree(scratch)


def one(scratch: Path, oracle: Any, *, attacked: bool) -> dict[str, Any]:
    """A run, attacked or left alone: what came of it, and the memory of its processes."""
    out = scratch / f"run-{attacked}"
    options = ("--set", f"cluster.local.testbed={BED}", "--set", f"cluster.hosts={HOSTS}")
    options += ("--set", f"cluster.local.lease={LEASE_S} s")
    options += ("--set", "cluster.emulate.time_scale=2.5")
    command = [sys.executable, "-m", "warren", "run", "--no-history", str(RUN), "--out", str(out)]
    begin = time.monotonic()
    with (scratch / "err").open("w") as errors:
        run = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=errors)
    places, recorded = scratch / "places.json", scratch / "recorded.json"
    over = threading.Event()
    looks = threading.Thread(target=look, args=(places, over))
    looks.start()
    inside = ["ip", "netns", "exec"]
    told: dict[str, Any] = {}
    strangers = []
    if attacked:
        records = [sys.executable, str(ATTACKER), "record", str(recorded), str(RECORD_S)]
        strangers.append(subprocess.Popen([*inside, names.namespace(BED, 1), *records]))
        attacks = [sys.executable, str(ATTACKER), "attack", str(places), str(recorded)]
        attacks += [str(ATTACK_S), str(SEED)]
        strangers.append(
            subprocess.Popen(
                [*inside, names.namespace(BED, 4), *attacks], stdout=subprocess.PIPE, text=True
            )
        )
    memory: list[dict[str, int]] = []
    while run.poll() is None:
        memory.append(kilobytes(run.pid))
        time.sleep(1.0)
    over.set()
    looks.join()
    if attacked:
        strangers[0].kill()
        text, _ = strangers[1].communicate(timeout=ATTACK_S + 30)
        told = json.loads(text)
    found = json.loads((out / "summary.json").read_text())
    return {
        "attacked": attacked, "wall_s": round(time.monotonic() - begin, 1), **told,
        "replayed": len(json.loads(recorded.read_text())) if recorded.exists() else 0,
        "jct_s": found["mean_jct_s"], "strangers": found["strangers"],
        "memory": memory, "wrong": differing(oracle, out),
    }  # fmt: skip


def look(places: Path, over: threading.Event) -> None:
    """Write down, again and again, where anything listens in the four hosts."""
    while not over.is_set():
        found = []
        for host in range(4):
            command = ["ip", "netns", "exec", names.namespace(BED, host), "ss", "-Hltn"]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            for line in text.splitlines():
                address, _, to = line.split()[3].rpartition(":")
                found += [[address, int(to)]] if address.startswith("10.") else []
        part = places.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.rename(places)
        over.wait(0.5)


def kilobytes(controller: int) -> dict[str, int]:
    """Resident memory that is not shared, by kind of process, in kB."""
    found: defaultdict[str, int] = defaultdict(int)
    inside = [pid for host in range(4) for pid in processes([names.namespace(BED, host)])]
    for pid in {controller, *inside}:
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # it has ended
        own = sum(int(row.split()[1]) for row in rows if row.startswith("Private"))
        kind = re.sub(r"-[0-9-]*$", "", name.split(":")[0])
        found["controller" if pid == controller else kind] += own
    return dict(found)


if __name__ == "__main__":
    main()
