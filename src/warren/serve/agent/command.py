"""The start of a command: what it may use, whose it is, and why it could not start."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import resource
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from warren.serve.agent import cgroups
from warren.serve.hosts.port import StartOrder

CPU_PREFIX: Final = "cpu:"
"""Beginning of the id of a device that is a processor."""
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_IGNORED_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP)
"""Signals that Python or the runner ignores, and a command does not."""


class CannotStart(Exception):
    """A command that did not start; the text is one line."""


class Account(msgspec.Struct, frozen=True):
    """An account of the machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


class Place(msgspec.Struct, frozen=True):
    """Where a process of an attempt runs, and with what.

    ``account`` is None where it runs as this process does. ``processors`` is empty where it may
    use all.
    """

    folder: str
    environment: dict[str, str]
    account: Account | None = None
    group: str = ""
    processors: tuple[int, ...] = ()
    rlimit_bytes: int | None = None


def account_of(name: str | None) -> Account | None:
    """Return the account that a command runs as; None where that is this process's own.

    Raises CannotStart if it is not known, or this process may not run commands as it.
    """
    if name is None:
        return None
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise CannotStart(f"account {name!r} does not exist") from None
    if os.geteuid() != 0:
        if entry.pw_uid == os.geteuid():
            return None
        raise CannotStart(f"the agent is not root, so it cannot run commands as {name!r}")
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    shell = entry.pw_shell or "/bin/sh"
    return Account(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, shell)


def place_of(order: StartOrder, folder: str, checkpoints: str, limits: cgroups.Limits) -> Place:
    """Return where the command of an order runs.

    Parameters
    ----------
    order
        What to start.
    folder
        The attempt's own folder, which marks its processes.
    checkpoints
        The folder in which each job has one for its checkpoints.
    limits
        How jobs are held together here.

    Raises
    ------
    CannotStart
        The account is not known, or the folder for checkpoints cannot be made.
    """
    account = account_of(order.account)
    group = limits.group(order.attempt)
    job, _, number = order.attempt.rpartition(".")
    environment = {
        "WARREN_JOB_ID": job,
        "WARREN_ATTEMPT": number,
        "WARREN_ATTEMPT_ID": order.attempt,
        **order.environment,
        "WARREN_ATTEMPT_DIR": folder,
    }
    environment.setdefault("PATH", _DEFAULT_PATH)
    if "WARREN_CHECKPOINT_DIR" not in order.environment:
        path = environment["WARREN_CHECKPOINT_DIR"] = f"{checkpoints}/{job}"
        _make_for(account, path)
    elif order.resume is not None and order.resume.checkpoints:
        _make_by(account, environment["WARREN_CHECKPOINT_DIR"])
    if account is not None:
        environment.update(HOME=account.home, USER=account.name, LOGNAME=account.name)
    processors = tuple(
        int(one.removeprefix(CPU_PREFIX)) for one in order.devices if one.startswith(CPU_PREFIX)
    )
    gpus = [one for one in order.devices if not one.startswith(CPU_PREFIX)]
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    if processors:
        environment.setdefault("OMP_NUM_THREADS", str(len(processors)))
    by_rlimit = None if group and limits.memory else order.memory_bytes
    return Place(order.folder, environment, account, group, processors, by_rlimit)


def _make_for(account: Account | None, path: str) -> None:
    """Make a folder of an account, if it is missing."""
    try:
        os.mkdir(path, 0o700)
        if account is not None:
            os.chown(path, account.uid, account.gid)
    except FileExistsError:
        return
    except OSError as error:
        raise CannotStart(f"{path} cannot be made: {error.strerror}") from None


@contextlib.contextmanager
def rights_of(account: Account | None) -> Iterator[None]:
    """Have the rights of an account on files, and no others, within a block.

    On storage of several hosts root may have none.
    """
    if account is None:
        yield
        return
    groups = os.getgroups()
    os.setgroups(account.groups)
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _make_by(account: Account | None, path: str) -> None:
    """Make a folder with the rights of an account, if it is missing."""
    try:
        with rights_of(account):
            os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except OSError as error:
        by = f" by account {account.name!r}" if account is not None else ""
        raise CannotStart(f"{path} cannot be made{by}: {error.strerror}") from None


def mark(folder: str) -> bytes:
    """Return what the environment of each process of an attempt holds."""
    return b"WARREN_ATTEMPT_DIR=" + os.fsencode(folder)


