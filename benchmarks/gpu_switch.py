"""How long a GPU takes from one job's task to another's, beside what its bus allows.

Each model of Hare's Table 2 is in a process of its own, with its context, its model and its kernels
on the GPU, as a trainer is. It takes turns with ResNet-50 (which takes turns with VGG-19), and a
task that follows one of the other job is compared with one that follows its own:

- ``resident``: its state was brought to the GPU while the other job computed;
- ``pipelined``: the state is copied while the first layers compute;
- ``whole``: nothing computes before all of it is there;
- ``cold``: a process is started for the task, as Hare's Default does.

A switch is how much later the GPU has computed the gradients than in a task whose state is there
and that follows one of its own job; what comes after that (the update to main memory, its hashes)
is in the task's time. The batch was brought ahead in all of them. The floor is the bytes of the
model over what the bus copies from pinned memory. Without a GPU nothing is measured. ``--out FILE``
writes the figures (the page is made of experiments/results/gpu_switch.json), ``--models a,b`` takes
some of them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[1] / "experiments"))
import _gpu_child
from _common import made_by
from _gpu_models import MODELS

from warren.live.gpu.discovery import gpus_here
from warren.live.training.memory.shared_arena import Arena
from warren.live.training.numerics import PINNED_ENV

TURNS: Final = 11
WAYS: Final = ("resident", "pipelined", "whole")
HARE: Final = {
    # Table 3, row Hare: milliseconds, and percent of the task.
    "vgg19": (2.77, 1.82),
    "resnet50": (2.04, 3.71),
    "inception-v3": (2.46, 1.43),
    "bert-base": (5.03, 1.13),
    "transformer": (5.79, 1.36),
    "deepspeech": (4.27, 1.25),
    "fastgcn": (1.83, 4.53),
    "graphsage": (0.96, 3.36),
}


class Trainer:
    """A child process and the memory it shares with this one."""

    def __init__(self, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_gpu_child.main, args=(theirs, name), daemon=True)
        self._process.start()
        theirs.close()

    def open(self) -> None:
        """Give it memory, and let it warm up."""
        self.bytes = self.answer()
        self._arena = Arena.create(self.bytes, 2)
        self._pipe.send((self._arena.spot(0), self._arena.spot(1)))

    def ready(self) -> None:
        """Wait until it is warm."""
        self.answer()

    def ask(self, *what: Any) -> None:
        """Ask for something."""
        self._pipe.send(what)

    def answer(self) -> Any:
        """What it says next."""
        kind, value = self._pipe.recv()
        if kind == "failed":
            raise RuntimeError(f"{self.name}: {value}")
        return value

    def get(self, *what: Any) -> Any:
        """Ask for something and wait for it."""
        self.ask(*what)
        return self.answer()

    def end(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join()


def measured(one: Trainer, other: Trainer) -> dict[str, Any]:
    """All figures of one model, in seconds."""
    found: dict[str, Any] = {"bytes": one.bytes, **one.get("copies")}
    times: dict[str, list[tuple[float, float]]] = {how: [] for how in ("alone", *WAYS)}
    # Two states in turns: whoever read one that was there before would give other bits.
    marks: tuple[set[str], set[str]] = set(), set()
    runs = 0
    # In turns, so that what changes meanwhile changes all of them.
    for _ in range(TURNS):
        one.get("run", "pipelined")
        one.get("put", runs % 2)
        one.get("stage")
        times["alone"].append(one.get("run", "pipelined"))
        for how in WAYS:
            runs += 1
            one.get("put", runs % 2)
            other.ask("run", "pipelined")
            if how == "resident":
                one.get("stage")
            other.answer()
            times[how].append(one.get("run", how))
            marks[runs % 2].add(one.get("marks"))
    found["same_bits"] = [len(some) for some in marks] == [1, 1] and marks[0] != marks[1]
    computed = median(first for first, _ in times["alone"])
    found["task_s"], found["computed_s"] = median(whole for _, whole in times["alone"]), computed
    for how in WAYS:
        switches = sorted(first - computed for first, _ in times[how])
        found[how] = {
            "median_s": median(switches),
            "most_s": switches[-1],
            "share": median(switches) / (found["task_s"] + median(switches)),
            "to_the_end_s": median(whole for _, whole in times[how]) - found["task_s"],
        }
    found["chosen"] = one.get("chosen")
    found["deterministic_s"] = one.get("bare", True)
    found["free_s"] = one.get("bare", False)
    return found


def cold_s(name: str) -> float:
    """Seconds from the start of a process to the end of its first task."""
    begin = time.perf_counter()
    command = [sys.executable, str(Path(_gpu_child.__file__)), name]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    asked = parser.parse_args()
    gpus = gpus_here()
    if not gpus:
        print("skipped: there is no GPU here that torch can use")
        return
    os.environ.update(PINNED_ENV)
    names = asked.models.split(",")
    trainers = {name: Trainer(name) for name in dict.fromkeys([*names, "resnet50", "vgg19"])}
    for trainer in trainers.values():
        trainer.open()
    for trainer in trainers.values():
        trainer.ready()
    rows = {}
    print(f"{gpus[0].numerics}; medians of {TURNS}, in ms")
    head = (
        "task",
        "computed",
        "floor",
        "staged",
        "resident",
        "pipelined",
        "whole",
        "cold",
        "share %",
    )
    print(f"{'':13}" + "".join(f"{one:>10}" for one in head) + "   Hare ms, %")
    for name in names:
        other = trainers["vgg19" if name == "resnet50" else "resnet50"]
        row = rows[name] = measured(trainers[name], other)
        row["cold_s"] = cold_s(name) - row["task_s"]
        cells = [row["task_s"], row["computed_s"], row["plain_s"], row["staged_s"]]
        cells += [row[how]["median_s"] for how in WAYS]
        text = "".join(f"{1000 * one:10.2f}" for one in (*cells, row["cold_s"]))
        share = 100 * row["resident"]["share"]
        print(f"{name:13}{text}{share:10.2f}   {HARE[name]} {row['chosen']}", flush=True)
    for trainer in trainers.values():
        trainer.end()
    if asked.out:
        gpu = gpus[0]
        value = {
            "experiment": "gpu_switch",
            "made_by": made_by(),
            "gpu": gpu.numerics,
            "turns": TURNS,
            "hare": HARE,
            "rows": rows,
        }
        asked.out.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
