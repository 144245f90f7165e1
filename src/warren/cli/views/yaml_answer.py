"""The answer of a command that makes a YAML file: the file itself, or its text, or its content."""

from __future__ import annotations

from pathlib import Path

from warren.cli.streams import answer, print_json, say
from warren.store.files import write_atomic


def answer_yaml(text: str, out: str | None, json_: bool, size: str = "") -> None:
    """Write a text to the file ``out``; without one print it, and with ``--json`` its content.

    ``size`` tells people how much was written.
    """
    if out is not None:
        write_atomic(Path(out), text)
        say(f"written: {out}{size}")
    # The text is read back, so that --json prints the very content of the file.
    if json_:
        # Imported here: few answers need it.
        import yaml

        print_json(yaml.safe_load(text))
    elif out is None:
        answer(text.rstrip("\n"))
