"""Routes that look ahead: why a job waits, and what changes would do."""

from __future__ import annotations

import asyncio
from typing import Final

from warren.model.errors import SpecError
from warren.serve.api.endpoint import Call, Route
from warren.serve.api.errors import Failure
from warren.serve.forecast.run_lengths import lengths_of
from warren.serve.forecast.what_if import StartChange, TriedChanges, WhatIf
from warren.serve.forecast.why import Why
from warren.serve.queue.refusals import Refusal


async def explain_wait(call: Call, job: str) -> Why:
    """Say why a job waits: one cause, confirmed by taking it away, and what can be done."""
    return await call.service.why(call.service.job(job, call.caller))


async def try_changes(call: Call, body: TriedChanges) -> list[StartChange]:
    """Say when waiting jobs would start before and after changes, of which none is made."""
    service = call.service
    async with service.one_look:
        lengths = lengths_of(service.queue)
        try:
            tried = WhatIf(service.queue, body, call.caller, service.now_ns, service.daemon.order)
        except Refusal as refusal:
            raise Failure(refusal.kind, str(refusal)) from None
        try:
            return await asyncio.to_thread(tried.answer, lengths.middle_s)
        except SpecError as error:
            raise Failure("wrong", str(error)) from None


ROUTES: Final = (
    Route("GET", "/v1/jobs/{job}/why", explain_wait),
    Route("POST", "/v1/what-if", try_changes),
)
"""Routes that look ahead."""
