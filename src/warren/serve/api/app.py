"""The app: all routes of the API and the page, behind one check of who asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from warren import __version__
from warren.serve.api import openapi
from warren.serve.api.endpoint import Call, Route
from warren.serve.api.errors import Failure
from warren.serve.api.routes import forecasts, hosts, jobs, logs, status, users
from warren.serve.api.service import Service
from warren.serve.page.site import add_site

if TYPE_CHECKING:
    from warren.serve.daemon.daemon import Daemon

ROUTES: Final = (
    *jobs.ROUTES,
    *logs.ROUTES,
    *forecasts.ROUTES,
    *hosts.ROUTES,
    *users.ROUTES,
    *status.ROUTES,
)
"""All routes of the API."""
_KIND_OF_STATUS: Final = {404: "unknown", 405: "wrong"}
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of each answer of the API."""


def make_app(
    daemon: Daemon,
    *,
    jobs_run_as: str = "",
    log_place: Callable[[str, str], str] = "{}:{}".format,
    as_accounts: bool = False,
) -> FastAPI:
    """Return the app of a daemon.

    Parameters
    ----------
    daemon
        The daemon; all requests run in its event loop.
    jobs_run_as
        How jobs run, for people: as their users, or all as one account.
    log_place
        Returns where the log of an attempt is, for people, of a host and the attempt's name.
    as_accounts
        Whether commands run as the accounts of their users.
    """
    service = Service(daemon, jobs_run_as, log_place, as_accounts=as_accounts)
    app = FastAPI(
        title="Warren",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    for route in (*ROUTES, _schema_route()):
        app.add_api_route(
            route.path, _endpoint(service, route), methods=[route.method], include_in_schema=False
        )
    add_site(app, service)
    app.add_exception_handler(Failure, _failed)
    app.add_exception_handler(HTTPException, _no_route)
    return app


def _endpoint(service: Service, route: Route) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        caller = await service.callers.caller(request)
        response = await route.answer(Call(service, caller, request))
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return endpoint


@cache
def _schema_route() -> Route:
    content = openapi.encoded(openapi.document(ROUTES, __version__))

    async def read_schema(call: Call) -> Response:
        """Send this schema."""
        return _json(content)

    return Route("GET", "/openapi.json", read_schema)


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json", headers=_HEADERS)


async def _failed(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, Failure)
    response = _json(failure.body(), failure.status)
    response.headers.update(failure.headers)
    return response


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _KIND_OF_STATUS.get(error.status_code, "wrong")
    failure = Failure(kind, f"there is no {request.method} {request.url.path}")
    response = _json(failure.body(), error.status_code)
    response.headers.update(error.headers or {})
    return response
