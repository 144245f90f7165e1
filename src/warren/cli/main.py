"""The command ``warren``: start, call, end. Light, so that a signal finds its handler early."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point; see ``warren.cli.errors`` for the exit codes."""
    import gc
    import os
    import signal

    # Almost nothing that is made dies in a cycle; to look after every 700 objects, as is usual,
    # takes a twelfth of a short run. Up to here come the classes and functions of all libraries.
    gc.set_threshold(200_000)
    # A second thread of numpy's BLAS costs more to start than all it would do here, and sums in
    # another order. User code runs in processes of its own, which have their own setting.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Until the handlers stand, Ctrl-C ends the process without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = call(sys.argv[1:])
    # The interpreter would look through all that is left for cycles, twice, and end then.
    gc.freeze()
    sys.exit(code)


def call(arguments: list[str]) -> int:
    """Run one command line; gives its exit code. Anything raised becomes one line."""
    from warren.store.signals import held, interruptible

    try:
        with interruptible():
            try:
                return _invoke(arguments)
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
    from warren.cli.errors import end_of

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
