"""What the experiments share: where results go, and on what machine and commit they were made."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = Path(os.environ.get("WARREN_RESULTS", HERE / "results"))
"""``warren reproduce`` has a folder of its own."""
DATA = Path(os.environ.get("WARREN_DATA", ROOT.parent / "shared" / "data"))

_OWN = tempfile.TemporaryDirectory(prefix="warren-experiment-")
# What is found does not hang on the history of whoever looks for it, and does not change that.
os.environ.setdefault("WARREN_HISTORY", f"{_OWN.name}/history.db")


def save(name: str, seed: int, content: Mapping[str, Any]) -> None:
    """Write ``results/<name>.json`` with the machine, the commit and the seed beside it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    value = {"experiment": name, "made_by": made_by(), "seed": seed, **content}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(value, indent=1) + "\n")
    print(f"wrote {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")


def earlier(name: str) -> dict[str, Any]:
    """The parts in ``results/<name>.json``; empty without that file."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text())["parts"] if path.exists() else {}
    return found


def commits(parts: Mapping[str, Any]) -> str:
    """The commits that the rows of some parts were made at."""
    found = {
        row.get("commit", part["made_by"]["commit"])
        for part in parts.values()
        for row in part["rows"]
    }
    return ", ".join(sorted(found))


def made_by() -> dict[str, Any]:
    """Commit, processor, cores and versions."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True
    )
    changed = subprocess.run(
        [*git, "status", "--porcelain", "src", "examples"], capture_output=True, text=True
    )
    model = next(
        (line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), ""
    )
    return {
        "commit": commit.stdout.strip() + (" and local changes" if changed.stdout.strip() else ""),
        "processor": model or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def warren(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a ``warren`` command and return what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "warren", *arguments], capture_output=True, text=True, check=False
    )


def warren_json(*arguments: str) -> Any:
    """The JSON a ``warren`` command prints; stops the experiment if the command fails."""
    done = warren(*arguments, "--json")
    if done.returncode:
        sys.exit(f"warren {' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def table(rows: Sequence[Sequence[object]]) -> None:
    """Print rows as aligned columns."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    for row in texts:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def short(cell: object) -> object:
    """A float in four digits; anything else as it is."""
    return f"{cell:.4g}" if isinstance(cell, float) else cell


def jct_error(compared: Any) -> dict[str, float]:
    """The JCT error in what ``warren compare LIVE SIMULATED --json`` prints."""
    live = next(one for one in compared if one.get("jct_errors"))
    found: dict[str, float] = live["jct_errors"][0]
    return found
