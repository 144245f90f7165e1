"""Users of the service, their rights and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

NO_NOTICES: Final = "off"
"""What stands for no notices in place of a URL."""

Role = Literal["user", "admin"]


class Caller(msgspec.Struct, frozen=True):
    """Who asks: the user's name and role, found out by the socket or a token, never from a text."""

    user: str
    role: Role = "user"


class Operator(Caller, frozen=True):
    """Root or the account of the service, by the socket."""


class User(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user that an admin has added; on the machine itself every account may use the socket.

    ``token_hash`` is the scrypt hash of the token for TCP, with its salt. ``weight`` is the share
    of device time that the user should have beside others. ``account`` is the account that its
    commands run as where the service runs as root; empty: the one with the name of the user.
    ``notify`` is the URL, a secret, to which notices of the user's jobs go.
    """

    name: str
    role: Role = "user"
    groups: tuple[str, ...] = ()
    weight: float = 1.0
    token_hash: str = ""
    account: str = ""
    notify: str = ""


def account_name(users: Mapping[str, User], user: str) -> str:
    """Return the name of the account that a user's commands run as, among known users."""
    known = users.get(user)
    return user if known is None or not known.account else known.account


class Quota(msgspec.Struct, frozen=True):
    """At most ``devices`` devices of a type at once, for a user or a group.

    ``subject`` is ``user:ana``, ``group:vision`` or ``each`` (every user by itself); ``type`` a
    device type, ``gpu``, ``cpu`` or ``any``.
    """

    subject: str
    type: str
    devices: int
