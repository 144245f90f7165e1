"""Kill the helper that sets rules of flows, at any moment, and look for what stays after a clear.

200 times, in a network namespace of its own, where a table of nft and a root queue are somebody
else's: a helper sets up queues, marks flows of two jobs, changes and unmarks them. Of each four one
ends as it should; one gets SIGKILL at a moment drawn; one too, with what it started (`nft`, `tc`);
and one while it removes what it made. Who was killed is followed by a helper that clears. Then
`nft list ruleset`, `tc qdisc show` and `tc class show` must be what they were before.

``--cycles N`` makes fewer and saves nothing. Needs root, `nft` and HTB.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any, Final

import _common
import msgspec
from _rights import cannot

from warren.live.enforcement import helper
from warren.live.enforcement.requests import (
    ClearFlows,
    Endpoint,
    FlowRequest,
    MarkFlows,
    SetUpQueues,
    UnmarkFlows,
)

CYCLES: Final = 200
SEED: Final = 1
LABEL: Final = "kill"
WAYS: Final = ("ended", "killed", "killed with its tools", "killed while removing")
INSIDE: Final = "WARREN_FLOW_RULES"
PORTS: Final = Endpoint("10.1.1.1", ((1000, 1999), (3000, 3000)))
REQUESTS: Final[tuple[FlowRequest, ...]] = (
    SetUpQueues(label=LABEL, device="dm0", rate_bps=10**8),
    MarkFlows(label=LABEL, job="a", flow_class=1, endpoints=(PORTS,)),
    MarkFlows(label=LABEL, job="b", flow_class=2, endpoints=(Endpoint("", ((5000, 5000),)),)),
    SetUpQueues(label=LABEL, device="dm0", rate_bps=10**9),
    MarkFlows(label=LABEL, job="a", flow_class=2, endpoints=(PORTS,)),
    UnmarkFlows(label=LABEL, job="b"),
)
TBF: Final = ("tbf", "rate", "1mbit", "burst", "32k", "limit", "64k")
SETTING: Final = (
    ["ip", "link", "add", "dm0", "type", "veth", "peer", "name", "dm1"],
    ["nft", "add table inet mine; add chain inet mine own; add rule inet mine own counter"],
    ["tc", "qdisc", "add", "dev", "dm1", "root", "handle", "7:", *TBF],
)


def main() -> None:
    """Make the cycles, save, and stop with an error where something was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=CYCLES)
    cycles = parser.parse_args().cycles
    if reason := cannot("nft"):
        print(f"not made here: {reason}")
        return
    if not os.environ.get(INSIDE):
        # A network that ends with the processes in it.
        os.execvpe(
            "unshare", ["unshare", "-n", sys.executable, *sys.argv], {**os.environ, INSIDE: "1"}
        )
    for command in SETTING:
        subprocess.run(command, check=True)
    before = _dump()
    whole_s = _took_s()
    rows = [_cycle(number, whole_s, before) for number in range(cycles)]
    bad = [row for row in rows if row["left"]]
    found = sum(row["stood"] for row in rows)
    ways = dict(sorted(Counter(row["way"] for row in rows).items()))
    _common.table([["the helper was", "cycles"], *ways.items()])
    print(f"{len(rows)} cycles, {len(bad)} left something; rules stood after {found} kills")
    if cycles == CYCLES:
        content = {"cycles": len(rows), "ways": ways, "stood_after_a_kill": found, "left": bad}
        _common.save("flow_rules", SEED, content)
    if bad:
        sys.exit("\n".join(str(row) for row in bad))


def _cycle(number: int, whole_s: tuple[float, float], before: str) -> dict[str, Any]:
    """One helper, from its start to what the next one leaves; ``left`` is empty if that is none."""
    draw = random.Random(f"{SEED}-{number}")
    way = WAYS[number % len(WAYS)]
    child, asks = _start(REQUESTS)
    if way == "ended":
        os.close(asks)
    else:
        removing = way == "killed while removing"
        if removing:
            os.close(asks)  # it does what it was asked, then removes
        begin_s, removal_s = whole_s
        low, high = (begin_s, begin_s + 1.2 * removal_s) if removing else (0.0, 1.1 * begin_s)
        time.sleep(draw.uniform(low, high))
        (os.killpg if way == "killed with its tools" else os.kill)(child, signal.SIGKILL)
        if not removing:
            os.close(asks)
    os.waitpid(child, 0)
    stood = way != "ended" and _dump() != before
    if way != "ended":
        _finish(*_start((ClearFlows(label=LABEL),)))
    after = _dump()
    return {"cycle": number, "way": way, "stood": stood, "left": "" if after == before else after}


def _took_s() -> tuple[float, float]:
    """How long a helper takes for all requests, and then for removing what it made."""
    begin_s = time.perf_counter()
    child, asks = _start(REQUESTS[:0])
    _finish(child, asks)
    empty_s = time.perf_counter() - begin_s
    begin_s = time.perf_counter()
    _finish(*_start(REQUESTS))
    whole_s = time.perf_counter() - begin_s
    # Of some 35 calls of tools 5 remove.
    return empty_s + 0.8 * (whole_s - empty_s), 0.3 * (whole_s - empty_s)


def _start(requests: tuple[FlowRequest, ...]) -> tuple[int, int]:
    """Fork a helper, which leads a group, and ask it all at once; return it and its input."""
    reads, asks = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(reads, 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.close(asks)
            sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
            sys.argv = ["helper", LABEL]
            helper.main()
        finally:
            os._exit(0)  # not back into the program that it was forked from
    os.setpgid(pid, pid)  # here, so that it is one before anything strikes
    os.close(reads)
    os.write(asks, b"".join(msgspec.json.encode(one) + b"\n" for one in requests))
    return pid, asks


def _finish(child: int, asks: int) -> None:
    os.close(asks)
    os.waitpid(child, 0)


def _dump() -> str:
    """All rules and queues of this network."""
    commands = (
        ["nft", "list", "ruleset"],
        ["tc", "qdisc", "show"],
        ["tc", "class", "show", "dev", "dm0"],
        ["tc", "class", "show", "dev", "dm1"],
    )
    return "".join(
        subprocess.run(one, capture_output=True, text=True, check=True).stdout for one in commands
    )


if __name__ == "__main__":
    main()
