"""``warren serve``: journal, daemon, hosts and API in one event loop, until a signal."""

from __future__ import annotations

import asyncio
import gc
import os
import pwd
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from warren.model.errors import Problem, SpecError
from warren.serve.daemon.daemon import Daemon, Order
from warren.serve.daemon.home import home_of_service, remove_socket
from warren.serve.hosts.agents import AgentHosts
from warren.serve.hosts.messages import Welcome
from warren.serve.hosts.port import Hosts
from warren.serve.hosts.tls import credentials
from warren.serve.journal.journal import Journal, JournalWriteError
from warren.serve.notices.notifier import Notifier
from warren.serve.queue.refusals import Refusal
from warren.serve.schedule.policy_order import PlacePolicy
from warren.serve.schedule.preemption import PreemptionRules

JOURNAL: Final = "queue.db"
"""Name of the journal in the home of a service."""
_BACKLOG: Final = 1024
"""Most connections that wait to be accepted."""
_ANY: Final = ("0.0.0.0", "::")  # noqa: S104 - said, not listened at
"""Addresses that stand for all of a machine."""
_GARBAGE: Final = 2_000
"""New objects after which Python looks for garbage: a closed TLS connection holds 256 KiB until
then."""


def run_service(
    home: Path,
    *,
    order: Order = "strict",
    place: str | None = None,
    preempts: PreemptionRules | None = None,
    listen: str | None = None,
    agents_listen: str | None = None,
    stop_jobs: bool = False,
    log_limit_bytes: int | None = None,
    idle_s: float | None = None,
    self_test: str | None = None,
    notify: Sequence[str] = (),
    hosts: Hosts | None = None,
    say: Callable[[str], None] = lambda line: print(f"warren: {line}", file=sys.stderr, flush=True),
) -> None:
    """Run the service of a home until SIGTERM or SIGINT. Jobs run on.

    Parameters
    ----------
    home
        The folder of the service; made if it is missing.
    order
        How jobs may overtake each other.
    place
        The name of the place policy in whose order jobs start; None: by fair shares.
    preempts
        The limits within which running jobs are asked to leave for others; None: none is.
    listen
        ``HOST:PORT`` at which the API listens by TLS, too.
    agents_listen
        ``HOST:PORT`` at which agents of other machines join.
    stop_jobs
        Whether the jobs that run are cancelled first, with their grace.
    log_limit_bytes
        Most bytes that the log of an attempt takes on disk; None: no limit.
    idle_s
        Time in seconds after which a job whose devices do nothing is warned, and then ended; None:
        it never is.
    self_test
        Command that tests a GPU of this machine; None: the test of its agent.
    notify
        URLs to which notices for admins go.
    hosts
        Other hosts than those of agents, such as fake ones.
    say
        Called with each line that an operator should read.

    Raises
    ------
    SpecError
        If the home cannot be used or has a daemon, an address cannot be listened to, or the policy
        cannot order commands.
    JournalError
        If the journal cannot be read.
    JournalWriteError
        If the disk takes no events at the start.
    """
    notifier = _notifier(notify, say)
    as_root = os.geteuid() == 0
    policy = None if place is None else PlacePolicy(place)
    with (
        home_of_service(home, as_root=as_root) as own,
        Journal(own / JOURNAL) as journal,
        asyncio.Runner() as runner,
    ):
        _check_attempts(own, journal)
        rules = _Rules(order, policy, preempts)
        service = _Service(
            own,
            journal,
            rules=rules,
            as_root=as_root,
            idle_s=idle_s,
            self_test=self_test,
            notifier=notifier,
            say=say,
        )
        with closing(service), closing(notifier):
            service.listen(listen, agents_listen)
            runner.run(service.run(hosts, stop_jobs=stop_jobs, log_limit_bytes=log_limit_bytes))


class _Rules(NamedTuple):
    """By what rules jobs start and leave; see ``run_service``."""

    order: Order
    policy: PlacePolicy | None
    preempts: PreemptionRules | None

    def __str__(self) -> str:
        parts = [f"order: {self.order}"]
        if self.policy is not None:
            parts.append(f"policy: {self.policy.name}")
        if self.preempts is not None:
            parts.append("running jobs may be preempted")
        return "; ".join(parts)


