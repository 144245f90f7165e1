"""What Warren adds to a task: without any computing, and to one of 20 ms.

*Without computing*: four jobs on four devices of this machine, whose tasks pass over one number;
the time from the first arrival to the last barrier over the number of tasks, once with a barrier
after every task and once after every fourth. Nothing is emulated; the journal is kept.
*20 ms*: one job on one device, against the plain loop: with a barrier after every task, which
nothing can hide, and after every fourth.

Medians of ``RUNS`` runs of the command, or of ``PAIRS`` in which the plain loop runs before and
after two live runs, so that a machine that becomes slower or faster meanwhile favours neither. The
plain loop on the same tasks is the floor. It is timed as the difference of a long and a short job,
since building the app counts in its jobs' times; of a live job the rounds after the first ten are
timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from _ranges import RUNS, report

import warren

APPS: Final = Path(__file__).with_name("_apps.py")
NO_WORK_TASKS: Final = 2400
TASK_S: Final = 0.020
ROUNDS: Final = 150
WARM: Final = 10
DEVICES: Final = 4
PAIRS: Final = 3


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    figures = {}
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        bench = Bench(Path(folder))
        for scale in (1, 4):
            tasks_s = [bench.no_work_task_s(scale) for _ in range(RUNS)]
            figures[f"no_work_ms_a_task_scale_{scale}"] = show("no work", scale, tasks_s)
        plain = [bench.plain_task_s("Nothing", NO_WORK_TASKS // 4, {}) for _ in range(RUNS)]
        figures["no_work_ms_a_task_plain"] = show("no work, plain", 1, plain)
        passes = bench.passes_for(TASK_S)
        for scale in (1, 4):
            pairs = [bench.pair_s(passes, scale) for _ in range(PAIRS)]
            show(f"batch {passes} times", scale, [live for live, _ in pairs])
            plain_ms = show(f"batch {passes} times, plain", scale, [plain for _, plain in pairs])
            ratios = [live / plain for live, plain in pairs]
            print(f"ratios, scale {scale}:", " ".join(f"{one:.3f}" for one in ratios), flush=True)
            figures[f"twenty_ms_task_over_plain_scale_{scale}"] = median(ratios)
        figures["twenty_ms_task_plain_ms"] = plain_ms
    report(figures)


def show(what: str, scale: int, tasks_s: list[float]) -> float:
    """Print the milliseconds a task of every run; the median."""
    values_ms = [1000 * one for one in tasks_s]
    text = " ".join(f"{one:.3f}" for one in values_ms)
    print(f"{what}, scale {scale}: {text} ms a task", flush=True)
    return median(values_ms)


class Bench:
    """Runs of the command into folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0

    def no_work_task_s(self, scale: int) -> float:
        """Seconds from the first arrival to the last barrier, a task."""
        rounds = NO_WORK_TASKS // (4 * scale)
        jobs = [job(f"job-{k}", "Nothing", scale, rounds) for k in range(4)]
        out = self.train(jobs, devices=DEVICES)
        summary = json.loads((out / "summary.json").read_text())
        return float(summary["makespan_s"]) / int(summary["tasks"])

    def passes_for(self, task_s: float) -> int:
        """How often a task of this length takes its batch in the plain loop, undisturbed."""
        passes = 150
        for _ in range(2):
            what = "Matmuls", 60, {"passes": passes}
            found_s = min(self.plain_task_s(*what) for _ in range(PAIRS))
            passes = max(1, round(passes * task_s / found_s))
        return passes

    def pair_s(self, passes: int, scale: int) -> tuple[float, float]:
        """Seconds a task of the same job, live and plain, each the mean of two runs."""
        what = "Matmuls", ROUNDS // scale, {"passes": passes}, scale
        before_s = self.plain_task_s(*what)
        live_s = mean(self.live_task_s(*what) for _ in range(2))
        return live_s, (before_s + self.plain_task_s(*what)) / 2

    def live_task_s(self, app: str, rounds: int, params: dict[str, int], scale: int) -> float:
        """Seconds from barrier to barrier, a task."""
        out = self.train([job("work", app, scale, rounds + WARM, params)], devices=1)
        rows = (out / "metrics" / "work.csv").read_text().splitlines()[1:]
        times_s = [float(row.split(",")[1]) for row in rows]
        return (times_s[-1] - times_s[WARM - 1]) / (len(times_s) - WARM) / scale

    def plain_task_s(self, app: str, rounds: int, params: dict[str, int], scale: int = 1) -> float:
        """Seconds a task of the plain loop, in its own process."""
        short, long = (job(f"job-{n}", app, scale, n, params) for n in (WARM, rounds + WARM))
        found = warren.load(self.train([short, long], devices=1, engine="plain"))
        short_s, long_s = (
            float(one.row["finish_s"]) - float(one.row["start_s"]) for one in found.jobs.values()
        )
        return (long_s - short_s) / rounds / scale

    def train(self, jobs: list[dict[str, Any]], *, devices: int, engine: str = "local") -> Path:
        """One run of the command; its folder."""
        self.runs += 1
        out, file = self.folder / f"out-{self.runs}", self.folder / f"run-{self.runs}.yaml"
        cluster = {"hosts": [{"name": "h", "devices": {"CPU": devices}}], "engine": engine}
        row = {"model": 0, "comp": {"CPU": "1 ms"}, "sync": {"CPU": "1 ms"}}
        run = {"cluster": cluster, "workload": {"jobs": jobs}, "profiles": {"row": row}}
        file.write_text(json.dumps({"format": 1, "scheduler": {"place": "hare"}, **run}))
        command = [sys.executable, "-m", "warren", "run", str(file), "--out", str(out), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        return out


def job(
    name: str, app: str, scale: int, rounds: int, params: dict[str, int] | None = None
) -> dict[str, Any]:
    """A job as a jobs file has it."""
    fields = {"name": name, "app": f"{APPS}:{app}", "scale": scale, "rounds": rounds, "batch": 16}
    return {**fields, "cost": "row", "params": params or {}}


if __name__ == "__main__":
    main()
