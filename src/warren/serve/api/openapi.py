"""The OpenAPI schema of the routes, made of the types that decode and encode them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from warren.serve.api.endpoint import Route
from warren.serve.api.errors import STATUS_OF_KIND, ErrorAnswer

_REFERENCE: Final = "#/components/schemas/{name}"
_FAILURES: Final = {
    "wrong": "The request is wrong; the error says where.",
    "unauthenticated": "It is unknown who asks.",
    "forbidden": "The caller may not do this.",
    "unknown": "There is no such thing.",
    "conflict": "The state of the service does not allow this.",
    "large": "The body is too long.",
    "never": "No machine could ever run such a job.",
    "limited": "Too many requests failed.",
    "full": "The journal cannot be written; nothing has changed.",
}


def operations(routes: Sequence[Route]) -> tuple[dict[tuple[str, str], Any], dict[str, Any]]:
    """Return the operation of each (method, path), and the schemas that they refer to."""
    types = [ErrorAnswer, *dict.fromkeys(type_ for route in routes for type_ in _types(route))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(types, schemas, strict=True))
    found = {
        (route.method, route.path): _operation(route, schema_of, components) for route in routes
    }
    queries = {route.types["query"].__name__ for route in routes if "query" in route.types}
    return found, {name: one for name, one in components.items() if name not in queries}


def _types(route: Route) -> Iterator[Any]:
    for place, type_ in route.types.items():
        if place != "return" or route.media is None:
            yield type_


def _operation(route: Route, schema_of: dict[Any, Any], components: dict[str, Any]) -> Any:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": [*_segments(route), *_query(route, components)],
        "responses": _responses(route, schema_of),
    }
    if "body" in route.types:
        content = {"application/json": {"schema": schema_of[route.types["body"]]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _segments(route: Route) -> Iterator[Any]:
    for name in route.segments:
        schema = {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query(route: Route, components: dict[str, Any]) -> Iterator[Any]:
    if "query" not in route.types:
        return
    schema = components[route.types["query"].__name__]
    for name, one in schema["properties"].items():
        required = name in schema.get("required", ())
        yield {"name": name, "in": "query", "required": required, "schema": one}


def _responses(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": schema_of[ErrorAnswer]}}
    if route.media is None:
        good = {"application/json": {"schema": schema_of[route.types["return"]]}}
    else:
        good = {route.media: {"schema": {"type": "string"}}}
    responses = {str(route.status): {"description": "The answer.", "content": good}}
    for kind, text in _FAILURES.items():
        responses[str(STATUS_OF_KIND[kind])] = {"description": text, "content": error}
    return responses


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Return the whole OpenAPI document."""
    found, components = operations(routes)
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in found.items():
        paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Warren", "version": version},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"token": []}],
    }


def encoded(schema: dict[str, Any]) -> bytes:
    """Return a document as JSON."""
    return msgspec.json.encode(schema)
