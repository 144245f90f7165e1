"""Launchers of agents: they start the agents of hosts, and restart an agent that has ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from warren.live.own_programs import own_program
from warren.live.process.agents.spec import AgentSpec
from warren.live.training.numerics import clean_environment

_AGAIN_NS: Final = 500_000_000
"""Real nanoseconds to wait before an agent is started again."""
_LEAVE_S: Final = 15.0


class Launcher(Protocol):
    """A launcher of agents."""

    @property
    def pids_H(self) -> tuple[int, ...]:
        """The process ids of the agents, by host; 0: the host has none, or it is not known."""

    def look(self, now_ns: int) -> int:
        """Start ended agents again; return the time of the next look."""

    def problem(self) -> str:
        """Return why a host has no agent; empty: nothing is known to be wrong."""

    def close(self) -> None:
        """End all agents, and with them the processes that they run."""


class AgentLauncher:
    """The agents of a testbed's hosts, as processes of the controller. ``log``: their output."""

    def __init__(self, specs_H: Sequence[AgentSpec], log: Path) -> None:
        self._specs_H, self._log = tuple(specs_H), log
        self._problem = ""
        self._agents_H = [self._start(spec) for spec in specs_H]
        self._next_ns = 0

    @property
    def pids_H(self) -> tuple[int, ...]:
        """The process ids of the agents, by host."""
        return tuple(agent.pid for agent in self._agents_H)

    def look(self, now_ns: int) -> int:
        """Start ended agents again; return the time of the next look."""
        if now_ns >= self._next_ns:
            self._next_ns = now_ns + _AGAIN_NS
            for host, agent in enumerate(self._agents_H):
                if agent.poll() is not None:
                    let_go(agent)
                    try:
                        self._agents_H[host] = self._start(self._specs_H[host])
                    except OSError as error:  # no room for it now; it is tried again
                        self._problem = f"an agent cannot be started: {error}"
        return self._next_ns

    def problem(self) -> str:
        """Return why an agent could not be started; the agents' own messages are in the log."""
        return self._problem

    def close(self) -> None:
        """End all agents, and with them the processes that they run."""
        for agent in self._agents_H:
            let_go(agent)
        until_s = time.monotonic() + _LEAVE_S
        for agent in self._agents_H:
            try:
                agent.wait(max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        for spec in self._specs_H:
            remove_lock(spec)

    def _start(self, spec: AgentSpec) -> subprocess.Popen[bytes]:
        return start_agent(msgspec.json.encode(spec), self._log, program(spec))


def program(spec: AgentSpec | None = None) -> list[str]:
    """Return the command line of an agent, which says nothing of the run."""
    return own_program("warren.live.process.agents.agent")


def start_agent(
    spec: bytes, log: Path, command: Sequence[str] | None = None
) -> subprocess.Popen[bytes]:
    """Start an agent in a new session; it lives as long as its standard input is open.

    The secret goes through that pipe: it is on no command line and in no environment.
    """
    with log.open("ab") as output:
        agent = subprocess.Popen(
            program() if command is None else command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=clean_environment(os.environ),
            start_new_session=True,
        )
    hand_over(agent, spec)
    return agent


def hand_over(process: subprocess.Popen[bytes], line: bytes) -> None:
    """Write a process's input line to its standard input; an ended process reads nothing."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(line + b"\n")
        process.stdin.flush()


def remove_lock(spec: AgentSpec) -> None:
    """Remove the lock of a host whose agent has ended for good."""
    Path(tempfile.gettempdir(), spec.lock).unlink(missing_ok=True)


def let_go(agent: subprocess.Popen[bytes]) -> None:
    """Close the pipe that keeps an agent alive."""
    assert agent.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        agent.stdin.close()
