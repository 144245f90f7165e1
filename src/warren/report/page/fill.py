"""Templates of the page, filled in by Jinja2: every value is escaped unless it is markup already.

The templates, the style and the script are files of their own in ``templates``: parts of the
package, read like its modules, and no input.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Characters that HTML does not allow, or that turn the text around them."""


def fill(template: str, **values: object) -> Markup:
    """Fill a template's places; return markup that may stand in another template."""
    # The template has escaped every value that was no markup, so the result is markup.
    return Markup(_environment().get_template(template).render(**values))


def source(file: str) -> Markup:
    """Return a file of ``templates`` unchanged, for the page's own style and script."""
    loader = _environment().loader
    assert loader is not None
    return Markup(loader.get_source(_environment(), file)[0])


def readable(value: object) -> object:
    """Replace control characters in a user's text; markup is left unchanged."""
    return value if isinstance(value, Markup) else _CONTROL.sub("\ufffd", str(value))


def escaped(text: object) -> str:
    """Make text safe between tags and inside quoted attributes; replace control characters."""
    return str(escape(readable(text)))


@cache
def _environment() -> Environment:
    """Return the environment of the page's templates, made once."""
    # A name that a template uses and the caller does not pass is an error, not an empty text.
    return Environment(
        loader=PackageLoader("warren.report.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
