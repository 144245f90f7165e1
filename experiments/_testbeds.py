"""Hosts with a link and a part of a processor each, for as long as they are needed, and runs there.

What is played in virtual time instead needs none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import _common
import yaml
from _host_speed import During, beside
from _jpas_live import folder_files

from warren.core.journal_reader import History
from warren.live.testbed.link_test import GOODPUT
from warren.runs.results import load_record

_FRAME_BYTES: Final = 1514
_ACK_BYTES: Final = 66


@contextmanager
def limited_hosts(name: str, hosts: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    """Hosts of a testbed, as its file states them; what links carry of their rates, in the mean.

    Of payload, where all links are busy both ways: as measured, less than their rates by headers
    (``GOODPUT``), and less by the acknowledgement of 66 bytes that goes back for two frames.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"format": 1, "queue": "fair", "hosts": list(hosts)}, file)
        file.flush()
        up = _common.warren_json("testbed", "up", "--file", file.name, "--name", name)
    try:
        measured = fmean(one["goodput_bps"] / one["expected_bps"] for one in up["measured"])
        yield measured * GOODPUT * 2 * _FRAME_BYTES / (2 * _FRAME_BYTES + _ACK_BYTES)
    finally:
        _common.warren_json("testbed", "down", "--name", name)


def played(
    run: Mapping[str, Any], during: During | None = None, *, live: bool = True
) -> tuple[History, dict[str, Any]]:
    """The history of a run, live or in virtual time, and its summary; ``during`` goes on beside."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "run.yaml", Path(folder) / "out"
        file.write_text(yaml.safe_dump(dict(run), sort_keys=False))
        with beside(during, out):
            summary = _common.warren_json(
                "run" if live else "simulate", str(file), "--out", str(out)
            )
        return load_record("run", folder_files(out)).history, summary
