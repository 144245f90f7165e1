"""The page as routes of the app: pages, forms, files, login and logout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from warren.serve.api.callers import (
    COOKIE,
    SESSION_S,
    address_of,
    check_same_site,
    is_local,
)
from warren.serve.api.endpoint import Call, query_of
from warren.serve.api.errors import Failure
from warren.serve.api.service import Service
from warren.serve.page.actions import ACTIONS, Action
from warren.serve.page.forms import form_of
from warren.serve.page.pages import QueueQuery, job_page, machines_page, queue_page, users_page
from warren.serve.page.render import PAGE_HEADERS, Page, static_file

Endpoint = Callable[[Request], Awaitable[Response]]

_TITLES: Final = {
    400: "This request is wrong",
    403: "This is not allowed",
    404: "This is not there",
    409: "This cannot be done now",
}


def add_site(app: FastAPI, service: Service) -> None:
    """Add the page to an app."""
    site = _Site(service)
    pages: dict[str, Callable[..., Awaitable[Page]]] = {
        "/": queue_page,
        "/jobs/{job}": job_page,
        "/machines": machines_page,
        "/users": users_page,
    }
    for path, page in pages.items():
        app.add_route(path, site.shown(page), methods=["GET"], include_in_schema=False)
    for path, action in ACTIONS.items():
        app.add_route(path, site.done(action), methods=["POST"], include_in_schema=False)
    app.add_route("/login", site.login_page, methods=["GET"], include_in_schema=False)
    app.add_route("/login", site.login, methods=["POST"], include_in_schema=False)
    app.add_route("/logout", site.logout, methods=["POST"], include_in_schema=False)
    app.add_route("/static/{name}", _static, methods=["GET"], include_in_schema=False)


class _Site:
    """The routes of the page of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def shown(self, page: Callable[..., Awaitable[Page]]) -> Endpoint:
        """Return the route of a page that is read."""

        async def endpoint(request: Request) -> Response:
            try:
                call = await self._call(request)
                given: dict[str, Any] = dict(request.path_params)
                if page is queue_page:
                    given["query"] = query_of(request, QueueQuery)
                return (await page(call, **given)).response()
            except Failure as failure:
                if failure.status == 401:
                    return _to(f"/login?next={quote(_here(request))}")
                return _failure_page(failure)

        return endpoint

    def done(self, action: Action) -> Endpoint:
        """Return the route of a form: a line for htmx, else the page again."""

        async def endpoint(request: Request) -> Response:
            try:
                call = await self._call(request)
                form = await form_of(request)
                answer = await action(call, form, **request.path_params)
            except Failure as failure:
                if "hx-request" not in request.headers:
                    return _failure_page(failure)
                error = {"error": failure.text}
                return Page("message.html", error).response(failure.status)
            if "hx-request" in request.headers or answer.values.get("token"):
                return answer.response()
            return _to(_page_of_form(request.url.path))

        return endpoint

    async def login_page(self, request: Request) -> Response:
        """Ask for a token."""
        return self._login_page(_safe(request.query_params.get("next", "/")))

    async def login(self, request: Request) -> Response:
        """Open a session with a token."""
        if is_local(request):
            return _to("/")
        try:
            check_same_site(request)
            form = await form_of(request)
            next_ = _safe(form.get("next", "/"))
            user = await self._service.callers.check_token(
                form.get("token", ""), address_of(request)
            )
        except Failure as failure:
            response = self._login_page("/", failure.text, failure.status)
            response.headers.update(failure.headers)
            return response
        response = _to(next_)
        response.set_cookie(
            COOKIE,
            self._service.callers.open_session(user),
            max_age=SESSION_S,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return response

    async def logout(self, request: Request) -> Response:
        """End the session."""
        try:
            await self._call(request)
        except Failure as failure:
            return _failure_page(failure)
        self._service.callers.close_session(request.cookies.get(COOKIE, ""))
        response = _to("/login")
        response.delete_cookie(COOKIE)
        return response

    async def _call(self, request: Request) -> Call:
        return Call(self._service, await self._service.callers.caller(request), request)

    def _login_page(self, next_: str, error: str = "", status: int = 200) -> Response:
        values = {"title": "Log in", "caller": None, "next": next_, "error": error}
        return Page("login.html", values).response(status)


async def _static(request: Request) -> Response:
    found = static_file(request.path_params["name"])
    if found is None:
        return _failure_page(Failure("unknown", "there is no such file"))
    content, type_ = found
    headers = {**PAGE_HEADERS, "Cache-Control": "max-age=86400"}
    return Response(content, headers=headers, media_type=type_)


def _failure_page(failure: Failure) -> Response:
    title = _TITLES.get(failure.status, "This did not work")
    values = {"title": title, "caller": None, "error": failure.text}
    response = Page("failure.html", values).response(failure.status)
    response.headers.update(failure.headers)
    return response


def _to(path: str) -> Response:
    return RedirectResponse(path, 303, PAGE_HEADERS)


def _here(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _page_of_form(path: str) -> str:
    """Return the page whose form is sent to a path."""
    parts = path.split("/")
    if parts[2] == "jobs":
        return f"/jobs/{parts[3]}" if len(parts) > 3 else "/"
    return "/machines" if parts[2] == "hosts" else "/users"


def _safe(path: str) -> str:
    """Return a path of this server; a link that leads away becomes the queue."""
    is_path = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_path and path.isprintable() else "/"