def spawn(
    command: Sequence[str], place: Place, stdio: tuple[int, int, int], terminal: bool = False
) -> int:
    """Start a command in a session of its own, and return its process id when it runs.

    Parameters
    ----------
    command
        The program, looked up in the PATH of its environment, and its arguments.
    place
        Where it runs.
    stdio
        Open files for its input, output and errors.
    terminal
        Whether its input is a terminal that it shall control.

    Raises
    ------
    CannotStart
        It does not run; the text names what is wrong, and where.
    """
    if place.account is None and place.rlimit_bytes is None and not terminal:
        return _spawn_lightly(command, place, stdio)
    came, went = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(command, place, stdio, terminal, went)
    os.close(went)
    with open(came, "rb") as file:
        error = file.read()
    if error:
        os.waitpid(pid, 0)
        raise CannotStart(error.decode(errors="replace"))
    return pid


def _spawn_lightly(command: Sequence[str], place: Place, stdio: tuple[int, int, int]) -> int:
    """Start a command without a fork of this process, which would cost more than all the rest.

    It inherits folder and processors, and is put into its cgroup when it runs.
    """
    if place.processors:
        _use_processors(place.processors)
    _enter(place)
    error: OSError | ValueError = FileNotFoundError(errno.ENOENT, "")
    try:
        for path in _paths(command[0], place.environment):
            try:
                pid = os.posix_spawn(
                    path,
                    list(command),
                    place.environment,
                    file_actions=[(os.POSIX_SPAWN_DUP2, fd, to) for to, fd in enumerate(stdio)],
                    setsid=True,
                    setsigmask=(),
                    setsigdef=_IGNORED_SIGNALS,
                )
                break
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError as denied:  # another folder of PATH may have it, too
                error = denied
        else:
            raise error
    except (OSError, ValueError) as why:
        raise CannotStart(_why_not(command[0], place, why)) from None
    finally:
        os.chdir("/")
    if place.group:
        cgroups.take_in(place.group, pid)
    return pid


def _paths(program: str, environment: Mapping[str, str]) -> list[str]:
    """Return where a program may be, in the order of PATH."""
    if "/" in program:
        return [program]
    return [os.path.join(folder, program) for folder in environment["PATH"].split(":")]


def _become(
    command: Sequence[str],
    place: Place,
    stdio: tuple[int, int, int],
    terminal: bool,
    errors: int,
) -> NoReturn:
    """Turn this process into the command, or write one line to ``errors``."""
    message = "the command did not start"
    try:
        os.setsid()
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        if terminal:
            _control_terminal()
        _prepare(place)
        _reset_signals()
        os.execvpe(command[0], list(command), place.environment)
    except CannotStart as error:
        message = str(error)
    except (OSError, ValueError) as error:
        message = _why_not(command[0], place, error)
    except BaseException as error:
        message = f"the command did not start: {error!r}"
    finally:
        with contextlib.suppress(OSError):
            os.write(errors, " ".join(message.split()).encode()[:1000])
        os._exit(127)


def _control_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _prepare(place: Place) -> None:
    if place.group:
        _or_cannot(lambda: cgroups.join(place.group), "the cgroup of the job cannot be entered")
    if place.processors:
        _use_processors(place.processors)
    if place.rlimit_bytes is not None:
        limit = place.rlimit_bytes
        _or_cannot(
            lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
            f"the memory limit of {limit:,} bytes cannot be set",
        )
    account = place.account
    if account is not None:
        os.setgroups(account.groups)
        os.setgid(account.gid)
        os.setuid(account.uid)
    _enter(place)


def _use_processors(processors: tuple[int, ...]) -> None:
    which = ", ".join(map(str, processors))
    _or_cannot(lambda: os.sched_setaffinity(0, processors), f"processors {which} cannot be used")


def _enter(place: Place) -> None:
    by = f" by account {place.account.name!r}" if place.account is not None else ""
    _or_cannot(lambda: os.chdir(place.folder), f"folder {place.folder!r} cannot be entered{by}")


def _or_cannot(step: Callable[[], None], message: str) -> None:
    try:
        step()
    except (OSError, ValueError) as error:
        raise CannotStart(f"{message}: {getattr(error, 'strerror', None) or error}") from None


def _reset_signals() -> None:
    for signum in _IGNORED_SIGNALS:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _why_not(program: str, place: Place, error: OSError | ValueError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT:
        if "/" in program:
            return f"command {program!r} does not exist in folder {place.folder!r}"
        return f"command {program!r} was not found in PATH={place.environment['PATH']}"
    if number in (errno.EACCES, errno.EPERM):
        by = f" by account {place.account.name!r}" if place.account is not None else ""
        return f"command {program!r} cannot be executed{by}: {os.strerror(number or 0)}"
    if number == errno.ENOEXEC:
        return f"command {program!r} is no program; does it lack a first line such as '#!/bin/sh'?"
    if number == errno.E2BIG:
        return f"command {program!r} has too long arguments or too large an environment"
    return f"command {program!r} cannot be executed: {getattr(error, 'strerror', None) or error}"
