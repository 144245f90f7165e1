"""A model of twice its host's free memory trains with its blocks on disk (Harmony, 4.3.3).

One job of one task a round trains a stack of equal layers with Adam on a host of one processor. The
host's free memory is what Warren's own processes leave of ``hosts[].memory`` without its margin, as
the first build's refusal says. Where the model is on disk, all data are (alpha = 1).

Runs: all in memory; the host's memory stated, where Warren decides that the blocks go to disk; and
the same with the kernel's limit at the stated memory, beyond which it ends a process. All processes
of a run are in one cgroup of their own (version 1, as root). ``kernel_peak_bytes`` is the most of
its memory, page cache included. ``anonymous_peak_bytes`` and ``cache_peak_bytes`` are parts of it,
read every 50 ms: memory of no file with shared memory, and pages of files that the kernel can drop.

``--only NAME`` makes one run again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import _common
import _disturb
import yaml
from input_spill import makespan_s, remove_cgroup

MEMORY: Final = 900_000_000
LAYERS: Final = 63
WIDTH: Final = 2048
ROWS: Final = 30_000
ROUNDS: Final = 2
CGROUP: Final = Path(f"/sys/fs/cgroup/memory/warren-model-spill-{os.getpid()}")
SAMPLED_S: Final = 0.05
ENDED_S: Final = 1800
APP: Final = f'''
import torch
from torch import nn
from warren.apps.protocol import TorchApp


class Stack(TorchApp):
    """{LAYERS} equal layers, each with what came before added."""

    def model(self):
        return nn.ModuleList(nn.Linear({WIDTH}, {WIDTH}) for _ in range({LAYERS}))

    def dataset(self):
        return torch.randn({ROWS}, {WIDTH} // 2)

    def optimizer(self, named_parameters):
        return torch.optim.Adam([p for _, p in named_parameters], lr=1e-4)

    def loss(self, model, batch):
        out = batch.repeat(1, 2)
        for layer in model:
            out = out + torch.relu(layer(out)) / len(model)
        return (out.mean(1) - batch.mean(1)).square().mean()
'''

Row = dict[str, Any]
RUNS: Final = {
    "in memory": (False, False),
    "on disk": (True, False),
    "on disk, kernel's limit": (True, True),
}
"""Of each run whether the host's memory is stated, and whether the kernel limits it."""


def main() -> None:
    """Make the runs, print and save them; stop with an error where bits or the budget differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="this run")
    only = parser.parse_args().only
    if only and only not in RUNS:
        parser.error(f"--only {only}: one of {', '.join(RUNS)}")
    CGROUP.mkdir()
    try:
        with tempfile.TemporaryDirectory(prefix="warren-spill-") as scratch:
            (Path(scratch) / "stack.py").write_text(APP)
            for name in [only] if only else list(RUNS):
                save(row_of(Path(scratch), name))
    finally:
        remove_cgroup(CGROUP)


def save(row: Row) -> None:
    """Put a row into the results; stop with an error where bits or the budget differ."""
    path = _common.RESULTS / "model_spill.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    found = {one["run"]: one for one in rows} | {row["run"]: row | {"made_by": _common.made_by()}}
    rows = [found[name] for name in RUNS if name in found]
    same = len({json.dumps(one["sha256"]) for one in rows}) == 1 and len(row["sha256"]) == 1
    # What the kernel can drop counts only where the kernel has the limit, too.
    within = all(
        one["kernel_peak_bytes" if RUNS[one["run"]][1] else "anonymous_peak_bytes"] <= MEMORY
        for one in rows
        if RUNS[one["run"]][0]
    )
    left = (re.search(r"than the ([0-9.]+) MB", one) for row in rows for one in row["said"])
    content = {
        "memory_bytes": MEMORY,
        "free_bytes": round(1e6 * max((float(one[1]) for one in left if one), default=0)),
        "model_bytes": model_bytes(),
        "data_bytes": 4 * ROWS * WIDTH // 2,
        "rounds": ROUNDS,
        "same_bits": same,
        "within": within,
        "rows": rows,
    }
    _common.save("model_spill", 1, content)
    if not (same and within):
        sys.exit("the job did not finish, has other bits, or the memory was exceeded")


def model_bytes() -> int:
    """The bytes of the model's parameters."""
    return 4 * LAYERS * WIDTH * (WIDTH + 1)


def row_of(scratch: Path, name: str) -> Row:
    """Make one run; what it took of memory and time, and what its job has trained."""
    stated, limited = RUNS[name]
    host: Row = {"name": "h", "devices": {"cpu": 1}}
    task = {"model": "large", "scale": 1, "rounds": ROUNDS, "batch": 4}
    run = {
        "format": 1,
        "cluster": {
            "hosts": [host | {"memory": MEMORY} if stated else host],
            "local": {"spill": True} if stated else {},
        },
        "workload": {"jobs": [{"name": "stack", "app": f"{scratch}/stack.py:Stack", **task}]},
        "profiles": {"large": {"model": model_bytes(), "comp": {"cpu": "1 s"}}},
        "verify": 0,
    }
    out = scratch / re.sub(r"\W+", "-", name)
    file = out.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(run))
    command = [sys.executable, "-m", "warren", "run", str(file), "--out", str(out), "--no-history"]
    began_s = time.monotonic()
    peaks = sampled(command, scratch, limited=limited)
    log = out / "logs" / "stack.log"
    said = re.findall("model blocks are on disk.*", log.read_text()) if log.exists() else []
    row: Row = {
        "run": name,
        "makespan_s": makespan_s(out),
        "wall_s": round(time.monotonic() - began_s, 1),
        **peaks,
        "kernel_peak_bytes": int((CGROUP / "memory.max_usage_in_bytes").read_text()),
        "said": said,
        "sha256": _disturb.hashes(out),
    }
    print("  ".join(f"{key} {value}" for key, value in row.items() if key != "sha256"), flush=True)
    return row


def sampled(command: list[str], scratch: Path, *, limited: bool) -> dict[str, int]:
    """Run a command in the cgroup; return the most of parts of its memory, and the looks."""
    (CGROUP / "memory.limit_in_bytes").write_text(str(MEMORY if limited else -1))
    (CGROUP / "memory.force_empty").write_text("0")
    (CGROUP / "memory.max_usage_in_bytes").write_text("0")
    # A shell that moves itself into the cgroup, and becomes the command.
    shell = ["/bin/sh", "-c", f'echo 0 > {CGROUP}/cgroup.procs && exec "$@"', "sh", *command]
    environment = os.environ | {"TMPDIR": str(scratch)}
    process = subprocess.Popen(shell, stdout=subprocess.DEVNULL, env=environment)
    anonymous = cache = samples = 0
    began_s = time.monotonic()
    while process.poll() is None:
        rows = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        shared = int(rows["total_shmem"])
        anonymous = max(anonymous, int(rows["total_rss"]) + shared)
        cache = max(cache, int(rows["total_cache"]) - shared)
        samples += 1
        if time.monotonic() - began_s > ENDED_S:
            process.kill()
        time.sleep(SAMPLED_S)
    return {"anonymous_peak_bytes": anonymous, "cache_peak_bytes": cache, "samples": samples}


if __name__ == "__main__":
    main()
