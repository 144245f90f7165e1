"""Commands and programs in processes of their own, forked from one that has loaded what they load.

To start Python, load the command, and load PyTorch into its zygote takes 4 s of a core; what a test
asks of a run takes a few tenths. The fork is a process like any other, with its own files and
environment; its zygote is its own child, forked from it. How a command starts is not tested so;
``cold`` ones are there for that.
"""

from __future__ import annotations

import atexit
import gc
import os
import resource
import runpy
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

from warm_zygote import Forked, WarmZygote, be_alone, become_zygote, use_huge_pages

from warren.live.process.linux import die_with_parent

LOADED = (
    "jinja2",
    "pyarrow.csv",
    "pyarrow.parquet",
    "warren.cli.main",
    "warren.cli.commands.run",
    "warren.cli.views.summary_text",
    "warren.live.control.local_engine",
    "warren.live.control.plain_engine",
)
OF_COMMANDS = (
    "pandas",  # by Arrow
    "warren.cli.app",
    "warren.cli.views.live_view",
    "warren.policy.place.hare.policy",
    "warren.report.page.page",
    "warren.runs.resume",
    "warren.sim.build",
    "warren.solve.bounds.lower_bounds",
    "warren.workload.run_file",
    "scipy.optimize",  # after numba, which is loaded without
)
"""What ``warren run`` loads besides: a thousand modules, which take a second and a half."""


def start(
    arguments: Sequence[str | Path],
    environment: Mapping[str, str],
    output: IO[Any],
    errors: IO[Any],
    limit: int | None = None,
    entry: Sequence[int] = (),
) -> Forked:
    """Run ``python ARGUMENTS``: a program, or ``-m warren``; no file of it exceeds ``limit``.

    ``entry``: the file descriptor of its standard input, if it has one.
    """
    assert WarmZygote.here is not None
    wanted = {
        "arguments": [str(one) for one in arguments],
        "environment": dict(environment),
        "limit": limit,
    }
    return WarmZygote.here.start_program(wanted, [output.fileno(), errors.fileno(), *entry])


def start_and_hear(
    arguments: Sequence[str | Path], environment: Mapping[str, str]
) -> tuple[Forked, str]:
    """Run ``python ARGUMENTS``; gives the process and the first line that it prints.

    A traceback fails the test that asked.
    """
    read, write = os.pipe()
    with open(read) as said:
        with open(write, "w") as output:
            program = start(arguments, environment, output, output)
        first = said.readline()
        assert not first.startswith("Traceback"), first + said.read()
        return program, first


def load(wanted: dict[str, Any]) -> None:
    """Load what commands and other programs load, before the first of them is forked."""
    from warren.live.process import process_pool

    _load(LOADED)
    process_pool._start_zygote = fork_zygote  # type: ignore[assignment]
    if wanted["arguments"][0] == "-m":
        _load(OF_COMMANDS)


@cache
def _load(names: Sequence[str]) -> None:
    from warren.live.process import zygote

    for name in names:
        import_module(name)
    gc.collect()
    gc.freeze()
    use_huge_pages()
    if len(zygote.thread_names()) != 1:
        sys.exit(f"threads after loading commands: {zygote.thread_names()}")


def become(wanted: dict[str, Any], fds: Sequence[int]) -> NoReturn:
    """Be what Python would be that was started with these arguments."""
    code: object = 1
    try:
        be_alone(wanted, fds, [2, 0][: len(fds) - 1])  # the second is for errors
        die_with_parent(wanted["parent"])  # tests that are killed leave nothing that runs on
        tempfile.tempdir = None  # the folder of this environment, not that of the warm process
        if wanted["limit"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (wanted["limit"],) * 2)
        code = run(wanted["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def run(arguments: Sequence[str]) -> object:
    """Run a module or a program; gives its exit code."""
    try:
        if arguments[0] == "-m":
            sys.path[0] = os.getcwd()
            sys.argv = list(arguments[1:])
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(arguments[0]).parent)
            sys.argv = list(arguments)
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as ended:
        return 0 if ended.code is None else ended.code
    return 0


def fork_zygote(
    arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes], fds: Sequence[int]
) -> Forked:
    """Fork the zygote of the run in this process; stands in for ``process_pool._start_zygote``."""
    wanted = {
        "arguments": arguments,
        "environment": dict(environment),
        "folder": os.getcwd(),
        "fds": fds,
        "parent": os.getpid(),
    }
    pid = os.fork()
    if not pid:
        become_zygote(wanted, [output.fileno(), *fds])
    return Forked(pid)
