"""``warren logs`` and ``warren wait``: what goes on until a job ends, also over a restart."""

from __future__ import annotations

import sys
import time

from warren.cli.service.declare import JSON, SERVER, Argument, Option, command
from warren.cli.service.text import clean
from warren.serve.client import values
from warren.serve.client.client import AGAIN_S, ENDED, Client

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Final

_PAUSE_S: Final = 0.1
"""Pause before the state of a job is asked again whose log is at its end, in seconds."""
_TAIL_BYTES: Final = 65_536
"""Bytes at the end of a log in which its last lines are looked for first."""


class Away:
    """Says once that the service does not answer, whenever it has ended."""

    def __init__(self) -> None:
        self.said = False

    def __call__(self, error: Exception) -> None:
        """Say it, unless it was said."""
        if not self.said:
            print(f"{error}; waiting for the service", file=sys.stderr, flush=True)
        self.said = True


@command(
    Argument("job", "ID", "Id of a job, or the name of one of yours."),
    Option("--follow -f", "Go on until the job has ended."),
    Option("--tail", "Only the last lines.", "N", values.positive),
    Option("--attempt", "Number of the attempt, from 1. Default: the last.", "N", values.positive),
    SERVER,
    examples=("warren logs 12", "warren logs -f 12", "warren logs --tail 20 12"),
)
def logs(
    *, job: str, follow: bool, tail: int | None, attempt: int | None, server: str | None
) -> None:
    """Print the output of a job.

    Standard output and standard error of the job are one log. It stays after the end.
    """
    with Client(server) as service:
        if follow:
            printed = _copy(_Follower(service, job, attempt).pieces(tail))
        elif tail is not None:
            printed = _copy(iter([_tail(service, job, attempt, tail)]))
        else:
            printed = _copy(service.logs(job, attempt=attempt))
        if not printed:
            _explain(service.show(job))


def _explain(shown: dict[str, Any]) -> None:
    """Say why a job whose command has not begun has no output."""
    if all(one["started_s"] is None for one in shown["attempts"]):
        reason = f": {clean(shown['reason'])}" if shown["reason"] else ""
        state = shown["state"] if shown["state"] in ENDED else f"is {shown['state']}"
        print(f"job {clean(shown['id'])} {state}{reason}", file=sys.stderr, flush=True)


def _tail(service: Client, job: str, attempt: int | None, lines: int) -> bytes:
    """Return the last lines of a log, without reading all of a long one."""
    asked = _TAIL_BYTES
    while True:
        text = b"".join(service.logs(job, attempt=attempt, tail=asked))
        found = _last_lines(text, lines)
        if len(found) < len(text) or len(text) < asked:
            return found
        asked *= 4


def _last_lines(text: bytes, count: int) -> bytes:
    """Return the last lines of a text; all of it where it has no more."""
    at = len(text) - text.endswith(b"\n")
    for _ in range(count):
        at = text.rfind(b"\n", 0, max(at, 0))
        if at < 0:
            return text
    return text[at + 1 :]


def _copy(pieces: Iterator[bytes]) -> int:
    """Print the pieces as they come, whatever bytes they have; return how many bytes came."""
    sys.stdout.flush()
    printed = 0
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        printed += len(piece)
    return printed


class _Follower:
    """Follows the log of a job over its attempts, and over a restart of the service.

    Parameters
    ----------
    service
        The service.
    job
        Id or name of the job.
    attempt
        Number of the only attempt to follow; None: the last one, and those after it.
    """

    def __init__(self, service: Client, job: str, attempt: int | None) -> None:
        self._service = service
        self._job = job
        self._only = attempt
        self._away = Away()
        self._offset = 0
        self._whole = False
        self._heard = False

    def pieces(self, tail: int | None) -> Iterator[bytes]:
        """Yield the log, from its last lines on if ``tail`` says how many."""
        shown = self._service.show(self._job)
        # Another job may get the name meanwhile.
        self._job = shown["id"]
        if shown["state"] not in ENDED:
            _explain(shown)
        number = self._only or len(shown["attempts"]) or 1
        if tail is not None:
            whole = b"".join(self._service.logs(self._job, attempt=number))
            self._offset = len(whole)
            yield _last_lines(whole, tail)
        while True:
            attempts = shown["attempts"]
            ended = number <= len(attempts) and attempts[number - 1]["ended_s"] is not None
            yield from self._stream(number)
            # A stream that began before the end of its attempt may have ended with the service.
            if not (ended and self._whole):
                time.sleep(AGAIN_S if not self._whole else _PAUSE_S)
            elif self._only is not None or (shown["state"] in ENDED and number >= len(attempts)):
                return
            else:
                number, self._offset = number + 1, 0
            shown = self._service.patient(lambda: self._service.show(self._job), self._away)

    def _stream(self, number: int) -> Iterator[bytes]:
        """Yield what one request answers, and note whether it was answered as a whole."""
        from warren.serve.client.errors import ServiceError

        self._whole = False
        try:
            for piece in self._service.logs(
                self._job, follow=True, offset=self._offset, attempt=number
            ):
                self._offset += len(piece)
                self._heard = True
                yield piece
        except ServiceError as error:
            # Right after the service has started again, its agents may not have connected.
            if error.kind != "unreachable" and not (error.kind == "conflict" and self._heard):
                raise
            self._away(error)
        else:
            self._whole = self._heard = True


@command(
    Argument("jobs", "ID...", "Ids of jobs or arrays, or names of jobs of yours.", many=True),
    SERVER,
    JSON,
    examples=("warren wait 12", "warren wait 12 13 && echo both finished"),
)
def wait(*, jobs: tuple[str, ...], server: str | None, json_: bool) -> int:
    """Wait until jobs have ended.

    Exit code 0: all finished. Exit code 1: one failed or was cancelled.
    """
    with Client(server) as service:
        ids = [one for job in jobs for one in _members(service, job)]
        return wait_for(service, ids, json_=json_)


def _members(service: Client, job: str) -> list[str]:
    """Return the ids of the jobs that an id means: of an array, all of its jobs."""
    from warren.serve.client.errors import ServiceError

    try:
        return [str(service.show(job)["id"])]
    except ServiceError as error:
        rows = service.queue(array=job) if error.kind == "unknown" else []
        if not rows:
            raise
        return [str(row["id"]) for row in rows]


def wait_for(service: Client, jobs: Sequence[str], *, json_: bool = False) -> int:
    """Wait for jobs, say which did not finish, and return the exit code."""
    away = Away()
    found = [service.wait(job, away) for job in jobs]
    if json_:
        import json

        print(json.dumps(found if len(found) > 1 else found[0], ensure_ascii=False), flush=True)
    for ended in found:
        if ended["state"] != "finished":
            reason = f": {clean(ended['reason'])}" if ended.get("reason") else ""
            print(f"job {clean(ended['id'])} {ended['state']}{reason}", file=sys.stderr, flush=True)
    return 0 if all(one["state"] == "finished" for one in found) else 1
