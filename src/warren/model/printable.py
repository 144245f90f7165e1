"""Text that a terminal can show. Light: also the commands load it that shall start at once."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text with all that cannot be printed as an escape: ``\\x1b``, ``\\udce9``.

    Control characters would steer a terminal; a lone surrogate fits into no file or message.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
