"""Hosts that are machines of their own, killed and cut off: same bits, and how long it takes.

Needs root and Ray. All example apps of ``spine/faults.yaml`` on four hosts of a testbed, under the
agents that the controller starts (``agents``) and under those that Ray carries (``ray``).
*calm*: in turns with ``local``, whose processes are in the same hosts and whose control goes by
paths; JCT and start. *faults*: one executor, agent, raylet or the controller is killed with
SIGKILL, or a host's link is taken down for so long, at a drawn moment; a run that ends by it is
resumed. A trial is wrong if a job has not the parameters of ``engine: plain``, ``warren report
--check`` finds a fault, or a process is left in a host. ``--trials`` of each kind; the results of
earlier calls are kept and added to.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import _common
from _rights import cannot

import warren
from warren.live.testbed import names
from warren.live.testbed.orphans import processes
from warren.live.testbed.ray_nodes import start_node
from warren.live.testbed.status import standing

RUN: Final = Path(__file__).parent / "spine" / "faults.yaml"
BED: Final = "host-faults"
HOSTS: Final = (
    "[{name: h0, devices: {V100: 1}, nic: 25 Gbps}, {name: h1, devices: {V100: 1}, nic: 25 Gbps}, "
    "{name: h2, devices: {T4: 1}, nic: 25 Gbps}, {name: h3, devices: {K80: 1}, nic: 25 Gbps}]"
)
SIXTEEN: Final = (
    "["
    + ", ".join(
        f"{{name: h{at}, devices: {{V100: 2, T4: 1, K80: 1}}, nic: 25 Gbps}}" for at in range(4)
    )
    + "]"
)
LEASE_S: Final = 10
CUTS_S: Final = (5, 20, 90)
END_S: Final = 240.0
LEFT_S: Final = 15.0
BACK_S: Final = 3.0
"""How long a node of Ray is away whose raylet has ended, but for its start."""
LOOKED_S: Final = 60.0
"""How long after a cut is looked whether the raylet has ended: Ray drops a node that was away."""
SEED: Final = 1


def main() -> None:
    """Make the hosts, run, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--kinds", help="Such as ray:executor,agents:cut-5; all if absent.")
    parser.add_argument("--calm", type=int, default=0, help="So many turns of calm runs, too.")
    parser.add_argument(
        "--starts", type=int, default=0, help="So many starts of 16 executors, too."
    )
    asked = parser.parse_args()
    if (reason := cannot("ip")) or importlib.util.find_spec("ray") is None:
        print(f"skipped: {reason or 'Ray is not installed'}")
        return
    kinds = asked.kinds.split(",") if asked.kinds else KINDS
    scratch = Path(tempfile.mkdtemp(prefix="warren-host-faults-"))
    up = _common.warren_json(
        *("testbed", "up", "--hosts", "4", "--link", "1Gbit", "--name", BED, "--no-measure"),
        *(("--ray",) if any(kind.startswith("ray") for kind in kinds) else ()),
    )
    try:
        engines = {
            "local": ("--set", f"cluster.local.testbed={BED}"),
            "agents": (
                *("--set", f"cluster.local.testbed={BED}"),
                *("--set", f"cluster.local.lease={LEASE_S} s"),
            ),
            "ray": (
                *("--set", f"cluster.local.testbed={BED}"),
                *("--set", f"cluster.local.lease={LEASE_S} s"),
                *("--set", f"cluster.engine={{ray: '{up.get('ray', '')}'}}"),
            ),
        }
        oracle = hashes_of(ran(scratch / "plain", ("--set", "cluster.engine=plain")))
        parts = _common.earlier("host_faults")
        if asked.calm:
            parts["calm"] = calm(scratch, engines, oracle, asked.calm)
            _common.save("host_faults", SEED, {"parts": parts})
        if asked.starts:
            rows = [
                {"engine": name, "start_s": started_s(scratch / "start", engines[name])}
                for _ in range(asked.starts)
                for name in engines
            ]
            print(rows, flush=True)
            parts["starts"] = {"made_by": _common.made_by(), "rows": rows}
            _common.save("host_faults", SEED, {"parts": parts})
        for kind in kinds if asked.trials else ():
            rows = parts.get(kind, {"rows": []})["rows"]
            for trial in range(len(rows), len(rows) + asked.trials):
                rows.append(struck(scratch / "run", engines[kind.split(":")[0]], kind, trial))
                rows[-1]["wrong"] += differing(oracle, scratch / "run")
                rows[-1]["commit"] = _common.made_by()["commit"]
                print(kind, trial, rows[-1], flush=True)
                parts[kind] = {"made_by": _common.made_by(), "rows": rows}
                _common.save("host_faults", SEED, {"parts": parts})
                if rows[-1]["wrong"]:
                    shutil.copytree(scratch / "run", scratch / f"wrong-{kind}-{trial}")
    finally:
        _common.warren("testbed", "down", "--name", BED)
    if not list(scratch.glob("wrong-*")):
        shutil.rmtree(scratch)


