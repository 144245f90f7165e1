"""A thread that writes files while its process goes on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Writer:
    """Does one thing after another. Errors come up again where the results are asked for.

    A poller can wait for ``fileno``: it is readable while results, or an error, can be taken. The
    thread is started by the first ``submit``, so that a process may fork before.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="warren-writer")
        self._jobs: list[Future[Any]] = []
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """For polling."""
        return self._bell

    def submit(self, call: Callable[[], Any]) -> None:
        """Let the thread do this next.

        One call waits at most, so that no more than two hold what they write: if one does, this
        waits until it has begun.
        """
        if len(self._jobs) > 1:
            self._jobs[-2].exception()
        job = self._thread.submit(call)
        self._jobs.append(job)
        job.add_done_callback(lambda _: os.eventfd_write(self._bell, 1))

    def results(self) -> list[Any]:
        """What the calls done since the last time gave, in order.

        Raises
        ------
        BaseException
            What the first of them that failed raised; the others are asked for next time.
        """
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        found: list[Any] = []
        while self._jobs and self._jobs[0].done():
            if self._jobs[0].exception() is not None and found:
                os.eventfd_write(self._bell, 1)
                break
            found.append(self._jobs.pop(0).result())
        return found

    def wait(self) -> list[Any]:
        """``results``, once everything is done."""
        for job in self._jobs:
            job.exception()
        return self.results()

    def close(self) -> None:
        """Finish what is under way."""
        self._thread.shutdown()
        os.close(self._bell)
