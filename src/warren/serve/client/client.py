"""The client of the service, for commands and for Python.

::

    from warren.serve.client.client import Client

    with Client() as service:
        job = service.submit(["python", "train.py"], devices=2, time="4h")
        print(service.wait(job)["state"])
"""

from __future__ import annotations

from warren.serve.client.address import address_of, refused, token_of
from warren.serve.client.http import ANSWER_S, HttpConnection, lost
from warren.serve.client.submission import submission

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Final, Self

WAIT_S: Final = 30.0
"""Time after which the service answers a wait for a job that still runs, in seconds."""
AGAIN_S: Final = 1.0
"""Pause before a service that has ended is asked again, in seconds."""
ENDED: Final = ("finished", "failed", "cancelled")
"""States of jobs that never run again."""


class Client:
    """The service, as a user sees it.

    Parameters
    ----------
    server
        Path of its socket, or ``HOST:PORT#sha256=HEX``; WARREN_SERVER, else the default, if None.
    token
        Token for a service elsewhere; WARREN_TOKEN, else the file ``~/.warren/token``, if None.

    All methods raise ServiceError if the service refuses, or cannot be reached.
    """

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self.address: Final = address_of(server)
        if token is None and not self.address.path:
            token = token_of()
        self._connection = HttpConnection(self.address, token or "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def submit(
        self,
        command: Sequence[str],
        *,
        time: str | None = None,
        memory: str | None = None,
        **fields: Any,
    ) -> str:
        """Submit a command, and return the id of the job, or of its array.

        Parameters
        ----------
        command
            Program and arguments.
        time, memory
            Limits, as people write them: ``4h``, ``16 GB``.
        fields
            What else ``warren.serve.client.submission.submission`` takes.
        """
        from warren.serve.client import values

        if time is not None:
            fields["time_limit_s"] = values.seconds(time)
        if memory is not None:
            fields["memory_bytes"] = values.size(memory)
        return str(self.ask("POST", "/v1/jobs", submission(command, **fields))["id"])

    def queue(self, **chosen: Any) -> list[dict[str, Any]]:
        """Return the jobs, in the order of their submission.

        Parameters
        ----------
        chosen
            ``user``, ``state``, ``array``, ``limit``: which jobs.
        """
        rows: list[dict[str, Any]] = self.ask("GET", f"/v1/jobs{query(chosen)}")
        return rows

    def show(self, job: str) -> dict[str, Any]:
        """Return all about a job."""
        found: dict[str, Any] = self.ask("GET", f"/v1/jobs/{quoted(job)}")
        return found

    def cancel(self, *jobs: str) -> None:
        """Cancel jobs; those that run are stopped."""
        for job in jobs:
            self.ask("POST", f"/v1/jobs/{quoted(job)}/cancel")

    def preempt(self, *jobs: str) -> None:
        """Take the devices of running jobs that can come back; they save, and wait again."""
        for job in jobs:
            self.ask("POST", f"/v1/jobs/{quoted(job)}/preempt")

    def wait(self, job: str, away: Callable[[Exception], None] | None = None) -> dict[str, Any]:
        """Return all about a job once it has ended.

        Parameters
        ----------
        job
            Its id.
        away
            Called with the error whenever the service is asked in vain; then it is asked again.
            Without it the error is raised.
        """
        path = f"/v1/jobs/{quoted(job)}/wait?timeout_s={WAIT_S:g}"

        def ask() -> dict[str, Any]:
            found: dict[str, Any] = self.ask("GET", path, timeout_s=WAIT_S + ANSWER_S)
            return found

        while True:
            shown = ask() if away is None else self.patient(ask, away)
            if shown["state"] in ENDED:
                return shown

    def patient(
        self, ask: Callable[[], dict[str, Any]], away: Callable[[Exception], None]
    ) -> dict[str, Any]:
        """Return an answer of the service, which is asked again while it cannot be reached."""
        from warren.serve.client.errors import ServiceError

        while True:
            try:
                return ask()
            except ServiceError as error:
                if error.kind != "unreachable":
                    raise
                away(error)
            _pause()

    def logs(
        self,
        job: str,
        *,
        follow: bool = False,
        offset: int = 0,
        tail: int | None = None,
        attempt: int | None = None,
    ) -> Iterator[bytes]:
        """Yield the output of a job, as it comes.

        Parameters
        ----------
        job
            Its id.
        follow
            Go on until the job has ended.
        offset
            Bytes to leave out at the beginning.
        tail
            Bytes at the end to which the answer is limited.
        attempt
            Number of the attempt, from 1; the last one by default.
        """
        asked = {
            "offset": offset or None,
            "tail": tail,
            "follow": int(follow) or None,
            "attempt": attempt,
        }
        path = f"/v1/jobs/{quoted(job)}/log{query(asked)}"
        answer = self._connection.request("GET", path, timeout_s=None if follow else ANSWER_S)
        whole = False
        try:
            if answer.status != 200:
                raise self._refusal(answer.status, answer.body())
            yield from answer.pieces()
            whole = True
        except (OSError, EOFError) as error:
            raise lost(self.address, "GET", str(error)) from error
        finally:
            if not whole:
                self.close()

    def ask(
        self, method: str, path: str, body: Any = None, timeout_s: float | None = ANSWER_S
    ) -> Any:
        """Return the answer to a request, read from JSON; None if it has no body."""
        import json

        text = self.ask_text(method, path, body, timeout_s)
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise refused(f"{self._place}: what answers there is no Warren service") from None

    def ask_text(
        self, method: str, path: str, body: Any = None, timeout_s: float | None = ANSWER_S
    ) -> bytes:
        """Return the answer to a request as it came."""
        import json

        sent = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        answer = self._connection.request(method, path, sent, timeout_s)
        try:
            text = answer.body()
        except (OSError, EOFError, ValueError) as error:
            self.close()
            raise lost(self.address, method, str(error)) from error
        if not 200 <= answer.status < 300:
            raise self._refusal(answer.status, text)
        return text

    @property
    def _place(self) -> str:
        return self.address.text

    def _refusal(self, status: int, text: bytes) -> Exception:
        """Return the error of an answer that is a refusal."""
        import json

        try:
            said = json.loads(text)
            message, kind = str(said["error"]), str(said.get("kind", ""))
        except (ValueError, TypeError, KeyError):
            message, kind = f"{self._place}: answered with status {status}", ""
        if status == 401:
            message += "; a token goes into WARREN_TOKEN or ~/.warren/token"
        return refused(message, kind or "wrong")


def query(chosen: dict[str, Any]) -> str:
    """Return the query of a path: all values but None."""
    parts = [f"{name}={quoted(str(value))}" for name, value in chosen.items() if value is not None]
    return f"?{'&'.join(parts)}" if parts else ""


def quoted(text: str) -> str:
    """Return a text as a part of a path or a query."""
    # Not urllib, which takes longer to load than a request.
    if text.isalnum() and text.isascii():
        return text
    plain = b"-._~"
    data = text.encode("utf-8", "surrogateescape")
    return "".join(
        chr(one) if (chr(one).isalnum() and one < 128) or one in plain else f"%{one:02X}"
        for one in data
    )


def _pause() -> None:
    """Wait before a service that has ended is asked again."""
    import time

    time.sleep(AGAIN_S)
