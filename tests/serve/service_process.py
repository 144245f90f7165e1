"""A service in a process of its own, with the agent of this machine, for live tests."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import processes

PROGRAM: Final = """
import sys
from pathlib import Path
from warren.model.errors import SpecError
from warren.serve.daemon.service import run_service

try:
    run_service(Path(sys.argv[1]), stop_jobs=sys.argv[2:] == ["stop"])
except SpecError as error:
    sys.exit(f"refused: {error}")
"""


class ServiceProcess:
    """A service that runs; what it says is in ``said``."""

    def __init__(self, home: Path, *more: str) -> None:
        self.home = home
        self._lines = home.with_name("said")
        with self._lines.open("ab") as lines:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(home), *more],
                stderr=lines,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._lines.read_text()

    @property
    def server(self) -> str:
        """What clients name as the server."""
        return str(self.home / "socket")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(processes.PATIENCE_S)


@contextmanager
def service(home: Path, *more: str) -> Iterator[ServiceProcess]:
    """A service until the block ends, where it still runs then."""
    joined = 0
    if home.with_name("said").exists():
        joined = home.with_name("said").read_text().count(" joined: ")
    made = ServiceProcess(home, *more)
    try:
        assert processes.wait_until(
            lambda: made.said.count(" joined: ") > joined or made.process.poll() is not None
        )
        yield made
    finally:
        if made.process.poll() is None:
            made.end()
