"""Answers to requests that fail: one clear line, a kind, and a status from 400 to 499, or 507."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

STATUS_OF_KIND: Final[Mapping[str, int]] = {
    "wrong": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "unknown": 404,
    "conflict": 409,
    "large": 413,
    "never": 422,
    "limited": 429,
    "full": 507,
}
"""HTTP status of each kind of error."""


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of an answer to a request that failed. ``error`` is one line for a person."""

    error: str
    kind: str


class Failure(Exception):
    """A request cannot be answered; its sender reads why.

    Parameters
    ----------
    kind
        A key of ``STATUS_OF_KIND``.
    text
        What is wrong, and what is allowed. Line ends in it become spaces.
    headers
        Further headers of the answer.
    """

    def __init__(self, kind: str, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = " ".join(text.split())
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        """Return the HTTP status of this failure."""
        return STATUS_OF_KIND[self.kind]

    def body(self) -> bytes:
        """Return the JSON text of the answer."""
        return msgspec.json.encode(ErrorAnswer(self.text, self.kind))
