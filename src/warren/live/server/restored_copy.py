"""Compare a server with a copy that a child restores from its state some rounds before.

This shows values that a search does not see (a counter in a library, a variable of a context).
Early in each life of a job, a child of its server loads the app again, restores the server's
earlier state, and repeats the steps since then from the same gradients. Then both must have the
same values and metrics. The server goes on meanwhile; the child holds no connection of it. A child
cannot use a GPU that its parent uses, so state on a GPU is compared by ``warren check`` alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Final

from warren.live.process.linux import die_with_parent
from warren.live.training.app.app_contract import refuse
from warren.live.training.app.app_loader import build_app, forget_apps
from warren.live.training.parameter_store import ParameterStore
from warren.model.errors import SpecError
from warren.model.job import Job

_FROM: Final = 2
"""Number of rounds of a server before the state that the child restores."""
_STEPS: Final = 3
"""Number of steps that the child makes again."""
_MOST_BYTES: Final = 1 << 30
"""Size of the largest model that is compared: the child has another one."""
_MOST_S: Final = 300


class RestoredCopy:
    """Watches the first rounds of a store; to be asked after each round.

    ``within``: the host has room for another copy of the data, since no budget limits them.
    """

    def __init__(self, store: ParameterStore, job: Job, base: str, *, within: bool = True) -> None:
        self._store = store
        self._job = job
        self._base = base
        self._within = within
        self._rounds = 0
        self._pid = 0
        self._verdict = -1

    def after_round(self) -> None:
        """Go on with the comparison: a round has passed, and its state is that of the next.

        Raises
        ------
        SpecError
            The copy came to other values.
        """
        self._hear()
        self._rounds += 1
        store = self._store
        fits = self._within and store.total_bytes <= _MOST_BYTES and store.device is None
        if self._rounds == _FROM and fits and store.repeated.useful:
            store.repeated.watch(store.checkpoint_part())
        elif self._rounds == _FROM + _STEPS and store.repeated.watched:
            self._fork()
            store.repeated.unwatch()

    def _fork(self) -> None:
        """Let a child compare; without room for one there is no comparison."""
        self._verdict, out = os.pipe()
        os.set_blocking(self._verdict, False)
        parent = os.getpid()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(out)
            self._close()
            return
        if self._pid:
            os.close(out)
            return
        try:
            die_with_parent(parent)
            os.write(out, self._compared(out).encode())
        finally:
            os._exit(0)

    def _compared(self, out: int) -> str:
        """Return the fault found, in the child; nothing if it cannot tell."""
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        # Others must see when the server ends, though its child still lives.
        os.closerange(3, out)
        os.closerange(out + 1, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_MOST_S)
        forget_apps()
        try:
            self._store.repeated.verify(build_app(self._job, self._base), self._store.version)
        except SpecError as error:
            return error.problems[0].message
        except BaseException:  # an error in the child's build is no fault of the job's
            return ""
        return ""

    def _hear(self) -> None:
        """Take the child's answer, once it has ended."""
        if self._verdict < 0:
            return
        try:
            said = os.read(self._verdict, 1 << 12).decode()
        except BlockingIOError:
            return
        self._close()
        if said:
            raise refuse(self._job, "", said)

    def _close(self) -> None:
        os.close(self._verdict)
        self._verdict = -1
        if self._pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
