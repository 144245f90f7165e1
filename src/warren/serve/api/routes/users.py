"""Routes of users, quotas and the audit log."""

from __future__ import annotations

import pwd
from typing import Annotated, Any, Final

import msgspec

from warren.serve.api import tokens
from warren.serve.api.endpoint import Call, Route
from warren.serve.api.errors import Failure
from warren.serve.api.service import Service
from warren.serve.notices.sender import scheme_of
from warren.serve.queue import requests
from warren.serve.records.events import AnyEvent, UserSet
from warren.serve.records.users import Caller, Operator, Quota, Role, User, account_name

AUDIT_MAX: Final = 10_000
"""Most entries of the audit log in one answer."""


class UserBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user shall be; what is left out stays as it is.

    ``new_token`` replaces the token. A user without a token gets one in any case. ``account`` is
    the account that its commands run as where the service runs as root.
    """

    role: Role | None = None
    groups: tuple[str, ...] | None = None
    weight: Annotated[float, msgspec.Meta(gt=0)] | None = None
    new_token: bool = False
    account: str | None = None


class NotifyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The URL to which notices of a user's jobs go; empty: there are none."""

    url: str


class NotifyAnswer(msgspec.Struct, frozen=True):
    """How notices of a user's jobs go now: the scheme of the URL; None: there are none."""

    notify: str | None


class UserRow(msgspec.Struct, frozen=True):
    """A user, as all users may see it.

    ``used_device_s`` are the device seconds by type that count in its fair share. ``account`` is
    the account that its commands run as; None where all run as the account of the service.
    """

    name: str
    role: Role
    account: str | None
    groups: tuple[str, ...]
    weight: float
    has_token: bool
    jobs: dict[str, int]
    devices: int
    used_device_s: dict[str, float]


class UserAnswer(msgspec.Struct, frozen=True):
    """A user that was set; ``token`` is shown this once, where it is new."""

    user: UserRow
    token: str | None


class AuditQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which entries of the audit log are listed; the newest ``limit`` ones."""

    user: str | None = None
    since_s: Annotated[float, msgspec.Meta(ge=0, le=9e9)] = 0.0
    limit: Annotated[int, msgspec.Meta(ge=1, le=AUDIT_MAX)] = 1_000


class AuditRow(msgspec.Struct, frozen=True):
    """An entry of the audit log: who did what when, or wanted to and was refused."""

    seq: int
    time_s: float
    user: str
    action: str
    details: dict[str, Any]


def user_rows(call: Call) -> list[UserRow]:
    """Return all users that were added or have jobs, by name."""
    queue = call.service.queue
    jobs: dict[str, dict[str, int]] = {name: {} for name in queue.users}
    devices: dict[str, int] = {}
    for job in queue.jobs.values():
        if not job.state.ended:
            states = jobs.setdefault(job.user, {})
            states[job.state.value] = states.get(job.state.value, 0) + 1
            if job.attempt is not None and job.attempt.ended_ns is None:
                devices[job.user] = devices.get(job.user, 0) + len(job.attempt.devices)
    rows = []
    for name in sorted(jobs):
        user = queue.users.get(name) or User(name)
        rows.append(
            UserRow(
                name=name,
                role=user.role,
                account=account_name(queue.users, name) if call.service.as_accounts else None,
                groups=user.groups,
                weight=user.weight,
                has_token=bool(user.token_hash),
                jobs=jobs[name],
                devices=devices.get(name, 0),
                used_device_s=queue.usage.of(name, call.service.now_ns),
            )
        )
    return rows


async def list_users(call: Call) -> list[UserRow]:
    """List users: their groups, their weights, and what they use."""
    return user_rows(call)


async def set_user(call: Call, user: str, body: UserBody) -> UserAnswer:
    """Add or change a user; a new token is in the answer, once."""
    service = call.service
    old = service.queue.users.get(user)
    base = old or User(user)
    account = base.account if body.account is None else body.account
    account = "" if account == user else account
    makes_token = body.new_token or not base.token_hash
    token = None
    if call.caller.role == "admin" and (makes_token or account != base.account):
        _check_account(service, call.caller, user, account)
        token = tokens.new_token(user) if makes_token else None
    changed = User(
        name=user,
        role=base.role if body.role is None else body.role,
        groups=base.groups if body.groups is None else body.groups,
        weight=base.weight if body.weight is None else body.weight,
        token_hash=base.token_hash if token is None else tokens.hash_of(token),
        account=account,
        notify=base.notify,
    )
    service.ask(
        lambda queue, now: requests.set_user(queue, changed, call.caller, now),
        call.caller, f"set user {user}",
    )  # fmt: skip
    row = next(one for one in user_rows(call) if one.name == user)
    return UserAnswer(row, token)


async def set_notify(call: Call, user: str, body: NotifyBody) -> NotifyAnswer:
    """Set where notices of a user's jobs go; for the user and for admins."""
    service = call.service
    service.check_notify(body.url)
    service.ask(
        lambda queue, now: requests.set_notify(queue, user, body.url, call.caller, now),
        call.caller, f"set notices of {user}",
    )  # fmt: skip
    return NotifyAnswer(scheme_of(body.url) or None)


