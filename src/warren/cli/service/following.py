"""``warren logs`` and ``warren wait``: what goes on until a job ends, also over a restart."""

from __future__ import annotations

import sys

from warren.cli.service.declare import JSON, SERVER, Argument, Option, command
from warren.serve.client import values
from warren.serve.client.client import AGAIN_S, Client

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


class _Away:
    """Says once that the service does not answer, whenever it has ended."""

    def __init__(self) -> None:
        self.said = False

    def __call__(self, error: Exception) -> None:
        """Say it, unless it was said."""
        if not self.said:
            print(f"{error}; waiting for the service", file=sys.stderr, flush=True)
        self.said = True


@command(
    Argument("job", "ID", "Id of a job, or the name of a job of yours."),
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
        if tail is None:
            _copy(
                _patient(service, job, attempt, 0) if follow else service.logs(job, attempt=attempt)
            )
            return
        whole = b"".join(service.logs(job, attempt=attempt))
        _copy(iter([_last_lines(whole, tail)]))
        if follow:
            _copy(_patient(service, job, attempt, len(whole)))


def _last_lines(text: bytes, count: int) -> bytes:
    """Return the last lines of a log."""
    at = len(text.rstrip(b"\n"))
    for _ in range(count):
        at = text.rfind(b"\n", 0, max(at, 0))
        if at < 0:
            return text
    return text[at + 1 :]


def _copy(pieces: Iterator[bytes]) -> None:
    """Print the pieces as they come, whatever bytes they have."""
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


def _patient(service: Client, job: str, attempt: int | None, offset: int) -> Iterator[bytes]:
    """Follow a log; where the service ends meanwhile, go on at the same byte once it is back."""
    import time

    from warren.serve.client.errors import ServiceError

    away, asked = _Away(), False
    while True:
        try:
            for piece in service.logs(job, follow=True, offset=offset, attempt=attempt):
                asked = True
                offset += len(piece)
                yield piece
            return
        except ServiceError as error:
            if not asked or error.kind != "unreachable":
                raise
            away(error)
            time.sleep(AGAIN_S)


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
        if not json_:
            return wait_for(service, jobs)
        import json

        found = [service.wait(job, _Away()) for job in jobs]
        print(json.dumps(found if len(found) > 1 else found[0], ensure_ascii=False), flush=True)
        return _code(found)


def wait_for(service: Client, jobs: Sequence[str]) -> int:
    """Wait for jobs, say how each one ended, and return the exit code."""
    from warren.cli.service.text import clean

    found = []
    for job in jobs:
        ended = service.wait(job, _Away())
        found.append(ended)
        if ended["state"] != "finished":
            reason = f": {clean(ended['reason'])}" if ended.get("reason") else ""
            print(f"job {clean(ended['id'])} {ended['state']}{reason}", file=sys.stderr, flush=True)
    return _code(found)


def _code(found: list[dict[str, Any]]) -> int:
    """Return the exit code for jobs that have ended."""
    return 0 if all(one["state"] == "finished" for one in found) else 1
