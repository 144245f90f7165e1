"""The log of a job: what it has written, and what it writes while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Annotated, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from warren.serve.api.endpoint import Call, Route
from warren.serve.api.errors import Failure
from warren.serve.api.service import Service, may_see
from warren.serve.records.jobs import Attempt, attempt_id

CHUNK_BYTES: Final = 64 * 1024
"""Most bytes of a log that are read at once."""
PAUSE_S: Final = 0.2
"""Time between two looks at the log of a running job, in seconds."""
_HOLE: Final = bytes(4096)
"""Zeros that no program writes: where the middle of a long log was left out."""
_SILENCE_S: Final = 10.0
"""Longest wait for a host that reads a log, in seconds."""
_FOREVER_S: Final = 1e9
"""Longest wait for the start of a job whose log is followed, in seconds."""
_TEXT: Final = "text/plain; charset=utf-8"

Read = Callable[[int, int], Awaitable[bytes]]
"""Reads a log: offset and most bytes in, bytes out."""


class LogQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a log is sent.

    ``attempt`` is the last one by default. ``offset`` is the number of bytes left out at its
    beginning, ``tail`` the most bytes sent of its end. With ``follow`` the
    answer goes on until the job has ended.
    """

    attempt: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0
    tail: Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None = None
    follow: bool = False


async def read_job_log(call: Call, job: str, query: LogQuery) -> Response:
    """Send what a job has written; to its user and to admins."""
    service, found = call.service, call.service.job(job, call.caller)
    if not may_see(found, call.caller):
        reason = f"the log of job {job} is for its user and for admins"
        service.refuse(call.caller.user, f"read the log of job {job}", reason)
        raise Failure("forbidden", reason)
    if query.attempt is not None and query.attempt > len(found.attempts) and not query.follow:
        raise Failure("unknown", f"job {job} has {len(found.attempts)} attempts")
    log = JobLog(service, found.id, query)
    try:
        await log.check()
    except UnreadableLog as error:
        raise Failure("conflict", str(error)) from None
    parts = _to_end(log.parts(call.request), follow=query.follow)
    return StreamingResponse(parts, media_type=_TEXT)


async def _to_end(parts: AsyncIterator[bytes], *, follow: bool) -> AsyncIterator[bytes]:
    try:
        async for part in parts:
            yield part
    except UnreadableLog as error:
        # Who follows counts the bytes of the log, and asks again from there.
        if not follow:
            yield f"\n[the log ends here: {error}]\n".encode()


class UnreadableLog(Exception):
    """The host of a log does not send it."""


class JobLog:
    """Follows the attempts of a job.

    Parameters
    ----------
    service
        The service.
    job
        Id of the job.
    query
        Which part is read.
    """

    def __init__(self, service: Service, job: str, query: LogQuery) -> None:
        self._service = service
        self._job = job
        self._query = query
        self._number = query.attempt or len(service.queue.jobs[job].attempts) or 1

    async def check(self) -> None:
        """Look whether the log can be read, where there is one; raises as ``parts`` does."""
        if self._attempt(self._number) is not None:
            await self._reader(self._number)(self._query.offset, 1)

    async def parts(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the log in parts.

        Raises
        ------
        UnreadableLog
            If the host of the job does not answer.
        """
        query, service, number = self._query, self._service, self._number
        offset = query.offset
        first = True
        while True:
            if self._attempt(number) is None:
                if not query.follow:
                    return
                await service.until(partial(self._begun_or_over, number), _FOREVER_S, request)
                if self._attempt(number) is None:
                    return
            if first and query.tail is not None:
                read = self._reader(number)
                offset = max(offset, await end_of(read, offset) - query.tail)
            first = False
            async for part in self._attempt_parts(number, offset):
                yield part
            if not query.follow or query.attempt is not None or service.closing:
                return
            number, offset = number + 1, 0

    async def _attempt_parts(self, number: int, offset: int) -> AsyncIterator[bytes]:
        """Yield the log of one attempt; with ``follow`` until it has ended and all was read."""
        read = self._reader(number)
        while True:
            attempt = self._attempt(number)
            over = attempt is None or attempt.ended_ns is not None
            while part := await read(offset, CHUNK_BYTES - offset % CHUNK_BYTES):
                text, hole, rest = part.partition(_HOLE)
                is_whole = (offset + len(part)) % CHUNK_BYTES == 0
                if not hole or not is_whole or rest.strip(b"\0"):
                    offset += len(part)
                    yield part
                    continue
                if text:
                    yield text
                offset = await end_of_hole(read, offset + len(text))
            if over or not self._query.follow or self._service.closing:
                return
            await asyncio.sleep(PAUSE_S)

    def _attempt(self, number: int) -> Attempt | None:
        attempts = self._service.queue.jobs[self._job].attempts
        return attempts[number - 1] if number <= len(attempts) else None

    def _begun_or_over(self, number: int) -> bool:
        return self._attempt(number) is not None or self._service.queue.jobs[self._job].state.ended

    def _reader(self, number: int) -> Read:
        attempt = self._attempt(number)
        assert attempt is not None
        name, hosts = attempt_id(self._job, number), self._service.daemon.hosts

        async def read(offset: int, limit: int) -> bytes:
            try:
                async with asyncio.timeout(_SILENCE_S):
                    return await hosts.read_log(attempt.host, name, offset, limit)
            except FileNotFoundError:
                return b""
            except Exception as error:
                reason = str(error) or "it does not answer"
                raise UnreadableLog(f"host {attempt.host}: {reason}") from None

        return read


async def end_of(read: Read, start: int) -> int:
    """Return the length of a log by asking for single bytes; ``start`` if it is shorter."""
    low, step = start, 1 << 16
    while await read(low + step - 1, 1):
        low, step = low + step, step * 2
    high = low + step - 1
    while low < high:  # byte `low - 1` is there, byte `high` is not
        middle = (low + high) // 2
        if await read(middle, 1):
            low = middle + 1
        else:
            high = middle
    return low


async def end_of_hole(read: Read, start: int) -> int:
    """Return where a log goes on after a hole, by looking at the beginnings of chunks."""

    async def is_in_hole(chunk: int) -> bool:
        return await read(chunk * CHUNK_BYTES, len(_HOLE)) == _HOLE

    low, step = start // CHUNK_BYTES + 1, 1
    while await is_in_hole(low + step - 1):
        low, step = low + step, step * 2
    high = low + step - 1
    while low < high:  # chunk `low - 1` is in the hole, chunk `high` is not
        middle = (low + high) // 2
        if await is_in_hole(middle):
            low = middle + 1
        else:
            high = middle
    return low * CHUNK_BYTES


ROUTES: Final = (Route("GET", "/v1/jobs/{job}/log", read_job_log, media=_TEXT),)
"""Routes of logs."""
