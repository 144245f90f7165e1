"""Who asks: an account by the peer credentials of the socket, or a user by a token.

No name in a text of a request counts, and no other way leads in.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import pwd
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from warren.serve.api import tokens
from warren.serve.api.errors import Failure
from warren.serve.api.limits import RateLimit
from warren.serve.records.users import Caller, Operator, User

COOKIE: Final = "warren_session"
"""Name of the cookie of the page."""

PEER_UID: Final = "peer_uid"
"""Key of the connection's state that holds the uid of the other end of a Unix socket."""

SESSION_S: Final = 12 * 3600
"""Life of a session of the page in seconds."""

_SESSIONS_MAX: Final = 10_000
_VERIFIED_MAX: Final = 1_000
_FAILURES: Final = (10, 60.0)
"""Most wrong tokens from one address, and the seconds in which they are counted."""
_CHECKS_MAX: Final = 2
"""Most scrypt comparisons at once; each holds 2 MiB."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LOCAL_NAMES: Final = frozenset({"", "localhost", "127.0.0.1", "::1", "warren"})
_PROXY_HEADERS: Final = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


class Session(msgspec.Struct, frozen=True):
    """A login of the page; it ends with the token that it began with."""

    user: str
    token_hash: str
    ends_ns: int


class _Verified(NamedTuple):
    user: str
    token_hash: str


class Callers:
    """Finds out who asks.

    Parameters
    ----------
    users
        Returns the users that admins have added, by name.
    own_uid
        The account of the daemon; it is an admin, as root is.
    now_ns
        The clock, in nanoseconds since 1970.
    refused
        Called with (by, action, reason) for each wrong token.
    """

    def __init__(
        self,
        users: Callable[[], Mapping[str, User]],
        own_uid: int,
        now_ns: Callable[[], int],
        refused: Callable[[str, str, str], None],
    ) -> None:
        self._users = users
        self._admin_uids = frozenset({0, own_uid})
        self._now_ns = now_ns
        self._refused = refused
        self._failures = RateLimit(*_FAILURES, now_ns)
        self._sessions: dict[bytes, Session] = {}
        self._verified: dict[bytes, _Verified] = {}
        self._checks = asyncio.Semaphore(_CHECKS_MAX)

    async def caller(self, request: Request) -> Caller:
        """Return who sent a request.

        Raises
        ------
        Failure
            401 where it is unknown, 403 where another web site sent the request, 429 after too
            many wrong tokens.
        """
        uid = _state(request).get(PEER_UID)
        if uid is not None:
            _check_local(request)
            check_same_site(request)
            return self._account(uid)
        authorization = request.headers.get("authorization")
        if authorization is not None:
            scheme, _, token = authorization.partition(" ")
            if scheme.lower() != "bearer":
                raise _unknown("send `Authorization: Bearer TOKEN`")
            return self._known(await self.check_token(token.strip(), address_of(request)))
        session = request.cookies.get(COOKIE)
        if session is None:
            raise _unknown("this needs a token; an admin makes one with `warren user add NAME`")
        check_same_site(request, strictly=True)
        return self._known(self._session_user(session))

    async def check_token(self, token: str, address: str) -> User:
        """Return the user of a token that came from this address.

        Raises
        ------
        Failure
            401 if it is wrong, 429 after too many wrong ones from this address.
        """
        digest = _digest(token)
        known = self._verified.get(digest)
        if known is not None:
            user = self._users().get(known.user)
            if user is not None and user.token_hash == known.token_hash:
                return user
            del self._verified[digest]
        async with self._checks:
            self._check_failures(address)
            user = await self._compare(token)
            if user is None:
                self._failures.add(address)
        if user is not None:
            self._remember(self._verified, digest, _Verified(user.name, user.token_hash))
            return user
        self._refused("", f"sign in from {address}", "the token is wrong")
        raise _unknown("the token is wrong")

    def _check_failures(self, address: str) -> None:
        wait_s = self._failures.wait_s(address)
        if wait_s:
            headers = {"Retry-After": str(int(wait_s) + 1)}
            raise Failure("limited", f"too many wrong tokens; wait {wait_s:.0f} s", headers)

    async def _compare(self, token: str) -> User | None:
        """Return the user of a right token; an unknown name takes as long as a known one."""
        name = tokens.user_of(token)
        if name is None:
            return None
        user = self._users().get(name)
        token_hash = user.token_hash if user is not None else ""
        right = await asyncio.to_thread(tokens.matches, token, token_hash or _no_hash())
        return user if right else None

    def open_session(self, user: User) -> str:
        """Return the value of the cookie of a new session of the page."""
        value = secrets.token_urlsafe(32)
        session = Session(user.name, user.token_hash, self._now_ns() + SESSION_S * 10**9)
        self._remember(self._sessions, _digest(value), session, most=_SESSIONS_MAX)
        return value

    def close_session(self, value: str) -> None:
        """End a session of the page."""
        self._sessions.pop(_digest(value), None)

    def _account(self, uid: int) -> Caller:
        name = _account_name(uid)
        if uid in self._admin_uids:
            return Operator(name, "admin")
        user = self._users().get(name)
        return Caller(name, "user" if user is None else user.role)

    def _known(self, user: User) -> Caller:
        return Caller(user.name, user.role)

    def _session_user(self, value: str) -> User:
        digest = _digest(value)
        session = self._sessions.get(digest)
        if session is not None:
            user = self._users().get(session.user)
            same = user is not None and user.token_hash == session.token_hash
            if user is not None and same and self._now_ns() < session.ends_ns:
                return user
            del self._sessions[digest]
        raise _unknown("the session is over; log in again")

    def _remember(
        self, known: dict[bytes, Any], key: bytes, value: object, most: int = _VERIFIED_MAX
    ) -> None:
        if len(known) >= most:
            del known[next(iter(known))]
        known[key] = value


def address_of(request: Request) -> str:
    """Return the address of the other end of a TCP connection."""
    return request.client.host if request.client else "unknown"


def is_local(request: Request) -> bool:
    """Tell whether a request came by the Unix socket."""
    return PEER_UID in _state(request)


def _state(request: Request) -> dict[str, Any]:
    state: dict[str, Any] = request.scope.get("state") or {}
    return state


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode(errors="surrogateescape")).digest()


@functools.cache
def _no_hash() -> str:
    return tokens.hash_of(tokens.new_token(""))


def _account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"  # a name of no account: a colon separates fields of /etc/passwd


def _unknown(text: str) -> Failure:
    return Failure("unauthenticated", text, {"WWW-Authenticate": "Bearer"})


def _check_local(request: Request) -> None:
    """Refuse what a proxy or a renamed host brings to the socket.

    Behind a proxy every sender would have the proxy's rights; and a web page that a browser
    reaches by a name of its own would have the rights of the user who forwards the socket.
    """
    if any(name in request.headers for name in _PROXY_HEADERS):
        raise Failure(
            "forbidden", "the socket is not for proxies; let `warren serve` listen on TCP"
        )
    if _host_name(request.headers.get("host", "")) not in _LOCAL_NAMES:
        raise Failure("forbidden", "requests to the socket name `localhost` as their host")


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return None


def check_same_site(request: Request, *, strictly: bool = False) -> None:
    """Refuse what the page of another site makes a browser send.

    Parameters
    ----------
    request
        The request.
    strictly
        Whether a request without a sign of its origin is refused, too.

    Raises
    ------
    Failure
        403 if it is refused.
    """
    if request.method in _SAFE:
        return
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    foreign = site is not None and site not in ("same-origin", "none")
    if origin is not None:
        foreign |= origin.partition("://")[2] != request.headers.get("host", "")
    if foreign or (strictly and origin is None and site is None):
        raise Failure("forbidden", "the request came from another web site")
