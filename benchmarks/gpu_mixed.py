"""Six jobs on one GPU under ``hare``, with real switches: how busy the GPU is, and the bits.

The jobs are nets of the size of Hare's Table 2, two tasks a round; what they cost is measured
before, as in any run without rows. Figures: the share of time in which a task is on COMP, from the
first task to the end of the first job, while there are six, and to the last task; and the
utilization that nvidia-smi reads every 100 ms, which counts moments in which a kernel runs. No task
is computed again here (``verify: 0``): of a job of few tasks the first ones that are would be many.
``--alone`` trains each job by the plain loop too, and it has to have the same bits. ``--twice``
runs all once more, planned with the medians of the first run, as where jobs have a past: what is
measured before a run is each job alone. That raised no share. Without a GPU nothing is measured.
``--out FILE`` writes the figures (the page is made of experiments/results/gpu_mixed.json).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[1] / "experiments"))
from _common import made_by

import warren
from warren.live.gpu.discovery import gpus_here

MODELS: Final = Path(__file__).parent / "_gpu_models.py"
JOBS: Final = {
    # Class, and rounds: about as long a job each.
    "vgg19": ("Vgg19", 20),
    "resnet50": ("ResNet50", 30),
    "inception": ("InceptionV3", 8),
    "bert": ("BertBase", 6),
    "transformer": ("Transformer", 15),
    "deepspeech": ("DeepSpeech", 15),
}


def main() -> None:
    """Run, compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--twice", action="store_true")
    asked = parser.parse_args()
    gpus = gpus_here()
    if not gpus:
        print("skipped: there is no GPU here that torch can use")
        return
    with tempfile.TemporaryDirectory(prefix="warren-gpu-mixed-") as scratch:
        file = Path(scratch) / "run.yaml"
        file.write_text(json.dumps(run_of()))  # JSON is YAML
        watch = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        smi = subprocess.Popen(
            [*watch, "-lms", "100"], stdout=subprocess.PIPE, text=True, bufsize=1
        )
        began = time.monotonic()
        mixed = trained(file, Path(scratch) / "mixed")
        took_s = time.monotonic() - began
        smi.terminate()
        levels = [int(line) for line in smi.communicate()[0].split() if line.isdigit()]
        found: dict[str, Any] = {
            "experiment": "gpu_mixed",
            "made_by": made_by(),
            **told(Path(scratch) / "mixed"),
            "hashes": mixed["hashes"],
            "gpu": gpus[0].numerics,
            "makespan_s": mixed["summary"]["makespan_s"],
            "smi_mean": busy_levels(levels, mixed["summary"]["makespan_s"]),
            "took_s": took_s,
            "summary": mixed["summary"],
        }
        if asked.alone:
            plain = trained(file, Path(scratch) / "plain", "--set", "cluster.engine=plain")
            names = unlike(mixed["hashes"], plain["hashes"])
            found["alone"] = {"gpu": gpus[0].numerics, "made_by": made_by(), "wrong": names}
        if asked.twice:
            rows = rows_of(found["tasks"], "cuda")
            found["again_with_medians"] = once_more(file, Path(scratch) / "twice", rows, mixed)
    print(json.dumps(found, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


def run_of() -> dict[str, Any]:
    """The run, as its file would say it."""
    jobs = [
        {
            "name": name,
            "app": f"{MODELS}:{kind}",
            "scale": 2,
            "rounds": rounds,
            "batch": batch_of(kind),
        }
        for name, (kind, rounds) in JOBS.items()
    ]
    return {
        "format": 1,
        "name": "gpu-mixed",
        "cluster": {"hosts": [{"name": "h", "devices": {"cuda": 1}}]},
        "workload": jobs,
        "verify": 0,
        "scheduler": {"place": "hare"},
        "seed": 1,
    }


def batch_of(kind: str) -> int:
    """The batch of a model."""
    import _gpu_models

    batch: int = getattr(_gpu_models, kind).batch
    return batch


def trained(file: Path, out: Path, *more: str) -> dict[str, Any]:
    """Train into a folder; its summary, and the hash of each job."""
    command = [sys.executable, "-m", "warren", "run", str(file), "--out", str(out), *more, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-3000:], flush=True)
    loaded = warren.load(out)
    hashes = {name: job.row["params_sha256"] for name, job in loaded.jobs.items()}
    return {"summary": json.loads(done.stdout or "{}"), "hashes": hashes}


def rows_of(tasks: dict[str, Any], kind: str) -> dict[str, Any]:
    """Rows of ``profiles`` by the names of measured ones: the medians that ``told`` gives."""
    return {
        f"measured:{name}": {
            "model": 0,
            "comp": {kind: f"{1000 * row['comp_s']:.6f} ms"},
            "sync": {kind: f"{1000 * row['sync_s']:.6f} ms"},
            "source": {"comp": "medians of a run of all jobs"},
        }
        for name, row in tasks.items()
    }


def once_more(file: Path, out: Path, rows: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """Run with these costs; the same figures, and the jobs that have other bits."""
    done = trained(file, out, "--set", f"profiles={json.dumps(rows)}")
    wrong = unlike(first["hashes"], done["hashes"])
    return {**told(out), "makespan_s": done["summary"]["makespan_s"], "wrong": wrong}


def unlike(some: dict[str, str], others: dict[str, str]) -> list[str]:
    """The jobs that have not the same bits."""
    return [name for name in some if some[name] != others[name]]


def comp_shares(out: Path) -> tuple[float, float]:
    """The share of time in which a task is on COMP, to the end of the first job and of the last."""
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(out / "timeline.parquet").to_pydict()
    tasks = list(zip(rows["start_s"], rows["comp_end_s"], strict=True))
    last: dict[Any, float] = {}
    for job, end in zip(rows["job"], rows["comp_end_s"], strict=True):
        last[job] = max(end, last.get(job, 0.0))
    begin = min(rows["start_s"])

    def share(until: float) -> float:
        busy = sum(min(end, until) - start for start, end in tasks if start < until)
        return float(busy / (until - begin))

    return share(min(last.values())), share(max(last.values()))


def told(out: Path) -> dict[str, Any]:
    """Shares of COMP, medians of tasks by job, and what the device was idle before, in seconds."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(out / "timeline.parquet").to_pydict()
    columns = (table[name] for name in ("start_s", "comp_end_s", "end_s", "job", "round"))
    rows = sorted(zip(*columns, strict=True))
    idle: Counter[str] = Counter()
    seen = {rows[0][3]}
    for (_, end_s, _, before, last), (start_s, _, _, job, round_no) in pairwise(rows):
        what = "another job's task"
        if job not in seen:
            what = "the first task of a job"
        elif job == before:
            what = "a task of the same round" if round_no == last else "the next round of a job"
        seen.add(job)
        idle[what] += max(0.0, start_s - end_s)
    tasks = {}
    for name in sorted(seen):
        own = [row for row in rows if row[3] == name]
        tasks[name] = {
            "tasks": len(own),
            "comp_s": median(end_s - start_s for start_s, end_s, *_ in own),
            "sync_s": median(over_s - end_s for _, end_s, over_s, *_ in own),
        }
    six, whole = comp_shares(out)
    return {
        "comp_share_while_six": six,
        "comp_share": whole,
        "idle_s": dict(idle),
        "tasks": tasks,
    }


def busy_levels(levels: list[int], makespan_s: float) -> float:
    """The mean of the readings in the run itself, which is the busiest stretch of its length."""
    count = max(1, int(makespan_s * 10))
    sums = [sum(levels[at : at + count]) / count for at in range(max(1, len(levels) - count))]
    return max(sums, default=0.0)


if __name__ == "__main__":
    main()
