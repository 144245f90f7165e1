"""The client of the privileged helper: it starts the helper, asks it, and ends with it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from warren.live.enforcement.helper import READ
from warren.live.enforcement.requests import FlowRequest, checked
from warren.model.errors import EngineError, Problem, SpecError

_ANSWER_S: Final = 30.0


class FlowHelper:
    """A helper process for one label.

    ``sudo``: started by ``sudo -n``, which asks for no password and fails where it would;
    ``reads``: it only looks, also while another one serves the label.
    """

    def __init__(self, label: str, sudo: bool = False, reads: bool = False) -> None:
        own = [sys.executable, "-I", "-m", "warren.live.enforcement.helper", label]
        own += [READ] if reads else []
        self._process = subprocess.Popen(
            [*(["sudo", "-n"] if sudo else []), *own],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._read = b""
        try:
            self._answer(_ANSWER_S)
        except BaseException:
            self.close()
            raise

    def ask(self, request: FlowRequest) -> dict[str, Any]:
        """Have one operation done; return the rules that stand then.

        Raises
        ------
        SpecError
            If the helper refuses it; nothing was changed.
        EngineError
            If it fails, or does not answer in 30 s.
        """
        line = msgspec.json.encode(checked(request)) + b"\n"
        assert self._process.stdin
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EngineError("flow: the helper has ended") from None
        return self._answer(_ANSWER_S)

    def close(self) -> None:
        """End the helper, which removes its rules."""
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait(_ANSWER_S)
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The helper's process."""
        return self._process.pid

    def _answer(self, limit_s: float) -> dict[str, Any]:
        assert self._process.stdout
        fd, end_s = self._process.stdout.fileno(), time.monotonic() + limit_s
        while b"\n" not in self._read:
            ready, _, _ = select.select([fd], [], [], max(0.0, end_s - time.monotonic()))
            if not ready:
                # An answer that came later would be taken for that of the next request.
                self._process.kill()
                raise EngineError(f"flow: the helper did not answer in {limit_s:g} s")
            got = os.read(fd, 65536)
            if not got:
                raise EngineError("flow: the helper has ended")
            self._read += got
        line, _, self._read = self._read.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            text = str(answer["error"])
            if answer.get("wrong_input"):
                raise SpecError(Problem(file="flow", message=text.removeprefix("flow: ")))
            raise EngineError(text)
        return answer