def calm(scratch: Path, engines: Any, oracle: Any, turns: int) -> dict[str, Any]:
    """Runs without a fault, in turns."""
    rows = []
    for turn in range(turns):
        for name, options in engines.items():
            if (name == "ray" and not options[-1].endswith("'}")) or "''" in options[-1]:
                continue
            begin = time.monotonic()
            out = ran(scratch / f"calm-{name}", options)
            record = json.loads((out / "summary.json").read_text())
            row = {"engine": name, "turn": turn, "jct_s": record["mean_jct_s"]}
            row |= {"wall_s": time.monotonic() - begin, "wrong": differing(oracle, out)}
            print(row, flush=True)
            rows.append(row)
    return {"made_by": _common.made_by(), "rows": rows}


def started_s(out: Path, options: tuple[str, ...]) -> float:
    """How long after the command began 16 executors were there, four on each host.

    Time zero comes later: by then 112 trainers have built their apps.
    """
    shutil.rmtree(out, ignore_errors=True)
    begin = time.monotonic()
    command = [sys.executable, "-m", "warren", "run", "--no-history", str(RUN), "--out", str(out)]
    process = started([*command, "--set", f"cluster.hosts={SIXTEEN}", *options], out)
    while sum(named(pid).startswith("warren-exec") for pid in in_hosts()) < 16:
        if process.poll() is not None or time.monotonic() - begin > END_S:
            raise SystemExit(out.with_suffix(".err").read_text()[-1000:])
        time.sleep(0.02)
    took_s = time.monotonic() - begin
    process.send_signal(signal.SIGINT)
    process.wait(END_S)
    return round(took_s, 2)


def ran(out: Path, options: tuple[str, ...]) -> Path:
    """A run to its end."""
    shutil.rmtree(out, ignore_errors=True)
    done = _common.warren("run", str(RUN), "--out", str(out), *hosts_of(options), *options)
    if done.returncode:
        print(done.stderr[-3000:], flush=True)
    return out


def hosts_of(options: tuple[str, ...]) -> tuple[str, ...]:
    """The option of the hosts; the plain engine keeps those of the file."""
    return () if "cluster.engine=plain" in options else ("--set", f"cluster.hosts={HOSTS}")


def struck(out: Path, options: tuple[str, ...], kind: str, trial: int) -> dict[str, Any]:
    """One run with a fault, resumed if it ends by that."""
    draw = random.Random(f"{SEED} {kind} {trial}")
    shutil.rmtree(out, ignore_errors=True)
    what = kind.split(":")[1]
    begin = time.monotonic()
    command = [sys.executable, "-m", "warren", "run", "--no-history"]
    arguments = [str(RUN), "--out", str(out), *hosts_of(options), *options]
    process = started([*command, *arguments], out)
    row: dict[str, Any] = {"trial": trial, "wrong": []}
    over = threading.Event()
    try:
        trains(process, out)
        time.sleep(draw.uniform(0.0, 5.0))
        row["at_s"] = round(time.monotonic() - begin, 2)
        if what == "controller":
            process.kill()
            row["victim"] = what
        else:
            row["victim"] = strike(what, over, draw)
        if row["victim"] == "none":
            row["wrong"].append("nobody was there to be struck")
        code = process.wait(END_S)
        if code and what == "controller":
            process = started([*command, "--resume", str(out)], out)
            code = process.wait(END_S)
        if code:
            row["wrong"].append(f"exit code {code}: {out.with_suffix('.err').read_text()[-600:]}")
    except subprocess.TimeoutExpired:
        row["wrong"].append(f"did not end in {END_S:g} s")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        over.set()
        for host in range(4):
            set_link(host, "up")
    row["wall_s"] = round(time.monotonic() - begin, 2)
    if (out / "summary.json").exists():
        found = json.loads((out / "summary.json").read_text())
        row["rolled_back"], row["refused"] = found["rollbacks"], found.get("stale_messages", 0)
    row["left"] = left()
    if kind.startswith("ray"):
        # The next trial has all nodes.
        for host in range(4):
            if not raylets(host):
                node_again(host)
    row["wrong"] += [f"left: {row['left']}"] if row["left"] else []
    return row


