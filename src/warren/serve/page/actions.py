"""What the buttons and forms of the page do: the routes of the API, with fields of forms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from warren.serve.api.endpoint import Call
from warren.serve.api.errors import Failure
from warren.serve.api.routes import hosts, jobs, users
from warren.serve.page.forms import number, submission_of
from warren.serve.page.render import Page
from warren.serve.records.users import Quota

Form = Mapping[str, str]
Action = Callable[..., Awaitable[Page]]


def message(text: str, *, job: str | None = None, token: str | None = None) -> Page:
    """Return a line that says what was done."""
    return Page("message.html", {"text": text, "job": job, "token": token, "error": None})


async def submit(call: Call, form: Form) -> Page:
    """Submit a job."""
    answer = await jobs.submit_jobs(call, submission_of(form, call.caller.user))
    assert isinstance(answer, jobs.SubmittedIds)
    return message(f"Job {answer.id} was submitted.", job=answer.id)


async def cancel(call: Call, form: Form, job: str) -> Page:
    """Cancel a job."""
    await jobs.cancel_job(call, job)
    return message(f"Job {job} is being cancelled.")


async def hold(call: Call, form: Form, job: str) -> Page:
    """Hold a job."""
    await jobs.hold_job(call, job)
    return message(f"Job {job} is held.")


async def release(call: Call, form: Form, job: str) -> Page:
    """Release a job."""
    await jobs.release_job(call, job)
    return message(f"Job {job} waits for devices again.")


async def extend(call: Call, form: Form, job: str) -> Page:
    """Let a job do nothing for two hours."""
    await jobs.extend_job(call, job, jobs.ExtendBody())
    return message(f"Job {job} is not ended for doing nothing in the next two hours.")


async def drain(call: Call, form: Form, host: str) -> Page:
    """Drain a host or a device."""
    device = form.get("device") or None
    await hosts.drain_host(call, host, hosts.DrainBody(device, f"by {call.caller.user}"))
    return message(f"{device or host} gets no new jobs.")


async def undrain(call: Call, form: Form, host: str) -> Page:
    """Let a host or a device be used again."""
    device = form.get("device") or None
    await hosts.undrain_host(call, host, hosts.UndrainBody(device))
    return message(f"{device or host} gets jobs again.")


async def remove_host(call: Call, form: Form, host: str) -> Page:
    """Take a lost host away."""
    await hosts.remove_host(call, host)
    return message(f"Host {host} was removed.")


async def set_user(call: Call, form: Form) -> Page:
    """Add or change a user; an empty field leaves what it names as it is."""
    name, role = form.get("name", ""), form.get("role") or None
    if not name or "/" in name:
        raise Failure("wrong", "name: write the name of the user")
    groups = [one.strip() for one in form.get("groups", "").split(",")]
    try:
        weight = float(form["weight"]) if form.get("weight") else None
    except ValueError:
        raise Failure("wrong", "share: write a number above 0") from None
    if role not in (None, "user", "admin") or (weight is not None and not 0 < weight < 1e9):
        raise Failure("wrong", "the role is user or admin, the share a number above 0")
    body = users.UserBody(
        role=role,  # type: ignore[arg-type]  # looked at above
        groups=tuple(one for one in groups if one) or None,
        weight=weight,
        new_token=bool(form.get("new_token")),
    )
    answer = await users.set_user(call, name, body)
    return message(f"User {name} was saved.", token=answer.token)


async def remove_user(call: Call, form: Form, user: str) -> Page:
    """Remove a user."""
    await users.remove_user(call, user)
    return message(f"User {user} was removed.")


async def set_quota(call: Call, form: Form) -> Page:
    """Set a quota."""
    quota = Quota(form.get("subject", ""), form.get("type", ""), number(form, "devices", -1))
    await users.set_quota(call, quota)
    done = "was removed" if quota.devices < 0 else "was saved"
    return message(f"The quota of {quota.subject} {done}.")


ACTIONS: Final[Mapping[str, Action]] = {
    "/page/jobs": submit,
    "/page/jobs/{job}/cancel": cancel,
    "/page/jobs/{job}/hold": hold,
    "/page/jobs/{job}/release": release,
    "/page/jobs/{job}/extend": extend,
    "/page/hosts/{host}/drain": drain,
    "/page/hosts/{host}/undrain": undrain,
    "/page/hosts/{host}/remove": remove_host,
    "/page/users": set_user,
    "/page/users/{user}/remove": remove_user,
    "/page/quotas": set_quota,
}
"""Paths that forms are sent to."""
