"""Routes about the service itself: what it is, its figures, and word of changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from warren import __version__
from warren.serve.api.endpoint import Call, Route
from warren.serve.api.metrics import metrics_text
from warren.serve.api.service import Service
from warren.serve.records.users import Caller

EVENTS_PAUSE_S: Final = 1.0
"""Shortest time between two events of changes, in seconds."""
_KEEP_ALIVE_S: Final = 15.0
"""Time without a change after which a stream sends that nothing has changed, in seconds."""


class ServiceShown(msgspec.Struct, frozen=True):
    """The service: its version, the order of its queue, how jobs run, and who asks."""

    version: str
    order: str
    jobs_run_as: str
    caller: Caller
    time_s: float
    disk_error: str | None


async def show_service(call: Call) -> ServiceShown:
    """Show what the service is and whom it takes the caller for."""
    service = call.service
    daemon = service.daemon
    return ServiceShown(
        version=__version__,
        order=daemon.order,
        jobs_run_as=service.jobs_run_as,
        caller=call.caller,
        time_s=service.now_ns / 1e9,
        disk_error=daemon.disk_error,
    )


async def read_metrics(call: Call) -> Response:
    """Send figures for Prometheus; queue lengths by user to admins alone."""
    text = metrics_text(call.service, by_user=call.caller.role == "admin")
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def follow_events(call: Call) -> Response:
    """Send an event ``changed`` after changes of the queue; the data is the count of changes."""
    return StreamingResponse(_changes(call.service), media_type="text/event-stream")


async def _changes(service: Service) -> AsyncIterator[str]:
    changed = service.daemon.changed
    seen = changed.count
    yield f"retry: 2000\nevent: hello\ndata: {seen}\n\n"
    while not service.closing:
        try:
            async with asyncio.timeout(_KEEP_ALIVE_S):
                seen = await changed.wait(seen)
        except TimeoutError:
            yield ": nothing has changed\n\n"
            continue
        yield f"event: changed\ndata: {seen}\n\n"
        await asyncio.sleep(EVENTS_PAUSE_S)


ROUTES: Final = (
    Route("GET", "/v1/service", show_service),
    Route("GET", "/v1/events", follow_events, media="text/event-stream"),
    Route("GET", "/metrics", read_metrics, media="text/plain; version=0.0.4; charset=utf-8"),
)
"""Routes about the service."""
