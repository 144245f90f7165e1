"""The pages that are read: queue, job, machines, users."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from warren.serve.api.callers import COOKIE, is_local
from warren.serve.api.endpoint import Call
from warren.serve.api.routes.hosts import host_row
from warren.serve.api.routes.users import user_rows
from warren.serve.api.service import may_see
from warren.serve.page import rows
from warren.serve.page.forms import home_of
from warren.serve.page.render import Page
from warren.serve.queue.submissions import device_types
from warren.serve.queue.views import row
from warren.serve.records.jobs import JobState

WHY_FRESH_S: Final = 20.0
"""Time for which a page shows the same reason: it is drawn again after each change, in seconds."""


class QueueQuery(msgspec.Struct, frozen=True):
    """Which jobs the page of the queue shows."""

    state: Literal["active", "ended"] = "active"
    who: Literal["all", "mine"] = "all"


async def queue_page(call: Call, query: QueueQuery) -> Page:
    """Show the queue and a form to submit."""
    service, caller = call.service, call.caller
    queue, now, order = service.queue, service.now_ns, service.daemon.order
    jobs, left_out = rows.chosen_jobs(call, query.state, query.who)
    held = queue.forecasts.starts.held(now)
    return page_of(
        call, "queue.html", "Queue", "/",
        jobs=[
            rows.job_line(job, row(queue, job, now, order), caller, now) for job in jobs
        ],
        left_out=left_out,
        tabs=rows.tabs(query.state, query.who),
        tiles=rows.tiles(queue),
        types=device_types(queue),
        folder=home_of(caller.user),
        held=rows.held_text(held) if held.of else "",
    )  # fmt: skip


async def job_page(call: Call, job: str) -> Page:
    """Show a job and its log."""
    service, caller = call.service, call.caller
    found, now = service.job(job, caller), service.now_ns
    seen = await service.shown(found, caller)
    waits = found.state in (JobState.QUEUED, JobState.HELD)
    return page_of(
        call, "job.html", f"Job {found.id}", "",
        job=rows.job_line(found, seen, caller, now),
        why=await service.why(found, WHY_FRESH_S) if waits else None,
        facts=list(rows.facts(found, seen, now)),
        attempts=[rows.attempt_line(one, now) for one in found.attempts],
        log=f"/v1/jobs/{found.id}/log?follow=1&tail=200000" if may_see(found, caller) else None,
    )  # fmt: skip


async def machines_page(call: Call) -> Page:
    """Show machines, their devices and what uses them."""
    queue = call.service.queue
    hosts = [rows.host_part(host_row(queue, name)) for name in queue.machines]
    return page_of(call, "machines.html", "Machines", "/machines", hosts=hosts)


async def users_page(call: Call) -> Page:
    """Show users and quotas."""
    queue = call.service.queue
    return page_of(
        call, "users.html", "Users", "/users",
        users=user_rows(call),
        added=frozenset(queue.users),
        used=rows.used,
        quotas=list(queue.quotas.values()),
        types=device_types(queue),
    )  # fmt: skip


def page_of(call: Call, template: str, title: str, place: str, **values: Any) -> Page:
    """Return a page for a caller; ``place`` is the path of its link in the head."""
    request = call.request
    query = f"?{request.url.query}" if request.url.query else ""
    return Page(
        template,
        {
            "title": title,
            "place": place,
            "url": f"{request.url.path}{query}",
            "caller": call.caller,
            "is_admin": call.caller.role == "admin",
            "has_session": not is_local(request) and COOKIE in request.cookies,
            **values,
        },
    )