def started(command: list[str], out: Path) -> subprocess.Popen[bytes]:
    """A run in the background."""
    with out.with_suffix(".err").open("a") as errors:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)


def trains(process: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until some rounds are over."""
    while process.poll() is None:
        rows = [len(path.read_text().splitlines()) for path in (out / "metrics").glob("*.csv")]
        if sum(rows) > 20:
            return
        time.sleep(0.05)


def strike(what: str, over: threading.Event, draw: random.Random) -> str:
    """Do what the kind says; what was struck."""
    if what.startswith("cut"):
        host = draw.randrange(1, 4)  # the controller is in the network of the first
        set_link(host, "down")
        for_s = float(what.partition("-")[2])
        threading.Thread(target=reconnect, args=(host, for_s, over), daemon=True).start()
        return f"h{host}"
    if what == "raylet":
        # The head's end is that of the cluster, unless its store outlives it.
        host = draw.randrange(1, 4)
        (pid,) = raylets(host)
        os.kill(pid, signal.SIGKILL)
        time.sleep(BACK_S)
        node_again(host)
        return f"raylet of h{host}"
    wanted = {
        "executor": "warren-exec", "agent": "warren-agent", "helper": "warren-ray",
        "actor": "ray::NodeAgent",
    }[what]  # fmt: skip
    victims = sorted(pid for pid in in_hosts() if named(pid).startswith(wanted))
    if not victims:
        return "none"
    pid = draw.choice(victims)
    os.kill(pid, signal.SIGKILL)
    return f"{wanted} {pid}"


def reconnect(host: int, after_s: float, over: threading.Event) -> None:
    """Bring a link up again, and then Ray's node, if it was dropped meanwhile.

    Unless the trial is over: whoever ends it sees to both.
    """
    carried = raylets(host)
    if over.wait(after_s):
        return
    set_link(host, "up")
    until = time.monotonic() + LOOKED_S
    while carried and time.monotonic() < until and not over.wait(0.5):
        if not raylets(host):
            if not over.wait(BACK_S):
                node_again(host)
            return


def raylets(host: int) -> list[int]:
    """Ray's own processes of a host."""
    return [pid for pid in on(host) if named(pid) == "raylet"]


def node_again(host: int) -> None:
    """Start Ray's node of a host, as what watches over a cluster would."""
    (bed,) = (one.record.bed for one in standing(BED) if one.record is not None)
    start_node(bed, host, f"{bed.address(0)}:6379")


def in_hosts() -> list[int]:
    """All processes in the hosts."""
    return [pid for host in range(4) for pid in on(host)]


def on(host: int) -> list[int]:
    """All processes in a host."""
    return list(processes([names.namespace(BED, host)]))


def named(pid: int) -> str:
    """The name of a process; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def left() -> list[str]:
    """Names of Warren's processes that are still in a host some seconds after a run's end."""
    until = time.monotonic() + LEFT_S
    while found := sorted(name for pid in in_hosts() if (name := named(pid)).startswith("warren")):
        if time.monotonic() > until:
            return found
        time.sleep(0.1)
    return []


def set_link(host: int, state: str) -> None:
    """Take a host's link down, or bring it up."""
    link = ["ip", "-n", names.switch(BED), "link", "set", names.port(host), state]
    subprocess.run(link, check=True)


def hashes_of(out: Path) -> dict[str, str | None]:
    """The hash of each job's parameters."""
    return {name: job.row["params_sha256"] for name, job in warren.load(out).jobs.items()}


def differing(oracle: dict[str, str | None], out: Path) -> list[str]:
    """What is wrong with a run's results."""
    try:
        found = hashes_of(out)
    except Exception as error:  # whatever a run that was cut off has left
        return [f"cannot be read: {error}"]
    wrong = [f"{name}: other bits" for name in oracle if oracle[name] != found.get(name)]
    checked = _common.warren("report", str(out), "--check")
    return wrong + ([f"check: {checked.stderr[-300:]}"] if checked.returncode else [])


KINDS: Final = (
    *(f"agents:{what}" for what in ("executor", "agent", "controller")),
    *(f"agents:cut-{for_s}" for for_s in CUTS_S),
    *(f"ray:{what}" for what in ("executor", "agent", "actor", "helper", "raylet", "controller")),
    *(f"ray:cut-{for_s}" for for_s in CUTS_S),
)

if __name__ == "__main__":
    main()
