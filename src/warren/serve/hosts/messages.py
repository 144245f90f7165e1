"""Messages between the daemon and an agent: one JSON object a line, of a limited size.

An agent says ``Hello`` first; the daemon answers ``Welcome``, or ``HelloRefused`` and ends the
connection. After that the daemon sends orders and the agent sends reports, in the types of
``hosts/port.py``. Each side sends ``Beat`` when it has nothing else to say.
"""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar

import msgspec

from warren.serve.hosts.port import (
    AttemptIdle,
    CommandEnded,
    CommandStarted,
    DevicesSeen,
    DeviceTested,
    StartOrder,
    XidSeen,
)
from warren.serve.records.machines import Machine

PROTOCOL: Final = 1
"""Version of the messages; both sides must have the same."""
LINE_BYTES: Final = 8 << 20
"""Longest line in bytes. An order holds a whole environment, of which Linux takes 2 MiB."""
HELLO_BYTES: Final = 1 << 20
"""Longest line in bytes of an agent that has not shown its token."""
PIECE_BYTES: Final = 256 << 10
"""Most bytes of a log in one answer."""
BEAT_S: Final = 5.0
"""Seconds between two beats."""


class MalformedMessage(Exception):
    """Bytes that are no message; the text is one line."""


class Hello(msgspec.Struct, frozen=True, tag="hello", omit_defaults=True):
    """What an agent says first.

    ``agent`` is a random name that belongs to the agent's folder: an agent that connects a second
    time replaces its first connection, another agent of the same host name is refused.
    ``attempts`` names all attempts whose record the agent keeps.
    """

    machine: Machine
    attempts: tuple[str, ...]
    agent: str
    token: str = ""
    protocol: int = PROTOCOL


class Welcome(msgspec.Struct, frozen=True, tag="welcome", omit_defaults=True):
    """The daemon accepts the agent, which repeats its reports now.

    Attempts whose devices do nothing for ``idle_s`` seconds are reported; None: they are not.
    ``xids``: errors that the driver reports of GPUs are reported, too.
    """

    idle_s: float | None = None
    xids: bool = False


class HelloRefused(msgspec.Struct, frozen=True, tag="refused"):
    """The daemon does not accept the agent."""

    reason: str


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """The sender is alive."""


class StartAttempt(msgspec.Struct, frozen=True, tag="start"):
    """Start an attempt."""

    order: StartOrder


class StopAttempt(msgspec.Struct, frozen=True, tag="stop"):
    """End an attempt; with ``preempt`` its job comes back, and has a signal of its own."""

    attempt: str
    grace_s: float
    preempt: bool = False


class TestDevice(msgspec.Struct, frozen=True, tag="test"):
    """Test a GPU; only an agent that said it can is asked."""

    device: str


class ForgetRecord(msgspec.Struct, frozen=True, tag="forget"):
    """Delete the record of an attempt that has ended, and keep its log."""

    attempt: str


class ReadLog(msgspec.Struct, frozen=True, tag="read"):
    """Send a piece of an attempt's log; ``number`` comes back with the answer."""

    number: int
    attempt: str
    offset: int
    limit: int


class LogPiece(msgspec.Struct, frozen=True, tag="piece", omit_defaults=True):
    """A piece of a log, or one line that says why there is none."""

    number: int
    data: bytes = b""
    error: str = ""


ToAgent: TypeAlias = (
    Welcome | HelloRefused | Beat | StartAttempt | StopAttempt | TestDevice | ForgetRecord | ReadLog
)
FromAgent: TypeAlias = (
    Hello
    | CommandStarted
    | CommandEnded
    | DevicesSeen
    | AttemptIdle
    | XidSeen
    | DeviceTested
    | LogPiece
    | Beat
)

_T = TypeVar("_T")
_ENCODER: Final = msgspec.json.Encoder()
_OF_DAEMON: Final[msgspec.json.Decoder[ToAgent]] = msgspec.json.Decoder(ToAgent)
_OF_AGENT: Final[msgspec.json.Decoder[FromAgent]] = msgspec.json.Decoder(FromAgent)


def encode(message: ToAgent | FromAgent) -> bytes:
    """Return the line of a message, with its end of line."""
    return _ENCODER.encode(message) + b"\n"


def decode_order(line: bytes) -> ToAgent:
    """Return the message of the daemon in a line.

    Raises MalformedMessage if there is none.
    """
    return _decode(_OF_DAEMON, line)


def decode_report(line: bytes) -> FromAgent:
    """Return the message of an agent in a line.

    Raises MalformedMessage if there is none.
    """
    return _decode(_OF_AGENT, line)


def _decode(decoder: msgspec.json.Decoder[_T], line: bytes) -> _T:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"no message: {error}"[:300]) from None


class Lines:
    """Bytes of a connection, cut into lines.

    Parameters
    ----------
    limit
        Longest line in bytes; it may be changed at any time.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete, without their ends.

        Raises MalformedMessage if a line is longer than the limit.
        """
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > self.limit or any(len(line) > self.limit for line in lines):
            raise MalformedMessage(f"a line is longer than {self.limit:,} bytes")
        return lines
