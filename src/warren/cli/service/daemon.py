"""``warren serve`` and ``warren agent``: the two processes of the service that stay."""

from __future__ import annotations

import os
from pathlib import Path

from warren.cli.service.declare import Option, command
from warren.serve.client.address import HOME, refused

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from typing import Final

ORDERS: Final = ("strict", "backfill")


def _order(text: str) -> str:
    """Return the name of an order of the queue."""
    if text not in ORDERS:
        raise ValueError(f"unknown order {text!r}; allowed: {', '.join(ORDERS)}")
    return text


def _endpoint(text: str) -> str:
    """Return an address to listen at."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{text[:60]!r} is no address; write HOST:PORT, like 0.0.0.0:8443")
    return text


@command(
    Option("--home", f"Folder of the queue, its journal and its socket. Default: {HOME}.", "DIR",
           str),
    Option("--order", "Order of the queue: strict, or backfill, in which a job may start early if "
           "that lets no job before it start later. Default: strict.", "ORDER", _order),
    Option("--listen", "Also take requests by TLS at this address, from users with a token.",
           "HOST:PORT", _endpoint),
    Option("--agents-listen", "Take agents of other machines at this address.", "HOST:PORT",
           _endpoint),
    Option("--stop-jobs", "End all jobs when the service ends. By default they go on."),
    Option("--print-unit", "Print a unit for systemd with these options, and start nothing."),
    Option("--user", "Of an account's own systemd, without root; with --print-unit."),
    examples=(
        "warren serve",
        "warren serve --home /var/lib/warren --listen 0.0.0.0:8443",
        "warren serve --print-unit --user > ~/.config/systemd/user/warren.service",
    ),
)  # fmt: skip
def serve(
    *,
    home: str | None,
    order: str | None,
    listen: str | None,
    agents_listen: str | None,
    stop_jobs: bool,
    print_unit: bool,
    user: bool,
) -> None:
    """Start the service of this machine: a queue for a team.

    Runs until SIGTERM or Ctrl-C. Jobs that run go on, and are found again at the next start. Jobs
    hold devices of this machine, and of those whose `warren agent` is connected.
    """
    folder = Path(os.path.expanduser(home or HOME)).absolute()
    if print_unit:
        from warren.cli.service.units import unit_text

        options = {
            "--home": str(folder),
            "--order": order,
            "--listen": listen,
            "--agents-listen": agents_listen,
        }
        given = [word for name, one in options.items() if one for word in (name, one)]
        words = ["serve", *given, *(["--stop-jobs"] if stop_jobs else [])]
        print(unit_text(words, user=user), end="")
        return
    if user:
        raise refused("serve: --user is about --print-unit", "wrong")
    from warren.runs.extras import need

    need("serve")
    from warren.serve.daemon.service import run_service

    run_service(
        folder,
        order=order or "strict",
        listen=listen,
        agents_listen=agents_listen,
        stop_jobs=stop_jobs,
    )


@command(
    Option("--connect", "Service to work for, as `warren serve --agents-listen` says it.",
           "HOST:PORT#sha256=HEX", str),
    Option("--home", "Folder of the jobs of this machine. Default: ~/.warren/agent.", "DIR", str),
    Option("--name", "Name of this machine in the service. Default: its host name.", "NAME", str),
    examples=("warren agent --connect gpu1:8444#sha256=HEX",),
)  # fmt: skip
def agent(*, connect: str | None, home: str | None, name: str | None) -> None:
    """Lend the devices of this machine to a service elsewhere.

    Runs until SIGTERM or Ctrl-C. Its jobs go on, also while the service or the network is away.
    """
    raise refused("agent: not written yet")
