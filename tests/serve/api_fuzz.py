"""Requests drawn from the OpenAPI schema: mostly well-formed, some with one thing wrong."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import quote

from hypothesis import strategies as st

from warren.serve.api import openapi
from warren.serve.api.endpoint import Route

Request = tuple[str, str, Any, Any]
"""Method, path, query and body; a body of bytes goes out as it is."""

KNOWN: Final = {
    "job": [
        "1",
        "2",
        "1",
        "2",
        "3",
        "4",
        "3_0",
        "mine",
        "9",
        "..",
        "%2e",
        "ü",
        "1.1",
        "-1",
        "0x1",
        "' or 1",
    ],
    "host": ["h0", "h1", "", "\0"],
    "user": ["ana", "ben", "root", "x y", "user:ana", "ü"],
}
"""Values of the segments of paths; jobs 1 and 2 are of another user."""
GOOD: Final[dict[str, list[Any]]] = {
    "command": [["true"], ["x", "{index}", "{lr}"]],
    "folder": ["/", "/tmp"],
    "environment": [{}, {"A": "1"}],
    "devices": [1, 2, -1],
    "name": ["", "mine", "other"],
    "array": [[0, 2], "1", "3"],
    "sweep": [{"lr": ["1", "2"]}],
    "after": [[], [{"job": "1"}], [{"job": "3", "when": "any"}]],
    "host": ["h0"],
    "device": ["GPU-h0-0", None],
    "device_type": ["FAKE", "gpu", None],
    "time_limit_s": [1.0, 60.0],
    "memory_bytes": [1, 2**30],
    "priority": [0, 7, -7],
    "retries": [0, 2],
    "grace_s": [0.0, 10.0],
    "groups": [["vision"], []],
    "weight": [1.0, 2],
    "subject": ["each", "user:ana", "group:x"],
    "type": ["any", "FAKE", "gpu"],
    "user": ["ana", "ben"],
    "limit": [1, 100],
    "offset": [0, 3],
    "tail": [0, 5],
    "attempt": [1, 2],
    "since_s": [0, 1e9],
}
"""Values that are often right, by the name of the field."""
_NUMBERS: Final = st.sampled_from([0, 1, -1, 2, 3, 100, 2**31, 2**63, 2**64, -(2**70), 10**400])
_FLOATS: Final = st.sampled_from([0.0, -1.0, 0.5, 1e-320, 1e18, 1e308])
_WORDS: Final = st.sampled_from(
    ["", "1", "2", "mine", "h0", "GPU-h0-0", "user:ana", "each", "any", "gpu", "FAKE", "true", "/",
     "/tmp", "{index}", "{x}", "x", "ü", "\0", "a\nb", "<script>", "queued", "ana", "-1", "\u2028"]
) | st.text(max_size=5)  # fmt: skip
_ANYTHING: Final = (
    st.none() | st.booleans() | _NUMBERS | _FLOATS | _WORDS | st.just([]) | st.just({})
)


def requests_of(
    routes: Sequence[Route], left_out: Collection[tuple[str, str]]
) -> st.SearchStrategy[Request]:
    """Requests to routes, by their schema."""
    document = openapi.document(routes, "0")
    schemas = document["components"]["schemas"]
    drawn = [
        _request(method.upper(), path, operation, schemas)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if (method.upper(), path) not in left_out
    ]
    return st.one_of(drawn)


def _request(
    method: str, path: str, operation: Any, schemas: dict[str, Any]
) -> st.SearchStrategy[Request]:
    segments, query = {}, {}
    for one in operation["parameters"]:
        if one["in"] == "path":
            segments[one["name"]] = st.sampled_from(KNOWN[one["name"]])
        else:
            query[one["name"]] = _field(one["name"], one["schema"], schemas).map(_parameter)
    if path.endswith("/wait"):
        query = {"timeout_s": st.sampled_from(["0", "1", "x", "-1", "1e400", "nan"])}
    if path.endswith("/log"):
        query["follow"] = st.sampled_from(["0", "x", "false"])
    body: st.SearchStrategy[Any] = st.none()
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = st.one_of(*[value(schema, schemas)] * 5, st.binary(max_size=20))
    return st.tuples(
        st.just(method),
        st.fixed_dictionaries(segments).map(lambda found: path.format(**_quoted(found))),
        st.sets(st.sampled_from(sorted(query)), max_size=2).flatmap(
            lambda names: st.fixed_dictionaries({name: query[name] for name in sorted(names)})
        )
        if query
        else st.none(),
        body,
    )


def _quoted(segments: dict[str, str]) -> dict[str, str]:
    return {name: quote(text, safe="") for name, text in segments.items()}


def _parameter(found: Any) -> Any:
    return found if isinstance(found, str | list) else json.dumps(found)


def value(schema: Any, schemas: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema; one in some thirty is of another one."""
    right = _right(schema, schemas)
    return st.integers(0, 30).flatmap(lambda dice: right if dice < 30 else _ANYTHING)


def _field(name: str, schema: Any, schemas: dict[str, Any]) -> st.SearchStrategy[Any]:
    drawn = value(schema, schemas)
    if name not in GOOD:
        return drawn
    good = st.sampled_from(GOOD[name])
    return st.integers(0, 7).flatmap(lambda dice: good if dice < 7 else drawn)


def _right(schema: Any, schemas: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return _right(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return st.one_of([value(one, schemas) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" in schema:
            needed = set(schema.get("required", ()))
            fields = {
                name: _field(name, one, schemas) for name, one in schema["properties"].items()
            }
            others = sorted(set(fields) - needed)
            chosen = st.sets(st.sampled_from(others), max_size=3) if others else st.just(set())
            return chosen.flatmap(
                lambda more: st.fixed_dictionaries({n: fields[n] for n in sorted(needed | more)})
            )
        case "object":
            inner = schema.get("additionalProperties")
            inner = inner if isinstance(inner, dict) else {}
            return st.dictionaries(_WORDS, value(inner, schemas), max_size=3)
        case "array":
            inner = schema.get("items") or next(iter(schema.get("prefixItems", ())), {})
            size = schema.get("minItems", 0), schema.get("maxItems", 3)
            return st.lists(value(inner, schemas), min_size=size[0], max_size=size[1])
        case "integer":
            return _NUMBERS | st.integers(0, 4)
        case "number":
            return _FLOATS | _NUMBERS
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string":
            return _WORDS
    return _ANYTHING
