"""Templates and files of the page, and the headers that keep foreign scripts out of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from warren import __version__

_HERE: Final = Path(__file__).parent
_TYPES: Final = {
    "htmx.min.js": "text/javascript",
    "page.css": "text/css",
    "page.js": "text/javascript",
}
"""The files of the page."""
PAGE_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of each page: only files of this server run or load."""


@dataclass(frozen=True, slots=True)
class Page:
    """A template and its values."""

    template: str
    values: dict[str, Any]

    def response(self, status: int = 200) -> Response:
        """Return the page as HTML."""
        text = _templates().get_template(self.template).render(version=__version__, **self.values)
        return Response(text, status, PAGE_HEADERS, "text/html; charset=utf-8")


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def static_file(name: str) -> tuple[bytes, str] | None:
    """Return the bytes and the type of a file of the page; None if there is none of this name."""
    if name not in _TYPES:
        return None
    return (_HERE / "static" / name).read_bytes(), f"{_TYPES[name]}; charset=utf-8"
