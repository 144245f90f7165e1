"""Warren on one GPU beside the user's own loop: the same nets, data and losses, in the same call.

Parts, each with its own loop and targets; ``--parts a,b`` takes some of them:

- ``alone``: a job alone on the GPU, a step. GPT-2 small, ResNet-50, BERT base and a tiny net;
- ``scale``: ``scale: 4`` on one GPU, beside gradients that the own loop adds over four batches;
- ``turns``: two jobs that take turns, and ``switch``, the time between their tasks;
- ``checkpoint``: how much longer rounds of GPT-2 small take while checkpoints leave;
- ``bits``: hashes of small rounds of all example apps and nets, beside ``engine: plain``, without
  and with trainers and the controller killed, and a resume;
- ``mixed``: the six jobs of gpu_mixed.py under ``hare``;
- ``jpeg``: JPEG files that are decoded and cropped, beside a DataLoader with as many workers;
- ``more``: a Llama of 1.2 billion parameters with LoRA and a U-Net, as ``alone``.

A part that fails is a row with its error, and the others go on. Each part has a limit in seconds,
and all together ``--limit``. ``--out FILE`` writes the figures after each part; ``--rehearse`` does
everything small on a processor. Without a GPU nothing is measured. A step of Warren is read from
the timeline of its run, as the median of blocks of rounds after the first rounds; one of the own
loop is the median of as long blocks, whose ways (see _gpu_own.py) take turns.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[1] / "experiments"))
import _common
import _gpu_runs as runs
import gpu_mixed
from _gpu_bench import ROOT, WARM, Bench, Net, attempted, checked, ratios
from _gpu_bits import bits
from _gpu_input import jpeg
from _gpu_own import WAYS

from warren.live.gpu.discovery import gpus_here

TURNS_POLICY: Final = f"{ROOT}/examples/policies/round_robin.py:RoundRobin"
LIMITS_S: Final = {
    "alone": 180.0,
    "scale": 90.0,
    "turns": 60.0,
    "checkpoint": 60.0,
    "bits": 170.0,
    "mixed": 150.0,
    "jpeg": 80.0,
    "more": 90.0,
}
"""Seconds that each part may take."""


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="file of the figures")
    parser.add_argument("--parts", default=",".join(LIMITS_S), help="default: %(default)s")
    parser.add_argument("--limit", type=float, default=480.0, help="seconds; default: %(default)s")
    parser.add_argument("--repeat", type=int, default=5, help="most runs of the part mixed")
    parser.add_argument("--rehearse", action="store_true", help="small, on a processor")
    parser.add_argument("--commit", default="", help="what is measured, where git is not at hand")
    asked = parser.parse_args()
    gpus = gpus_here()
    if not gpus and not asked.rehearse:
        print("skipped: there is no GPU here that torch can use")
        return
    made_by = _common.made_by()
    found: dict[str, Any] = {
        "experiment": "gpu_alone",
        "made_by": {**made_by, "commit": asked.commit or made_by["commit"]},
        "seed": runs.SEED,
        "device": "cpu" if asked.rehearse else gpus[0].numerics,
        "rehearsed": asked.rehearse,
        "parts": {},
    }
    end_s = time.monotonic() + asked.limit
    with tempfile.TemporaryDirectory(prefix="warren-gpu-alone-") as scratch:
        bench = Bench(Path(scratch), rehearse=asked.rehearse, repeat=asked.repeat)
        for name in asked.parts.split(","):
            limit_s = LIMITS_S[name] * (3 if asked.rehearse else 1)
            bench.end_s = min(end_s, time.monotonic() + limit_s)
            found["parts"][name] = row = of_part(PARTS[name], bench)
            print(json.dumps({name: short(row)}), flush=True)
            if asked.out:
                asked.out.write_text(json.dumps(found, indent=1) + "\n")


def short(value: Any) -> Any:
    """What is printed of a result: without single blocks, hashes and summaries, in four digits."""
    if isinstance(value, dict):
        left_out = ("blocks_ms", "hashes", "summary", "tasks", "idle_s")
        return {key: short(one) for key, one in value.items() if key not in left_out}
    if isinstance(value, list):
        return [short(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def of_part(part: Callable[[Bench], dict[str, Any]], bench: Bench) -> dict[str, Any]:
    """The result of a part with the seconds it took, or why it has none."""
    begin = time.monotonic()
    if bench.left_s() < 15:
        return {"skipped": "no time was left"}
    row = attempted(part, bench)
    return {**row, "took_s": time.monotonic() - begin}


def alone(bench: Bench, names: tuple[str, ...] = ("gpt2", "resnet50", "bert", "tiny")) -> Any:
    """Each net alone on the device, beside its own loop."""
    nets = {name: bench.net(name) for name in names}
    own = bench.own([bench.case(name, net) for name, net in nets.items()])
    return {name: attempted(alone_one, bench, name, nets[name], own[name]) for name in names}


def alone_one(bench: Bench, name: str, net: Net, own: Mapping[str, Any]) -> dict[str, Any]:
    """One net alone on the device."""
    ms = checked(own)["deterministic"]["ms"]
    run = bench.trained(f"alone-{name}", [bench.job(name, net, ms)], "srtf")
    step = run.round_ms(name, WARM, net.steps)
    times = ratios(step["ms"], own)
    row = {
        "own": own,
        "warren": step,
        "task_ms": run.task_ms(name, WARM),
        "times": times,
        "more_ms": step["ms"] - ms,
        "wall_s": run.wall_s,
        "summary": run.summary,
    }
    if name == "tiny":
        return {**row, "met": {"deterministic, 0.5 ms": row["more_ms"] <= 0.5}}
    met = {
        "deterministic, 1.05": times["deterministic"] <= 1.05,
        "free, 1.15": times["free"] <= 1.15,
    }
    return {**row, "met": met}


def scale(bench: Bench) -> dict[str, Any]:
    """Four tasks a round on one device, beside gradients added over four batches."""
    nets = {name: bench.net(name) for name in ("gpt2", "resnet50")}
    cases = [
        bench.case(f"{name}, 4 batches", net, tasks=4, ways=WAYS[:2], blocks=3, steps=3)
        for name, net in nets.items()
    ]
    own = bench.own(cases)
    rows = {}
    for name, net in nets.items():
        short = replace(net, rounds=WARM + (4 if bench.rehearse else 21))
        rows[name] = attempted(scale_one, bench, name, short, own[f"{name}, 4 batches"])
    return rows


def scale_one(bench: Bench, name: str, net: Net, own: Mapping[str, Any]) -> dict[str, Any]:
    """Four tasks a round of one net."""
    ms = checked(own)["deterministic"]["gradients_ms"] / 4
    run = bench.trained(f"scale-{name}", [bench.job(name, net, ms, 4)], "srtf")
    round_ = run.round_ms(name, WARM, 3)
    times = ratios(4 * run.task_ms(name, WARM), own, "gradients_ms")
    return {
        "own": own,
        "task_ms": run.task_ms(name, WARM),
        "warren": round_,
        "times_of_tasks": times,
        "times_of_rounds": ratios(round_["ms"], own),
        "met": {"deterministic, 1.05": times["deterministic"] <= 1.05},
    }


def turns(bench: Bench) -> dict[str, Any]:
    """Two jobs that take turns, a round each: what they do in the time of their own loops."""
    names = ("gpt2", "resnet50") if not bench.rehearse else ("unet", "tiny")
    nets = {name: bench.net(name) for name in names}
    own = bench.own([bench.case(name, net) for name, net in nets.items()])
    ms = {name: checked(own[name])["deterministic"]["ms"] for name in names}
    jobs = [bench.job(name, net, ms[name]) for name, net in nets.items()]
    run = bench.trained("turns", jobs, TURNS_POLICY)
    ends = {name: run.ends_s(name) for name in names}
    begin = max(end for name in names for at, end in ends[name].items() if at < WARM)
    until = min(max(ends[name].values()) for name in names)
    rounds = {name: sum(begin < end <= until for end in ends[name].values()) for name in names}
    shares = {
        way: sum(rounds[name] * own[name][way]["ms"] for name in names) / 1000 / (until - begin)
        for way in WAYS
    }
    gaps = {kind: quantiles(values) for kind, values in run.gaps_ms(begin).items()}
    return {
        "own": own,
        "rounds": rounds,
        "seconds": until - begin,
        "share_of_own": shares,
        "gaps_ms": gaps,
        "met": {
            "deterministic, 0.93": shares["deterministic"] >= 0.93,
            "switch, 1 ms": gaps.get("switch", {"median": 0.0})["median"] <= 1.0,
        },
    }


def checkpoint(bench: Bench) -> dict[str, Any]:
    """GPT-2 small with a checkpoint every 20 rounds: rounds of it, beside those without."""
    every, net = 20, bench.net("gpt2")
    own = checked(bench.own([bench.case("gpt2", net)])["gpt2"])
    steps_ms = {}
    for label, rounds in (("without", 100_000), ("with", every)):
        job = bench.job("gpt2", net, own["deterministic"]["ms"], checkpoint={"every": rounds})
        ends = bench.trained(f"checkpoint-{label}", [job], "srtf").ends_s("gpt2")
        # From the first checkpoint on, and as many rounds for each.
        begin = every - 1
        steps_ms[label] = {
            at: 1000 * (ends[at] - ends[at - 1]) for at in ends if at > begin and at - 1 in ends
        }
    alone_ms, beside_ms = (list(steps_ms[label].values()) for label in ("without", "with"))
    longer = sum(beside_ms) / sum(alone_ms)
    return {
        "without_ms": quantiles(alone_ms),
        "with_ms": quantiles(beside_ms),
        "after_a_checkpoint_ms": [ms for at, ms in steps_ms["with"].items() if at % every == 0],
        "times_as_long": longer,
        "met": {"1.15": longer <= 1.15},
    }


def quantiles(values: list[float]) -> dict[str, float]:
    """The count, the median, the ninth decile and the most of some numbers."""
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "median": median(ordered),
        "decile_9": ordered[int(0.9 * (len(ordered) - 1))],
        "most": ordered[-1],
    }


def mixed(bench: Bench) -> dict[str, Any]:
    """The six jobs of gpu_mixed.py under hare, planned with what their own loops take."""
    nets = mixed_nets(bench)
    cases = [
        bench.case(f"{name}, 2 batches", net, tasks=2, ways=WAYS[:2], warm=3, blocks=3, steps=2)
        for name, net in nets.items()
    ]
    own = bench.own(cases)
    jobs, sums = [], dict.fromkeys(WAYS[:2], 0.0)
    for name, net in nets.items():
        times = checked(own[f"{name}, 2 batches"])
        jobs.append(bench.job(name, net, times["deterministic"]["gradients_ms"] / 2, 2))
        for way in sums:
            sums[way] += net.rounds * times[way]["ms"] / 1000
    row: dict[str, Any] = {"own": own, "own_s": sums, "runs": []}
    wall_s = 0.0
    while len(row["runs"]) < bench.repeat and bench.left_s() > 1.2 * wall_s:
        out = bench.out("mixed")
        run = runs.run_of(jobs, "hare", bench.device, verify=0)
        done = runs.trained(run, out, bench.left_s(), *bench.shared)
        wall_s = done.wall_s
        makespan_s = done.summary["makespan_s"]
        busy = sum(one["comp_end_s"] - one["start_s"] for one in done.rows)
        gaps = {kind: sum(values) / 1000 for kind, values in done.gaps_ms().items()}
        told = gpu_mixed.told(out)
        row["runs"].append({"makespan_s": makespan_s, "busy_s": busy, "gaps_s": gaps, **told})
    shares = median(one["comp_share"] for one in row["runs"])
    makespan_s = median(one["makespan_s"] for one in row["runs"])
    times = {way: makespan_s / seconds for way, seconds in sums.items()}
    met = {"COMP, 0.9": shares >= 0.9, "deterministic, 1.08": times["deterministic"] <= 1.08}
    return {**row, "comp_share": shares, "makespan_times_own": times, "met": met}


def mixed_nets(bench: Bench) -> dict[str, Net]:
    """The nets of gpu_mixed.py; in a rehearsal two small ones."""
    if bench.rehearse:
        return {name: replace(bench.net(name), rounds=6) for name in ("unet", "tiny")}
    return {
        name: Net(
            app=f"{gpu_mixed.MODELS}:{kind}", batch=gpu_mixed.batch_of(kind), rounds=rounds, steps=2
        )
        for name, (kind, rounds) in gpu_mixed.JOBS.items()
    }


PARTS: Final[Mapping[str, Callable[[Bench], dict[str, Any]]]] = {
    "alone": alone,
    "scale": scale,
    "turns": turns,
    "checkpoint": checkpoint,
    "bits": bits,
    "mixed": mixed,
    "jpeg": jpeg,
    "more": partial(alone, names=("llama", "unet")),
}


if __name__ == "__main__":
    main()
