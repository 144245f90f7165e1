"""Claims of processors and GPUs of this machine, so that two runs do not share them unasked.

A claim is a lock of the kernel on a file, so it ends with the process that has it, however that
process ends. The files are in one folder for all users of the machine; each names the holder of the
claim. If anything is wrong with the folder, the run goes on without claims: they are a help and no
protection.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import stat
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from warren.live.gpu.discovery import gpus_of
from warren.live.process.linux import core_of
from warren.model.errors import Problem, SpecError, short_line
from warren.model.run import Run

VARIABLE: Final = "WARREN_CLAIMS"
"""Environment variable that names the folder of claims; empty: nothing is claimed."""
_FOLDER: Final = "/tmp/warren-claims"  # noqa: S108 - for all users; what is there is not trusted
"""The folder unless the variable names one. Not under ``TMPDIR``: users may have their own."""
_WAIT_S: Final = 5.0
"""Longest wait in seconds for another process to make its claims."""
_TEXT_BYTES: Final = 1000
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE: Final = _READ | os.O_RDWR
_covered: ContextVar[bool] = ContextVar("covered", default=False)
_share: ContextVar[bool] = ContextVar("share", default=False)


@contextlib.contextmanager
def devices_held(run: Run, folder: Path | str, *, share: bool = False) -> Iterator[None]:
    """Hold the devices of a run; engines that are started within claim nothing.

    Only real devices of this machine are claimed: none if times are emulated, since many emulated
    devices share few processors, and none under Ray, where agents claim the GPUs of their machines.

    Parameters
    ----------
    run : Run
        The run.
    folder : Path or str
        Its folder, which the claim shows to other runs.
    share : bool
        Whether the run goes on although other runs have some of its devices.

    Raises
    ------
    SpecError
        If other runs have claimed wanted devices, or the run names GPUs that are not here.
    """
    cluster = run.cluster
    real = cluster.live_emulate is None and cluster.engine != "ray"
    if _covered.get() or not real or not claims_folder():
        token = _share.set(share or _share.get())
        try:
            yield
        finally:
            _share.reset(token)
        return
    gpus = gpus_of(cluster.devices)
    # The plain engine trains one job after the other, on the first device.
    used = gpus if cluster.is_scheduled else gpus[:1]
    named = {one.uuid or str(one.index): f"GPU {one.index} ({one.name})" for one in used if one}
    processors = [device for device, gpu in enumerate(used) if gpu is None]
    pinned = [core_of(device) for device in processors] if cluster.local.pin else []
    shown = str(Path(folder).absolute())
    with contextlib.closing(DeviceClaims(len(processors), named, shown, pinned, share=share)):
        token = _covered.set(True)
        try:
            yield
        finally:
            _covered.reset(token)


class DeviceClaims:
    """The claims of one engine; ``close`` gives them back.

    Parameters
    ----------
    processors : int
        Number of processors to claim; all, if there are fewer.
    gpus : mapping of str to str
        The GPUs to claim: the name for people by what identifies each on this machine.
    run : str
        The run's folder, which the claim shows to other runs.
    pinned : sequence of int, optional
        The cores that the run is pinned to, which are claimed first; empty: any.
    share : bool
        Whether claims of other runs are no error.

    Raises
    ------
    SpecError
        If other runs have claimed wanted devices; the message names those runs.
    """

    def __init__(
        self,
        processors: int,
        gpus: Mapping[str, str],
        run: str,
        pinned: Sequence[int] = (),
        *,
        share: bool = False,
    ) -> None:
        self._held: list[int] = []
        with _claiming(self._held) as folder:
            if folder is not None:
                text = f"{_user()}\0{os.getpid()}\0{run}\0{time.strftime('%Y-%m-%d %H:%M')}"
                whose = self._claim(folder, processors, gpus, text.encode(), pinned)
                if whose and not share:
                    self.close()
                    raise SpecError(Problem(file="cluster", field="devices", message=whose))

    def close(self) -> None:
        """Give all back; may be called twice."""
        _close(self._held)

    def _claim(
        self,
        folder: Path,
        processors: int,
        gpus: Mapping[str, str],
        text: bytes,
        pinned: Sequence[int],
    ) -> str:
        """Claim the devices; return those that other runs have, and the holders; empty: none."""
        short, whose = [], list[str]()
        for key, shown in gpus.items():
            if (holder := _take(folder / f"gpu-{key}", text, self._held)) is not None:
                short.append(shown)
                whose.append(holder)
        here = sorted(os.sched_getaffinity(0))
        wanted, mine, takers = min(processors, len(here)), 0, list[str]()
        for core in dict.fromkeys([*pinned, *here]):
            if mine == wanted:
                break
            holder = _take(folder / f"cpu-{core}", text, self._held)
            mine += holder is None
            takers += [] if holder is None else [holder]
        if mine < wanted:
            plural = "processor" if wanted == 1 else "processors"
            short.append(f"{wanted} {plural} ({mine} of {len(here)} free)")
            whose += takers
        if not short:
            return ""
        return (
            f"{', '.join(short)} cannot be claimed: {_counted(whose)}; wait for its end, or share: "
            f"`warren run --share`, or {VARIABLE}= in the environment of other commands"
        )


def claimed_by_others() -> str:
    """Name the holders of claims on processors that this process may use; empty: no claims."""
    held: list[int] = []
    with _claiming(held) as folder:
        cores = [] if folder is None else [folder / f"cpu-{i}" for i in os.sched_getaffinity(0)]
        holders = [_take(core, b"", held) for core in cores]
        _close(held)
    return _counted([one for one in holders if one is not None])


def _counted(holders: Sequence[str]) -> str:
    """Say how many devices each holder has."""
    return " and ".join(f"{holder} has {n}" for holder, n in Counter(holders).items())


def _close(files: list[int]) -> None:
    """Close files, and with them give their locks back."""
    while files:
        os.close(files.pop())


def _take(path: Path, text: bytes, held: list[int]) -> str | None:
    """Claim one device; return the holder, or None if it was free or cannot be claimed."""
    try:
        file = _opened(path)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        found = os.pread(file, _TEXT_BYTES, 0)
        os.close(file)
        return _holder(found) if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    held.append(file)
    if text:
        with contextlib.suppress(OSError):  # a full disk
            os.ftruncate(file, 0)
            os.pwrite(file, text, 0)
    return None


@contextlib.contextmanager
def _claiming(held: list[int]) -> Iterator[Path | None]:
    """Give the folder of claims while no other process claims anything; None: there is none."""
    path, lock = Path(claims_folder()), -1
    try:
        if claims_folder():
            with contextlib.suppress(FileExistsError):
                path.mkdir(parents=True)
                path.chmod(0o1777)
            # A lock on the folder lets services that remove old files leave it alone.
            held.append(os.open(path, _READ | os.O_DIRECTORY))
            fcntl.flock(held[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
            lock = _opened(path / "lock")
            _wait_for(lock)
    except OSError:
        yield None
        return
    try:
        yield path if lock >= 0 else None
    finally:
        if lock >= 0:
            os.close(lock)


def claims_folder() -> str:
    """Return the folder of claims; empty: there is none."""
    return os.environ.get(VARIABLE, _FOLDER)


def shares() -> bool:
    """Tell whether the surrounding ``devices_held`` lets its run share devices."""
    return _share.get()


def _wait_for(file: int) -> None:
    """Lock a file; a process that has it for too long is not waited for."""
    until_s = time.monotonic() + _WAIT_S
    while time.monotonic() < until_s:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.005)


def _opened(path: Path) -> int:
    """Open a file for all users, made if need be; another user may have made it."""
    while True:
        # Without O_CREAT first: the kernel refuses that for a file of another user's.
        with contextlib.suppress(FileNotFoundError):
            file = os.open(path, _WRITE)
            break
        with contextlib.suppress(FileExistsError):
            file = os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, 0o666)
            with contextlib.suppress(OSError):
                os.fchmod(file, 0o666)
            break
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "is not a file", str(path))
    return file


def _holder(text: bytes) -> str:
    """Return the holder of a claim in words; any user may have written anything there."""
    parts = short_line(text.decode(errors="replace").replace("\0", "\n").strip(), 200)
    fields = text.decode(errors="replace").split("\0")
    if len(fields) != len(("user", "pid", "run", "since")):
        return parts or "an unknown run"
    user, pid, run, since = (short_line(one, 200) for one in fields)
    return f"run {run} of {user} (process {pid}, since {since})"


def _user() -> str:
    """Return the name of this process's user; its number if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
