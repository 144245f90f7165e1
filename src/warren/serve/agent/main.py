"""The program of an agent: ``python -m warren.serve.agent``, and ``warren agent``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from warren.serve.agent.agent import Agent
from warren.serve.agent.care.self_test import command_of
from warren.serve.agent.devices import Devices, load_nvml, own_name
from warren.serve.agent.folders import AgentHome, AgentInUse
from warren.serve.agent.link import CannotConnect, parse_target

_HOME_S: Final = 10.0
"""Longest wait for an agent of the same home to end, in seconds."""
_RETRY_S: Final = 0.02


def run_agent(
    home: Path,
    connect: str,
    *,
    token: str = "",
    fingerprint: str = "",
    name: str = "",
    self_test: str | None = None,
) -> int:
    """Run an agent until it is ended by a signal, or its daemon of this machine has gone.

    Parameters
    ----------
    home
        The agent's folder.
    connect
        ``unix:PATH``, ``tls:HOST:PORT`` or ``HOST:PORT``.
    token
        The token by which an agent joins; without one, that of ``WARREN_AGENT_TOKEN``.
    fingerprint
        Fingerprint of the daemon's certificate: SHA-256, in hexadecimal digits.
    name
        Name of this machine; empty: its host name.
    self_test
        Command line that tests a GPU, or ``off``; None: the program that Warren brings.

    Returns
    -------
    int
        The exit code: 0, or 2 with one line on the error stream.
    """
    try:
        target = parse_target(
            connect, token or os.environ.pop("WARREN_AGENT_TOKEN", ""), fingerprint
        )
        test = command_of(self_test)
        own = _home(home)
    except (CannotConnect, AgentInUse) as error:
        print(f"warren agent: {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"warren agent: --self-test: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"warren agent: {home}: {error.strerror or error}", file=sys.stderr)
        return 2
    os.umask(0o022)  # accounts of jobs go through the folders
    return Agent(own, target, name or own_name(), Devices(load_nvml()), test).run()


def _home(path: Path) -> AgentHome:
    """Return the agent's home; an agent of a daemon that has just gone may still hold it."""
    deadline = time.monotonic() + _HOME_S
    while True:
        try:
            return AgentHome(path)
        except AgentInUse:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_S)


def main(arguments: list[str]) -> int:
    """Run the agent of a command line: ``--home DIR --connect WHERE [--token T ...]``."""
    known = dict.fromkeys(
        ("--home", "--connect", "--token", "--fingerprint", "--name", "--self-test"), ""
    )
    for option, value in zip(arguments[::2], arguments[1::2], strict=False):
        if option not in known:
            print(f"warren agent: {option} is unknown; use {', '.join(known)}", file=sys.stderr)
            return 2
        known[option] = value
    if len(arguments) % 2 or not known["--home"] or not known["--connect"]:
        print("warren agent: --home DIR and --connect WHERE are needed", file=sys.stderr)
        return 2
    return run_agent(
        Path(known["--home"]),
        known["--connect"],
        token=known["--token"],
        fingerprint=known["--fingerprint"],
        name=known["--name"],
        self_test=known["--self-test"] or None,
    )
