"""The commands ``ip`` and ``tc``: whether they may be used, and running them. Never a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from warren.live.testbed.setup_commands import CommandBatch
from warren.model.errors import EngineError, Problem, SpecError

_NEEDED: Final = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}
"""Capabilities that making namespaces and links needs, by number (linux/capability.h)."""
_MISSING: Final = re.compile(
    r"qdisc kind is unknown|Unknown device type|not supported|No such file or directory.*htb"
)
"""Messages of ``ip`` and ``tc`` for a kind of link or queue that the kernel does not have."""
_KERNEL: Final = "needs network namespaces, veth, bridge and HTB in the kernel"


def check_usable(status: Path = Path("/proc/self/status")) -> None:
    """Refuse to go on unless this process may make and inspect testbeds here.

    Raises
    ------
    SpecError
        If Linux, rights, ``ip`` or ``tc`` are missing; the message says which.
    """
    if not status.exists():
        raise refusal("needs Linux, whose network namespaces its hosts are")
    lacking = _lacking(status.read_text())
    if lacking:
        raise refusal(f"needs root, or at least {' and '.join(lacking)}, which this process lacks")
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise refusal(f"needs the command {tool}, which is not here; it comes with iproute2")


def _lacking(status: str) -> list[str]:
    """Return the names of the capabilities that a process with this status lacks."""
    line = next((one for one in status.splitlines() if one.startswith("CapEff:")), "CapEff: 0")
    has = int(line.split()[1], 16)
    return [name for number, name in _NEEDED.items() if not has >> number & 1]


def refusal(message: str) -> SpecError:
    """Return the error for a request that cannot be carried out."""
    return SpecError(Problem(file="testbed", message=message))


def run_batch(batch: CommandBatch, lock: int) -> str:
    """Run the lines of a batch; return their output.

    The command holds ``lock`` open as well: if this process is killed, no other process goes on
    before the command has ended too.

    Raises
    ------
    SpecError
        If the kernel lacks a requested feature.
    EngineError
        If a line fails for another reason; the message quotes it.
    """
    inside = ["-n", batch.where] if batch.where else []
    text = "".join(f"{line}\n" for line in batch.lines)
    done = _run([batch.tool, *inside, "-batch", "-"], text, (lock,))
    if not done.returncode:
        return done.stdout
    said = " ".join(done.stderr.split())
    # Both commands say which line of a batch failed; otherwise the first stands for all.
    failed = re.search(r"Command failed -:(\d+)", done.stderr)
    line = batch.lines[int(failed[1]) - 1] if failed else batch.lines[0]
    if _MISSING.search(said):
        raise refusal(f"{_KERNEL}; `{batch.tool} {line}` says: {said}")
    raise EngineError(f"testbed: `{batch.tool} {line}` failed: {said}")


def answer_of(tool: str, arguments: Sequence[str]) -> str:
    """Run a command that only reads; return its output, empty if it fails."""
    done = _run([tool, *arguments], "", ())
    return "" if done.returncode else done.stdout


def remove_namespaces(names: Sequence[str], lock: int) -> None:
    """Remove namespaces by name; missing ones do not matter."""
    # -force: go on after a line that fails.
    text = "".join(f"netns del {name}\n" for name in names)
    _run(["ip", "-force", "-batch", "-"], text, (lock,))


def _run(
    command: Sequence[str], text: str, handed: tuple[int, ...]
) -> subprocess.CompletedProcess[str]:
    """Run a command with ``text`` as its input; it inherits the open files ``handed``."""
    # LC_ALL: the output is parsed, and must not be translated.
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        pass_fds=handed,
        env={**os.environ, "LC_ALL": "C"},
    )
