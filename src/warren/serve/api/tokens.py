"""Tokens of users: how they are made, hashed and compared."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import Final

_SALT_BYTES: Final = 16
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_COST: Final = (2**11, 8, 1)
"""N, r and p of scrypt: 2 MiB and some 6 ms of a processor for each comparison.

More would not help: a secret of 256 random bits cannot be found by trying.
"""

_MEMORY_MAX: Final = 64 * 1024 * 1024
"""Most bytes of memory that one comparison may use."""


def new_token(user: str) -> str:
    """Return a token for a user: the name, a dot, and 256 random bits."""
    return f"{user}.{secrets.token_urlsafe(32)}"


def user_of(token: str) -> str | None:
    """Return the user whom a token claims to be of; None if it is no token at all."""
    user, dot, secret = token.rpartition(".")
    return user if dot and user and _SECRET.fullmatch(secret) else None


def hash_of(token: str) -> str:
    """Return the scrypt hash of a token with a new salt, as text."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = _scrypt(token, salt, _COST)
    return "$".join(("scrypt", *map(str, _COST), _text(salt), _text(digest)))


def matches(token: str, token_hash: str) -> bool:
    """Tell whether this is the token that was hashed; the time does not depend on the answer."""
    try:
        kind, n, r, p, salt, digest = token_hash.split("$")
        cost = (int(n), int(r), int(p))
        if kind != "scrypt":
            return False
        return hmac.compare_digest(_scrypt(token, _bytes(salt), cost), _bytes(digest))
    except ValueError:
        return False


def _scrypt(token: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    n, r, p = cost
    return hashlib.scrypt(token.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MEMORY_MAX, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
