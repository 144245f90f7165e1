"""The command ``warren``: start, call, end. Light, so that a signal finds its handler early."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from warren.cli.signals import held, interruptible


def main() -> None:
    """Entry point; see ``warren.cli.ending`` for the exit codes."""
    sys.exit(call(sys.argv[1:]))


def call(arguments: Sequence[str]) -> int:
    """Run one command line; gives its exit code. Anything raised becomes one line."""
    try:
        with interruptible():
            try:
                return _invoke(list(arguments))
            except BaseException as error:
                with held():
                    return _end(error)
    except KeyboardInterrupt:  # it came while another error was being told
        return 130


def _invoke(arguments: list[str]) -> int:
    import typer

    from warren.cli.app import app

    command = typer.main.get_command(app)
    with command.make_context("warren", arguments) as context:
        command.invoke(context)
    if sys.stdout is not None:
        sys.stdout.flush()
    return 0


def _end(error: BaseException) -> int:
    from warren.cli.ending import end_of

    code = end_of(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _drop_stdout()
    return code


def _drop_stdout() -> None:
    """Nobody reads: what is still buffered must not raise again while the interpreter ends."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    main()
