"""Warren's part inside Ray: an actor on each node starts the host's agent and watches it.

No job's code runs in the actor, and no process that runs a job's code is its child: the agent is in
a session of its own, with a clean environment. The agent lives by a pipe that ends with the actor.
"""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

from warren.live.process.agents.launcher import let_go, remove_lock, start_agent
from warren.live.process.agents.spec import AgentSpec

_LOOK_S: Final = 0.3
_LEAVE_S: Final = 6.0


class NodeAgent:
    """Keeps the agent of one host running until ``stop``, whatever ends the agent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spec = self._log = ""
        self._agent: subprocess.Popen[bytes] | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def run(self, spec: str, log: str) -> int:
        """Have the agent of this spec run, in place of one of another; return its process id."""
        with self._lock:
            if spec != self._spec:
                self._end()
                self._spec, self._log = spec, log
            return self._started()

    def look(self) -> int:
        """Return the process id of the agent; -1: this actor has no agent, as after a restart."""
        with self._lock:
            return self._started() if self._spec else -1

    def stop(self) -> None:
        """End the agent, and all that it runs."""
        with self._lock:
            spec, self._spec = self._spec, ""
            self._end()
            if spec:
                remove_lock(msgspec.json.decode(spec, type=AgentSpec))

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                if self._spec:
                    self._started()

    def _started(self) -> int:
        if self._agent is None or self._agent.poll() is not None:
            self._end()
            self._agent = start_agent(self._spec.encode(), Path(self._log))
        return self._agent.pid

    def _end(self) -> None:
        agent, self._agent = self._agent, None
        if agent is None:
            return
        let_go(agent)
        try:
            agent.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
