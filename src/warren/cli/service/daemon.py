"""``warren serve`` and ``warren agent``: the two processes of the service that stay."""

from __future__ import annotations

import os
from pathlib import Path

from warren.cli.service.declare import Option, command
from warren.serve.client import values
from warren.serve.client.address import AGENT_HOME, HOME, refused

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from warren.serve.daemon.daemon import Order
    from warren.serve.schedule.preemption import PreemptionRules

ORDERS: Final = ("strict", "backfill")
LOG_LIMIT: Final = 10**10
"""Default of the most bytes that the log of an attempt takes on disk."""
_LEAST_LOG: Final = 10**6


def _order(text: str) -> str:
    """Return the name of an order of the queue."""
    if text not in ORDERS:
        raise ValueError(f"unknown order {text!r}; allowed: {', '.join(ORDERS)}")
    return text


def _log_limit(text: str) -> int:
    """Return the most bytes of a log; 0 for none."""
    if text == "none":
        return 0
    found = values.size(text)
    if found < _LEAST_LOG:
        raise ValueError(f"must be 1MB or more, or none; got {text[:40]!r}")
    return found


def _endpoint(text: str) -> str:
    """Return an address to listen at."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{text[:60]!r} is no address; write HOST:PORT, like 0.0.0.0:8443")
    return text


def _command_line(text: str) -> str:
    """Return a command line for no shell."""
    import shlex

    if not shlex.split(text):
        raise ValueError("the command is empty; write `off` for no test")
    return text


SELF_TEST: Final = Option(
    "--self-test",
    "Command that tests a GPU of this machine before its first job and after a fault; exit code 0: "
    "it is sound. WARREN_DEVICE names the GPU. `off`: no test. Default: a test of a few seconds, "
    "if this Python has PyTorch.",
    "COMMAND",
    _command_line,
)


@command(
    Option("--home", f"Folder of the queue, its journal and its socket. Default: {HOME}.", "DIR",
           str),
    Option("--order", "Order of the queue: strict, or backfill, in which a job may start early if "
           "that lets no job before it start later. Default: strict.", "ORDER", _order),
    Option("--place", "Place policy, such as gittins or srtf: the order of jobs of equal priority. "
           "Default: the user with the least use of devices goes first.", "POLICY", str),
    Option("--preempt", "Ask running jobs that can come back to leave for jobs of higher priority, "
           "and for jobs that the place policy prefers."),
    Option("--min-run", "Running time before which no job is preempted, with --preempt. "
           "Default: 10m.", "TIME", values.seconds, name="min_run_s"),
    Option("--preempt-limit", "Most preemptions of a job in 24 hours, with --preempt. Default: 4.",
           "N", values.positive),
    Option("--listen", "Also take requests by TLS at this address, from users with a token.",
           "HOST:PORT", _endpoint),
    Option("--agents-listen", "Take agents of other machines at this address.", "HOST:PORT",
           _endpoint),
    Option("--log-limit", "Most that the log of a job takes on disk, or none. Beyond it the middle "
           "of the log is left out, and its two ends stay. Default: 10GB.", "SIZE", _log_limit),
    Option("--idle", "Warn of a job whose devices do nothing for this time, such as 2h, and end it "
           "an hour later unless it works again or is extended. Default: never.", "TIME",
           values.seconds, name="idle_s"),
    SELF_TEST,
    Option("--notify", "URL of Apprise to which notices for admins go: a host is away, a GPU is "
           "faulty, the disk is full. Repeatable. Default: the variable WARREN_NOTIFY.", "URL", str,
           many=True),
    Option("--stop-jobs", "End all jobs when the service ends. By default they go on."),
    Option("--print-unit", "Print a unit for systemd with these options, and start nothing."),
    Option("--user", "Of an account's own systemd, without root; with --print-unit."),
    examples=(
        "warren serve",
        "warren serve --home /var/lib/warren --listen 0.0.0.0:8443",
        "warren serve --place gittins --preempt",
        "warren serve --print-unit --user > ~/.config/systemd/user/warren.service",
    ),
)  # fmt: skip
def serve(
    *,
    home: str | None,
    order: Order | None,
    place: str | None,
    preempt: bool,
    min_run_s: float | None,
    preempt_limit: int | None,
    listen: str | None,
    agents_listen: str | None,
    log_limit: int | None,
    idle_s: float | None,
    self_test: str | None,
    notify: tuple[str, ...],
    stop_jobs: bool,
    print_unit: bool,
    user: bool,
) -> None:
    """Start the service of this machine: a queue for a team.

    Runs until SIGTERM or Ctrl-C. Jobs that run go on, and are found again at the next start. Jobs
    hold devices of this machine, and of those whose `warren agent` is connected.
    """
    folder = _path(home or HOME)
    urls = _urls(notify, print_unit=print_unit)
    rules = _rules(min_run_s, preempt_limit, preempt=preempt)
    _check_place(place)
    if print_unit:
        if stop_jobs:
            raise refused("serve: a unit keeps jobs; leave out --stop-jobs", "wrong")
        options = {
            "--home": str(folder),
            "--order": order,
            "--place": place,
            "--min-run": None if min_run_s is None else f"{min_run_s:.9g}s",
            "--preempt-limit": None if preempt_limit is None else str(preempt_limit),
            "--listen": listen,
            "--agents-listen": agents_listen,
            "--log-limit": None if log_limit is None else f"{log_limit}B" if log_limit else "none",
            "--idle": None if idle_s is None else f"{idle_s:.15g}s",
            "--self-test": self_test,
        }
        _print_unit("serve", options, *["--preempt"] * preempt, user=user)
        return
    if user:
        raise refused("serve: --user is about --print-unit", "wrong")
    from warren.runs.studies.serve_extra import check_serve

    check_serve()
    from warren.serve.daemon.service import run_service

    run_service(
        folder,
        order=order or "strict",
        place=place,
        preempts=rules,
        listen=listen,
        agents_listen=agents_listen,
        stop_jobs=stop_jobs,
        log_limit_bytes=(LOG_LIMIT if log_limit is None else log_limit) or None,
        idle_s=idle_s,
        self_test=self_test,
        notify=urls,
    )


def _urls(notify: tuple[str, ...], *, print_unit: bool) -> tuple[str, ...]:
    """Return where notices for admins go; neither agents nor jobs keep the variable."""
    variable = os.environ.pop("WARREN_NOTIFY", "")
    if notify and print_unit:
        said = "put WARREN_NOTIFY=URL into a file that only root reads, for EnvironmentFile="
        raise refused(f"serve: a unit shows --notify to all users; {said}", "wrong")
    return notify or ((variable,) if variable else ())


def _check_place(place: str | None) -> None:
    """Refuse a policy that cannot order commands."""
    if place is not None:
        from warren.runs.commands.policy_order import command_policy

        command_policy(place)


def _rules(
    min_run_s: float | None, preempt_limit: int | None, *, preempt: bool
) -> PreemptionRules | None:
    """Return by what rules jobs leave for others; None: none does."""
    if not preempt:
        if min_run_s is not None or preempt_limit is not None:
            given = "--preempt-limit" if min_run_s is None else "--min-run"
            raise refused(f"serve: {given} is about --preempt; give that, too", "wrong")
        return None
    from warren.serve.schedule.preemption import RULES

    return RULES._replace(
        minimum_s=RULES.minimum_s if min_run_s is None else min_run_s,
        daily=preempt_limit or RULES.daily,
    )


@command(
    Option("--connect", "Where the service awaits agents; `warren serve --agents-listen` prints "
           "it.", "HOST:PORT#sha256=HEX", str),
    Option("--token-file", "File of the token by which agents join. Default: the variable "
           "WARREN_AGENT_TOKEN.", "FILE", str),
    Option("--home", f"Folder of the jobs of this machine. Default: {AGENT_HOME}.", "DIR", str),
    Option("--name", "Name of this machine in the service. Default: its host name.", "NAME", str),
    SELF_TEST,
    Option("--print-unit", "Print a unit for systemd with these options, and start nothing."),
    Option("--user", "Of an account's own systemd, without root; with --print-unit."),
    examples=("warren agent --connect gpu1:8444#sha256=HEX --token-file token",),
)  # fmt: skip
def agent(
    *,
    connect: str | None,
    token_file: str | None,
    home: str | None,
    name: str | None,
    self_test: str | None,
    print_unit: bool,
    user: bool,
) -> int:
    """Lend the devices of this machine to a service elsewhere.

    Runs until SIGTERM or Ctrl-C, and connects again by itself. Jobs go on while the service, this
    agent or the network is away.
    """
    if connect is None:
        raise refused("agent: --connect is missing; `warren serve` prints its value", "wrong")
    folder = _path(home or AGENT_HOME)
    if print_unit:
        options = {
            "--connect": connect,
            "--home": str(folder),
            "--name": name,
            "--self-test": self_test,
        }
        if token_file is not None:
            options["--token-file"] = str(_path(token_file))
        _print_unit("agent", options, user=user)
        return 0
    if user:
        raise refused("agent: --user is about --print-unit", "wrong")
    token = "" if token_file is None else _token(_path(token_file))
    place, _, pin = connect.partition("#")
    from warren.serve.agent.main import run_agent

    fingerprint = pin.removeprefix("sha256=")
    return run_agent(
        folder,
        place,
        token=token,
        fingerprint=fingerprint,
        name=name or "",
        self_test=self_test,
    )


def _path(text: str) -> Path:
    """Return the whole path of a file or folder that was typed."""
    return Path(os.path.expanduser(text)).absolute()


def _token(path: Path) -> str:
    """Return the token in a file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise refused(f"{path}: {error.strerror}", "wrong") from error


def _print_unit(name: str, options: Mapping[str, str | None], *switches: str, user: bool) -> None:
    """Print the unit that runs a command with these options and switches."""
    from warren.cli.service.units import unit_text

    given = [word for flag, value in options.items() if value for word in (flag, value)]
    print(unit_text([name, *given, *switches], user=user), end="")
