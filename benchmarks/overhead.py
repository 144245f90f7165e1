"""What Warren adds to a task: without any computing, and to one of 20 ms.

*Without computing*: four jobs on four devices of this machine, whose tasks pass over one number;
the time from the first arrival to the last barrier over the number of tasks, once with a barrier
after every task and once after every fourth. Nothing is emulated; the journal is kept.
*20 ms*: one job on one device, against the plain loop: with a barrier after every task, which
nothing can hide, and after every fourth. Both run at once and take turns of a second; a task notes
when it starts, and the time a task is the mean between these after the first ten rounds.

*Shares*: the processor time of a task without computing by role, and what a trainer's and a
server's parts take in one process that does nothing else. The rest of theirs is messages, and that
processes take turns on the cores; which of the two is not told apart.

Medians of ``RUNS`` runs of the command, or of ``PAIRS``. The plain loop on the same tasks is the
floor. Without computing it is timed as the difference of a long and a short job, since building the
app counts in its jobs' times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

from _ranges import RUNS, report
from _shares import in_one_process_ms, shares_ms
from _turns import take_turns, task_s

import warren

APPS: Final = Path(__file__).with_name("_apps.py")
NO_WORK_TASKS: Final = 2400
TASK_S: Final = 0.020
TASKS: Final = 600
WARM: Final = 10
DEVICES: Final = 4
PAIRS: Final = 3
SCALES: Final = (1, 4)
"""Tasks a barrier."""


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    figures = {}
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        bench = Bench(Path(folder))
        for scale in SCALES:
            tasks_s = [bench.no_work_task_s(scale) for _ in range(RUNS)]
            figures[f"no_work_ms_a_task_scale_{scale}"] = show("no work", scale, tasks_s)
        plain = [bench.plain_task_s("Nothing", NO_WORK_TASKS // 4, {}) for _ in range(RUNS)]
        figures["no_work_ms_a_task_plain"] = show("no work, plain", 1, plain)
        for scale in SCALES:
            ratio = figures[f"no_work_ms_a_task_scale_{scale}"] / figures["no_work_ms_a_task_plain"]
            figures[f"no_work_over_plain_scale_{scale}"] = ratio
        bench.show_shares()
        passes = bench.passes_for(TASK_S)
        for scale in SCALES:
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
        out = self.train(no_work(NO_WORK_TASKS, scale), devices=DEVICES)
        summary = json.loads((out / "summary.json").read_text())
        return float(summary["makespan_s"]) / int(summary["tasks"])

    def show_shares(self) -> None:
        """Print the processor time of a task with a barrier after it, by role."""
        few, many = NO_WORK_TASKS, 3 * NO_WORK_TASKS
        short, long = (
            self.command(no_work(n, 1), devices=DEVICES, engine="local")[0] for n in (few, many)
        )
        shares = shares_ms(short, long, many - few)
        named = ", ".join(f"{role} {value:.2f}" for role, value in shares.items())
        total_ms, cores = sum(shares.values()), len(os.sched_getaffinity(0))
        print(f"processor ms a task: {named}; in all {total_ms:.2f}, {total_ms / cores:.2f} a core")
        parts_ms = in_one_process_ms(f"{APPS}:Nothing", NO_WORK_TASKS)
        print("in one process: trainer {:.2f}, server {:.2f}".format(*parts_ms), flush=True)

    def passes_for(self, task_s: float) -> int:
        """How often a task of this length takes its batch in the plain loop, undisturbed."""
        passes = 150
        for _ in range(2):
            what = "Matmuls", 60, {"passes": passes}
            found_s = min(self.plain_task_s(*what) for _ in range(PAIRS))
            passes = max(1, round(passes * task_s / found_s))
        return passes

    def pair_s(self, passes: int, scale: int) -> tuple[float, float]:
        """Seconds a task of the same job, live and plain, which take turns."""
        rounds, commands, notes = TASKS // scale + WARM, [], []
        for engine in ("local", "plain"):
            notes.append(self.folder / f"starts-{self.runs}")
            params = {"passes": passes, "starts": str(notes[-1])}
            work = job("work", "Matmuls", scale, rounds, params)
            commands.append(self.command([work], devices=1, engine=engine)[0])
        take_turns(commands)
        live_s, plain_s = (task_s(note, WARM * scale, scale) for note in notes)
        return live_s, plain_s

    def plain_task_s(self, app: str, rounds: int, params: dict[str, Any]) -> float:
        """Seconds a task of the plain loop, in its own process."""
        short, long = (job(f"job-{n}", app, 1, n, params) for n in (WARM, rounds + WARM))
        found = warren.load(self.train([short, long], devices=1, engine="plain"))
        short_s, long_s = (
            float(one.row["finish_s"]) - float(one.row["start_s"]) for one in found.jobs.values()
        )
        return (long_s - short_s) / rounds

    def train(self, jobs: list[dict[str, Any]], *, devices: int, engine: str = "local") -> Path:
        """One run of the command; its folder."""
        command, out = self.command(jobs, devices=devices, engine=engine)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        return out

    def command(
        self, jobs: list[dict[str, Any]], *, devices: int, engine: str
    ) -> tuple[list[str], Path]:
        """A run of the command, and its folder."""
        self.runs += 1
        out, file = self.folder / f"out-{self.runs}", self.folder / f"run-{self.runs}.yaml"
        cluster = {"hosts": [{"name": "h", "devices": {"CPU": devices}}], "engine": engine}
        row = {"model": 0, "comp": {"CPU": "1 ms"}, "sync": {"CPU": "1 ms"}}
        run = {"cluster": cluster, "workload": {"jobs": jobs}, "profiles": {"row": row}}
        file.write_text(json.dumps({"format": 1, "scheduler": {"place": "hare"}, **run}))
        command = [sys.executable, "-m", "warren", "run", str(file), "--out", str(out), "--json"]
        return command, out


def no_work(tasks: int, scale: int) -> list[dict[str, Any]]:
    """A job for each device, with so many tasks in all."""
    rounds = tasks // (DEVICES * scale)
    return [job(f"job-{k}", "Nothing", scale, rounds) for k in range(DEVICES)]


def job(
    name: str, app: str, scale: int, rounds: int, params: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A job as a jobs file has it."""
    fields = {"name": name, "app": f"{APPS}:{app}", "scale": scale, "rounds": rounds, "batch": 16}
    return {**fields, "cost": "row", "params": params or {}}


if __name__ == "__main__":
    main()
