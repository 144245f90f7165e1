"""Agents of the nodes of a Ray cluster, through one helper process that talks to Ray."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from warren.live.own_programs import own_program
from warren.live.process.agents.launcher import hand_over, let_go
from warren.live.process.agents.ray_helper import RayPlan

_AGAIN_NS: Final = 1_000_000_000
_LEAVE_S: Final = 20.0


class RayLauncher:
    """The agents that Ray carries. Starts its helper again when that has ended."""

    def __init__(self, plan: RayPlan) -> None:
        self._plan = plan
        self._pids = [0] * len(plan.nodes_H)
        self._problem = ""
        self._said = b""
        self._next_ns = 0
        self._helper = self._start()

    @property
    def pids_H(self) -> tuple[int, ...]:
        """The process ids of the agents, by host, on their machines; 0: not known."""
        return tuple(self._pids)

    def look(self, now_ns: int) -> int:
        """Read the messages of the helper, and start it again if it has ended."""
        if now_ns >= self._next_ns:
            self._next_ns = now_ns + _AGAIN_NS
            self._hear()
            if self._helper.poll() is not None:
                self._let_go()
                self._helper = self._start()
        return self._next_ns

    def problem(self) -> str:
        """Return why a host has no agent, as far as the helper knows."""
        self._hear()
        return self._problem

    def close(self) -> None:
        """End the helper, which ends the agents and the processes that they run."""
        let_go(self._helper)
        try:
            self._helper.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._helper.kill()
            self._helper.wait()
        self._let_go()

    def _let_go(self) -> None:
        let_go(self._helper)
        assert self._helper.stdout is not None
        self._helper.stdout.close()

    def _hear(self) -> None:
        assert self._helper.stdout is not None
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._helper.stdout.fileno(), 65536):
                self._said += data
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError, KeyError, IndexError):
                said = json.loads(line)
                if said["what"] == "problem":
                    self._problem = said["text"]
                elif said["what"] == "agent":
                    host, pid = map(int, said["text"].split())
                    self._pids[host] = pid

    def _start(self) -> subprocess.Popen[bytes]:
        with Path(self._plan.log).open("ab") as output:
            helper = subprocess.Popen(
                own_program("warren.live.process.agents.ray_helper"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        assert helper.stdout is not None
        os.set_blocking(helper.stdout.fileno(), False)
        hand_over(helper, msgspec.json.encode(self._plan))
        return helper
