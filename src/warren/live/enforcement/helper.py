"""The privileged helper: it does operations of ``requests``, and removes them when it ends.

It reads a request a line from standard input, as JSON, and answers each with a line. When its input
ends, because its parent ended or was killed, it removes all rules under its label if it made any.
Each label in one network has at most one helper at a time.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from warren.live.enforcement.kernel import FlowRules, refused
from warren.live.enforcement.requests import MOST_BYTES, ListFlows, checked, decoded
from warren.model.errors import SpecError, WarrenError, one_line

READ: Final = "read"
"""The second argument of a helper that only looks, also while another one serves the label."""
LOCKS: Final = Path("/run/warren-flows")
_NEEDS: Final = "needs root: try sudo, or --sudo, or see the rules by --dry-run"
_NET_ADMIN: Final = 12
"""The number of the capability by which rules of a network are read and set."""
_WAIT_S: Final = 2.0


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to us and our parent
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: sys.exit(0))
    label, reads = (sys.argv[1], sys.argv[2:] == [READ]) if len(sys.argv) > 1 else ("", False)
    try:
        checked(ListFlows(label=label))
        _check_rights(Path("/proc/self/status"))
        rules = FlowRules(label, None if reads else _locked(label))
    except WarrenError as error:
        _answer({"error": str(error), "wrong_input": True})
        sys.exit(2)
    _answer({"ready": label})
    try:
        _serve(rules, sys.stdin.buffer)
    finally:
        # Nothing that is sent to it may end the helper halfway through.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if rules.made:
            rules.clear()


def _serve(rules: FlowRules, lines: BinaryIO) -> None:
    while line := lines.readline(MOST_BYTES + 2):
        try:
            _answer(rules.serve(decoded(line)))
        except WarrenError as error:
            _answer({"error": str(error), "wrong_input": isinstance(error, SpecError)})
        except (OSError, ValueError, KeyError) as error:
            _answer({"error": f"flow: {one_line(error)}"})
        if not line.endswith(b"\n"):
            return  # too long, or cut off: the rest is no request


def _answer(value: dict[str, Any]) -> None:
    try:
        sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader has gone; the end of the input follows.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _check_rights(status: Path) -> None:
    lines = status.read_text().splitlines() if status.exists() else []
    has = next((int(one.split()[1], 16) for one in lines if one.startswith("CapEff:")), 0)
    if not has >> _NET_ADMIN & 1:
        raise refused(_NEEDS)


def _locked(label: str) -> int:
    """Lock a label in this network; return the open file, which tools inherit.

    The holder may be a tool of a helper that was killed: this waits for it.
    """
    try:
        LOCKS.mkdir(mode=0o700, exist_ok=True)
        if LOCKS.stat().st_uid != os.geteuid():
            raise refused(f"{LOCKS} belongs to another user")
        network = os.stat("/proc/self/ns/net").st_ino
        path = LOCKS / f"{label}.{network}"
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except PermissionError:
        raise refused(_NEEDS) from None
    end_s = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > end_s:
                raise refused(f"the label {label} is in use by another process") from None
            time.sleep(0.05)


if __name__ == "__main__":
    main()
