"""Routes whose queries, bodies and answers are msgspec types.

A handler is an async function of a ``Call`` and of what its request brings: each segment
``{name}`` of the path as a text, ``query`` and ``body`` as their annotations say. What it returns
is encoded; a ``Response`` goes out as it is. The OpenAPI schema is made of the same annotations.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from warren.serve.api.errors import Failure
from warren.serve.records.users import Caller

if TYPE_CHECKING:
    from warren.serve.api.service import Service

BODY_MAX_BYTES: Final = 64 * 1024
"""Longest body of a request in bytes, but for submissions."""
SUBMISSIONS_MAX_BYTES: Final = 32 * 1024 * 1024
"""Longest body of submissions in bytes."""

_SEGMENT: Final = re.compile(r"{(\w+)}")


@dataclass(frozen=True, slots=True)
class Call:
    """A request of a known caller."""

    service: Service
    caller: Caller
    request: Request


@dataclass(frozen=True)
class Route:
    """A route: ``status`` is that of a good answer, ``media`` its type where it is not JSON."""

    method: str
    path: str
    handler: Callable[..., Awaitable[object]]
    status: int = 200
    media: str | None = None
    body_max_bytes: int = BODY_MAX_BYTES

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """Return the types of ``query``, ``body`` and ``return`` that the handler has."""
        hints = typing.get_type_hints(self.handler, include_extras=True)
        return {name: hints[name] for name in ("query", "body", "return") if name in hints}

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """Return the names in the path."""
        return tuple(_SEGMENT.findall(self.path))

    @property
    def summary(self) -> str:
        """Return the first line of the handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n")[0]

    async def answer(self, call: Call) -> Response:
        """Decode a request, call the handler and encode its answer.

        Raises
        ------
        Failure
            400 for a query or a body that is wrong, 413 for a body that is too long.
        """
        request = call.request
        given: dict[str, Any] = {name: request.path_params[name] for name in self.segments}
        if "query" in self.types:
            given["query"] = query_of(request, self.types["query"])
        if "body" in self.types:
            body = await body_of(request, self.body_max_bytes)
            given["body"] = decode(body, self.types["body"])
        answer = await self.handler(call, **given)
        if isinstance(answer, Response):
            return answer
        content = msgspec.json.encode(answer)
        return Response(content, self.status, media_type="application/json")


async def body_of(request: Request, most: int) -> bytes:
    """Return the body of a request.

    Raises
    ------
    Failure
        413 if it has more than ``most`` bytes.
    """
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise Failure("large", f"the body has more than {most} bytes")
    except ClientDisconnect:
        raise Failure("wrong", "the connection was closed") from None
    return bytes(body)


def decode(body: bytes, type_: Any) -> Any:
    """Return the value of a JSON body.

    Raises
    ------
    Failure
        400 with the place in it that is wrong.
    """
    try:
        return msgspec.json.decode(body, type=type_)
    except (ValueError, RecursionError) as error:  # all of msgspec's are ValueErrors
        raise Failure("wrong", f"body: {error}") from None


def query_of(request: Request, type_: type[msgspec.Struct]) -> Any:
    """Return the query of a request; a field that is a tuple may be given several times.

    Raises
    ------
    Failure
        400 with the name of the parameter that is wrong.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(type_)}
    values: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in fields and typing.get_origin(fields[name].type) is tuple:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise Failure("wrong", f"query: {name} is given twice")
        else:
            values[name] = value
    try:
        return msgspec.convert(values, type_, strict=False)
    except ValueError as error:
        allowed = ", ".join(fields)
        raise Failure("wrong", f"query: {error}; parameters: {allowed}") from None
