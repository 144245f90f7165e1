"""Rules put into the kernel and read back: the calls of ``nft`` and ``tc``. Never a shell.

The rules are read from the kernel each time; there is no record that could be lost or be wrong. A
root queue without the handle of ``rules`` is never changed.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from typing import Any, Final

from warren.live.enforcement import rules
from warren.live.enforcement.requests import (
    ClearFlows,
    FlowRequest,
    ListFlows,
    MarkFlows,
    RemoveQueues,
    SetUpQueues,
    UnmarkFlows,
)
from warren.model.errors import EngineError, Problem, SpecError

_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Folders of the tools, whatever the caller's environment says."""
_CALL_S: Final = 20.0
_NO_TABLE: Final = "No such file or directory"


class FlowRules:
    """The rules of one label. ``lock``: an open file that each tool inherits; None: only look."""

    def __init__(self, label: str, lock: int | None) -> None:
        self.label = label
        self._lock = lock
        self.made = False
        for tool, package in (("nft", "nftables"), ("tc", "iproute2")):
            if shutil.which(tool, path=_PATH) is None:
                raise refused(f"needs the command {tool}; it comes with {package}")

    def serve(self, request: FlowRequest) -> dict[str, Any]:
        """Carry out a request; return the rules that stand then.

        Raises
        ------
        SpecError
            If it cannot be done here or in this form; nothing is changed then.
        EngineError
            If a tool fails.
        """
        if request.label != self.label:
            raise refused(f"this helper serves the label {self.label} alone")
        if self._lock is None and not isinstance(request, ListFlows):
            raise refused("this helper only looks")
        if isinstance(request, SetUpQueues):
            self._set_up(request)
        elif isinstance(request, RemoveQueues):
            self._remove(request.device)
        elif isinstance(request, MarkFlows):
            self.made = True
            self._nft(rules.marks(request))
        elif isinstance(request, UnmarkFlows):
            if request.job in self._standing()["jobs"]:
                self._nft(rules.unmarks(self.label, request.job))
        elif isinstance(request, ClearFlows):
            return {"removed": self.clear()}
        return self._standing()

    def clear(self) -> bool:
        """Remove all that stands under the label; tell whether there was anything."""
        if not self._table():
            return False
        for device in self._standing()["devices"]:
            self._drop_queue(device)
        self._nft(rules.removed_table(self.label))
        return True

    def _set_up(self, request: SetUpQueues) -> None:
        device = request.device
        _check_exists(device)
        kind, handle = self._root(device)
        if handle not in ("0:", rules.HANDLE):
            raise refused(f"{device} has a root queue that is not Warren's ({kind} {handle})")
        owner = self._owner(device)
        if owner not in (None, self.label) or (owner is None and handle == rules.HANDLE):
            raise refused(
                f"{device} has queues of {f'the label {owner}' if owner else 'another program'}"
            )
        self.made = True
        self._drop_queue(device)
        # First the owner, then the queue: if a kill comes between, ``clear`` finds both.
        self._nft(rules.queue_table(request))
        try:
            self._run(["tc", "-batch", "-"], "".join(f"{x}\n" for x in rules.queue_lines(request)))
        except EngineError as error:
            self._remove(device)
            if re.search("qdisc kind is unknown|not supported", str(error)):
                raise refused(f"the kernel has no queue {request.kind}; allowed: htb") from None
            raise

    def _remove(self, device: str) -> None:
        if device in self._standing()["devices"]:
            self._drop_queue(device)
            self._nft(rules.removed_device(self.label, device))

    def _drop_queue(self, device: str) -> None:
        if self._root(device)[1] == rules.HANDLE:
            self._run(["tc", "-batch", "-"], rules.removed_queue(device) + "\n")

    def _root(self, device: str) -> tuple[str, str]:
        """Return kind and handle of a device's root queue; the default if the device is gone."""
        try:
            shown = self._run(["tc", "-j", "qdisc", "show", "dev", device], "")
        except EngineError:
            return "", "0:"
        roots = [one for one in json.loads(shown or "[]") if one.get("root")]
        return (roots[0]["kind"], roots[0]["handle"]) if roots else ("", "0:")

    def _owner(self, device: str) -> str | None:
        """Return the label that has the queues of a device."""
        for one in json.loads(self._run(["nft", "-j", "list", "sets", "inet"], ""))["nftables"]:
            found = one.get("set")
            if found and found["name"] == rules.QUEUES and device in found.get("elem", ()):
                name = str(found["table"])
                if name.startswith(rules.TABLE_PREFIX):
                    return name.removeprefix(rules.TABLE_PREFIX)
        return None

    def _standing(self) -> dict[str, Any]:
        """Return the devices with queues and the classes of jobs, from the kernel."""
        devices: list[str] = []
        jobs: dict[str, int | None] = {}
        for one in self._table():
            if "set" in one and one["set"]["name"] == rules.QUEUES:
                devices = list(one["set"].get("elem", ()))
            if "chain" in one and one["chain"]["name"].startswith(rules.JOB_PREFIX):
                jobs[one["chain"]["name"].removeprefix(rules.JOB_PREFIX)] = None
            if "rule" in one and one["rule"]["chain"].startswith(rules.JOB_PREFIX):
                job = one["rule"]["chain"].removeprefix(rules.JOB_PREFIX)
                jobs[job] = int(one["rule"]["comment"].removeprefix("class "))
        return {"label": self.label, "devices": devices, "jobs": jobs}

    def _table(self) -> list[dict[str, Any]]:
        name = rules.table(self.label)
        try:
            shown = self._run(["nft", "-j", "list", "table", "inet", name], "")
        except EngineError as error:
            if _NO_TABLE in str(error):
                return []
            raise
        found: list[dict[str, Any]] = json.loads(shown)["nftables"]
        return found

    def _nft(self, text: str) -> None:
        self._run(["nft", "-f", "-"], text)

    def _run(self, command: Sequence[str], text: str) -> str:
        tool = shutil.which(command[0], path=_PATH) or command[0]
        try:
            done = subprocess.run(
                [tool, *command[1:]],
                input=text,
                capture_output=True,
                text=True,
                check=False,
                timeout=_CALL_S,
                pass_fds=() if self._lock is None else (self._lock,),
                env={"PATH": _PATH, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            raise EngineError(f"flow: `{' '.join(command)}` did not end in {_CALL_S} s") from None
        if done.returncode:
            said = " ".join(done.stderr.split())[:500]
            raise EngineError(f"flow: `{' '.join(command)}` failed: {said}")
        return done.stdout


def _check_exists(device: str) -> None:
    try:
        socket.if_nametoindex(device)
    except OSError:
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise refused(f"there is no interface {device}; there are: {known}") from None


def refused(message: str) -> SpecError:
    """Return the error for a request that cannot be carried out."""
    return SpecError(Problem(file="flow", message=message))