class _Service:
    """The parts of a service, before and while they run."""

    def __init__(
        self,
        home: Path,
        journal: Journal,
        *,
        rules: _Rules,
        as_root: bool,
        idle_s: float | None,
        self_test: str | None,
        notifier: Notifier,
        say: Callable[[str], None],
    ) -> None:
        self._home, self._journal, self._rules, self._say = home, journal, rules, say
        self._as_root, self._idle_s, self._self_test = as_root, idle_s, self_test
        self._notifier = notifier
        self._own = _account(os.geteuid())
        self._sockets: list[socket.socket] = []
        self._agents_at: tuple[str, int] | None = None

    def listen(self, api: str | None, agents: str | None) -> None:
        """Take the addresses of the API.

        Raises SpecError if one cannot be listened to.
        """
        path = self._home / "socket"
        remove_socket(path)
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sockets.append(end)
        end.bind(str(path))
        # Who may connect is asked of the kernel at each connection.
        path.chmod(0o666 if self._as_root else 0o600)
        end.listen(_BACKLOG)  # clients that come early wait
        if api is not None:
            self._sockets.append(_listening(api))
        if agents is not None:
            self._agents_at = _address(agents)

    def close(self) -> None:
        """Listen no more."""
        for end in self._sockets:
            end.close()
        if self._sockets:
            (self._home / "socket").unlink(missing_ok=True)

    async def run(
        self, hosts: Hosts | None, *, stop_jobs: bool, log_limit_bytes: int | None
    ) -> None:
        """Serve until a signal comes."""
        # Imported here: it takes longer than to find out that the home has a daemon.
        from warren.serve.api.app import make_app
        from warren.serve.api.server import ApiServer

        hosts = hosts or AgentHosts(
            self._home,
            listen=self._agents_at,
            welcome=Welcome(idle_s=self._idle_s, xids=True),
            self_test=self._self_test,
            say=self._say,
        )
        daemon = Daemon(
            self._journal,
            hosts,
            **self._rules._asdict(),
            account_of=self._account_of,
            log_limit_bytes=log_limit_bytes,
            ends_idle=self._idle_s is not None,
            notifier=self._notifier,
            foresees=True,
            say=self._say,
        )
        app = make_app(
            daemon,
            jobs_run_as=self._jobs_run_as(),
            log_place=self._log_place,
            as_accounts=self._as_root,
        )
        unix, *tcp = self._sockets
        servers = {ApiServer(app): unix}
        if tcp:
            files = credentials(self._home / "tls")
            servers[ApiServer(app, files.certificate, files.key)] = tcp[0]
        ended = _signals()
        _tune_garbage()
        try:
            await self._start(daemon)
            self._say_start(hosts)
            async with asyncio.TaskGroup() as group:
                for server, end in servers.items():
                    group.create_task(server.serve([end]))
                await ended.wait()
                if stop_jobs:
                    with suppress(JournalWriteError):  # the daemon has said so; the jobs run on
                        await daemon.end_jobs()
                app.state.service.close()
                for server in servers:
                    server.stop()
        finally:
            await daemon.stop()

    async def _start(self, daemon: Daemon) -> None:
        try:
            await daemon.start()
        except OSError as error:  # an address of agents
            raise _refused("agents", error.strerror or str(error)) from None

    def _say_start(self, hosts: Hosts) -> None:
        """Say where the service is, and how jobs run."""
        self._say(f"the service listens at {self._home / 'socket'}; {self._rules}")
        for end in self._sockets[1:]:
            host, port = end.getsockname()[:2]
            place = socket.gethostname() if host in _ANY else host
            fingerprint = credentials(self._home / "tls").fingerprint
            self._say(
                f"users elsewhere set WARREN_SERVER='{_shown((place, port))}#sha256={fingerprint}'"
                " and the token that `warren user add` prints"
            )
        if isinstance(hosts, AgentHosts) and hosts.credentials is not None:
            self._say(
                f"machines join with `warren agent --connect {socket.gethostname()}:{hosts.port}"
                f"#sha256={hosts.credentials.fingerprint}` and the token in "
                f"{self._home / 'tls' / 'agent-token'}"
            )
        self._say(f"jobs run {self._jobs_run_as()}")

    def _jobs_run_as(self) -> str:
        if self._as_root:
            return "as the accounts of their users"
        return f"all as {self._own}, the account of the service"

    def _account_of(self, account: str) -> str | None:
        return account if self._as_root and account != self._own else None

    def _log_place(self, host: str, attempt: str) -> str:
        folder = self._home / "agent" / "attempts" / attempt / "output"
        return str(folder) if host == socket.gethostname() else f"{host}:{attempt}"


def _notifier(urls: Sequence[str], say: Callable[[str], None]) -> Notifier:
    """Return what sends notices; raises SpecError if they cannot go to one of these URLs."""
    notifier = Notifier(urls, say)
    for url in urls:
        try:
            notifier.check(url)
        except Refusal as refusal:
            raise _refused("serve", str(refusal)) from None
    return notifier


def _check_attempts(home: Path, journal: Journal) -> None:
    """Refuse a journal without events beside attempts: their names would be given out twice."""
    attempts = home / "agent" / "attempts"
    if journal.last == 0 and attempts.is_dir() and any(attempts.iterdir()):
        raise _refused(
            str(home / JOURNAL), f"is new, but {attempts} has jobs of an earlier one; move it away"
        )


def _signals() -> asyncio.Event:
    """Return what SIGTERM and SIGINT set from now on."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    return ended


def _tune_garbage() -> None:
    """Keep Python from walking through a queue of many jobs again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE, 10, 10)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise _refused(text, "is no HOST:PORT")
    return host.strip("[]"), int(port)


def _listening(text: str) -> socket.socket:
    """Return a socket that is bound to an address."""
    host, port = _address(text)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise _refused(text, error.strerror or str(error)) from None


def _shown(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _refused(place: str, message: str) -> SpecError:
    return SpecError(Problem(file=place, message=message))