def _check_account(service: Service, caller: Caller, user: str, account: str) -> None:
    """Refuse a token whose commands would run as an account that the caller may not give away.

    Parameters
    ----------
    service, caller
        The service, and the admin that asks.
    user, account
        Name of the user, and of the account that is named for it; empty: none is.

    Raises
    ------
    Failure
        400 if there is no such account, 403 if only root may give it away.
    """
    name = account or user
    uid = _uid(name)
    why = ""
    if uid == 0:
        # Its jobs would run as root: an admin of the queue would be one of the machine.
        why = f"{name} gets no token: it uses the socket, by `sudo -E`"
    elif not service.as_accounts:
        if account:
            raise Failure("wrong", "account: all jobs run as the account of this service")
    elif uid is None:
        hint = "" if account else "; name the account of its jobs: --account NAME"
        raise Failure("wrong", f"user: this machine has no account {name!r}{hint}")
    elif account and _uid(user) is not None:
        raise Failure("wrong", f"account: {user} is an account of this machine itself")
    elif not (isinstance(caller, Operator) or _own_account(service, caller) == name):
        why = f"only root gives out the account {name}: jobs sent with the token run as it"
    if why:
        service.refuse(caller.user, f"set user {user}", why)
        raise Failure("forbidden", why)


def _own_account(service: Service, caller: Caller) -> str:
    return account_name(service.queue.users, caller.user)


def _uid(account: str) -> int | None:
    """Return the number of an account of this machine; None if it has none of this name."""
    try:
        return pwd.getpwnam(account).pw_uid
    except (KeyError, ValueError):  # no account; a null character
        return None


async def remove_user(call: Call, user: str) -> list[UserRow]:
    """Take a user's token, role and limits away; jobs stay."""
    call.service.ask(
        lambda queue, now: requests.remove_user(queue, user, call.caller, now),
        call.caller, f"remove user {user}",
    )  # fmt: skip
    return user_rows(call)


async def list_quotas(call: Call) -> list[Quota]:
    """List quotas: the most devices of a type at once, for a user, a group or each user."""
    return list(call.service.queue.quotas.values())


async def set_quota(call: Call, body: Quota) -> list[Quota]:
    """Set a quota; fewer than 0 devices takes it away."""
    call.service.ask(
        lambda queue, now: requests.set_quota(queue, body, call.caller, now),
        call.caller, f"set quota of {body.subject}",
    )  # fmt: skip
    return await list_quotas(call)


async def read_audit(call: Call, query: AuditQuery) -> list[AuditRow]:
    """List what users did and what was refused; for admins."""
    if call.caller.role != "admin":
        call.service.refuse(call.caller.user, "read the audit log", "it is for admins")
        raise Failure("forbidden", "the audit log is for admins")
    entries = call.service.daemon.journal.audit(
        user=query.user, since_ns=int(query.since_s * 1e9), limit=query.limit
    )
    return [audit_row(entry.seq, entry.event) for entry in entries]


def audit_row(seq: int, event: AnyEvent) -> AuditRow:
    """Return an event for the audit log, without secrets and environments."""
    if isinstance(event, UserSet):
        notify = scheme_of(event.user.notify)
        event = msgspec.structs.replace(
            event, user=msgspec.structs.replace(event.user, token_hash="", notify=notify)
        )
    details = msgspec.to_builtins(event)
    action = details.pop("type")
    details.get("spec", {}).pop("environment", None)
    details.get("spec", {}).pop("notify", None)
    for name in ("time_ns", "by"):
        details.pop(name, None)
    return AuditRow(seq, event.time_ns / 1e9, event.by, action, details)


ROUTES: Final = (
    Route("GET", "/v1/users", list_users),
    Route("PUT", "/v1/users/{user}", set_user),
    Route("DELETE", "/v1/users/{user}", remove_user),
    Route("PUT", "/v1/users/{user}/notify", set_notify),
    Route("GET", "/v1/quotas", list_quotas),
    Route("PUT", "/v1/quotas", set_quota),
    Route("GET", "/v1/audit", read_audit),
)
"""Routes of users."""
