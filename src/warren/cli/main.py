"""The command ``warren``: start, call, end. Light, so that a signal finds its handler early."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and end it; ``warren.cli.errors`` has the exit codes."""
    import gc
    import io
    import signal

    # Almost no object of a run becomes garbage in a cycle. To search for cycles after every 700 new
    # objects, as the interpreter does, takes a twelfth of a short run. The imports of all libraries
    # make about as many objects as this limit.
    gc.set_threshold(200_000)
    # Until the handlers stand, Ctrl-C ends the process without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The name of a file need not be UTF-8: a character that cannot be printed becomes an escape.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    code = call(sys.argv[1:])
    # Frozen objects are left alone: the interpreter would search all for cycles twice at its end.
    gc.freeze()
    sys.exit(code)


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code; anything that is raised becomes one line."""
    # Imported here and below, so that the signal's handler is set before libraries are loaded.
    from warren.store.signals import held, interruptible

    try:
        with interruptible():
            try:
                return _invoke(arguments)
            except BaseException as error:
                # A signal that comes meanwhile must not cut off the line that tells of the error.
                with held():
                    return _end(error)
    except KeyboardInterrupt:  # it came while another error was being reported
        return 130


def _invoke(arguments: list[str]) -> int:
    """Run a command line and return its exit code; an error, or another one, is raised."""
    from warren.cli.service.lookup import quickly

    # A plain request to the service is done before the library below would be loaded.
    request = quickly(arguments)
    code = request() if request is not None else _by_library(arguments)
    # Now, so that a full disk is an error of the command, and not one after its end.
    if sys.stdout is not None:
        sys.stdout.flush()
    return code or 0


def _by_library(arguments: list[str]) -> int:
    """Run any command line and return 0; an error, or another exit code, is raised."""
    import os

    from warren.cli.service.names import ALL

    # A second thread of numpy's BLAS costs more to start than all it would do here, and sums in
    # another order. User code runs in processes of its own, which have their own setting; a command
    # that is submitted has the variables of the shell, so nothing is added to them.
    if arguments[:1] and arguments[0] not in ALL:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import typer

    from warren.cli.app import app

    command = typer.main.get_command(app)
    # Not ``command.main``: that prints errors in its own way and ends the process.
    with command.make_context("warren", arguments) as context:
        command.invoke(context)
    return 0


def _end(error: BaseException) -> int:
    """Tell of an error and return the exit code."""
    from warren.cli.errors import end_of

    code = end_of(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _drop_stdout()
    return code


def _drop_stdout() -> None:
    """Send standard output nowhere, since its reader has gone.

    Buffered text must not raise again while the interpreter ends.
    """
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    main()
