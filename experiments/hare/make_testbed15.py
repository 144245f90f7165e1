"""Write the jobs of testbed15: 28 jobs of Hare's eight models, drawn by a seed.

*From the paper* (section 7.1): the 15 devices, the eight models with their batch sizes (Table 2),
a quarter of the jobs from each domain, parameter servers, heavier language jobs and lighter
recommendation jobs. Costs are the shipped profile's.
*Ours*: how much work a job is (log-uniform, in seconds of one V100, by domain), scales 1 to 4,
weights 1 to 4, and Poisson arrivals over about 20 cluster seconds. The devices are worth about
ten V100, so twice that work arrives as they can do meanwhile, and order matters.

Each model trains a small net of ``examples/apps``; the shorter the model's pad, the smaller the
net. At ``time_scale: 2`` the shortest pad (GraphSAGE on a V100) is 55 ms; its net computes
0.2 ms, and the slowest (5 ms) has pads of 0.7 s. A run has about 2,100 tasks, 13 a second under
gavel-fifo and 18 under hare. All numbers were chosen by arithmetic and simulation, before
any live run.

*The seed* is the first whose simulated JCTs are well conditioned: task times drawn 5 % around the
profile move them by at most 3 % on average, under either policy. Of the first twelve seeds most
stand at a knife edge under gavel-fifo: a gang that takes a K80 or a V100 according to which of two
jobs ends first, a hundredth of a second apart. There a JCT error measures luck. ``--conditioning``
prints how far each seed moves.

Writes ``testbed15-jobs.yaml``; ``--check`` only says whether the committed file is the same.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

import warren
from warren.profile.published import TABLE

SEED: Final = 4
PLACES: Final = ("gavel-fifo", "hare")
NOISE: Final = 0.05
NOISES: Final = 4
JOBS_A_DOMAIN: Final = 7
MEAN_GAP_S: Final = 0.75
JOBS: Final = Path(__file__).with_name("testbed15-jobs.yaml")
HEAD: Final = f"# Made by make_testbed15.py with seed {SEED}; what is drawn how stands there.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A quarter of the jobs. ``work_s``: least and most seconds of one V100 a job takes."""

    models: tuple[str, ...]
    work_s: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """What a model's jobs really train: an app, its parameters in YAML."""

    app: str
    params: str = "{}"


DOMAINS: Final = (
    Domain(models=("vgg19", "resnet50", "inception-v3"), work_s=(6, 14)),
    Domain(models=("bert-base", "transformer"), work_s=(11, 33)),
    Domain(models=("deepspeech",), work_s=(7, 20)),
    Domain(models=("fastgcn", "graphsage"), work_s=(3, 6)),
)
NETS: Final = {
    "vgg19": Net(app="digits.py:Digits", params="{hidden: 256}"),
    "resnet50": Net(app="digits.py:DigitsCNN", params="{channels: 8}"),
    "inception-v3": Net(app="digits.py:DigitsCNN"),
    "bert-base": Net(app="charlm.py:CharLM", params="{lr: 0.01}"),
    "transformer": Net(app="charlm.py:CharLM", params="{length: 12, width: 48, lr: 0.01}"),
    "deepspeech": Net(app="charlm.py:CharLM", params="{width: 48, lr: 0.01}"),
    "fastgcn": Net(app="diabetes.py:Diabetes"),
    "graphsage": Net(app="cancer.py:Cancer", params="{hidden: 16, lr: 0.2}"),
}


def lines(seed: int = SEED) -> list[str]:
    """One line of YAML a job, in order of arrival."""
    draw = random.Random(seed)
    drawn = [job for domain in DOMAINS for job in _of_domain(domain, draw)]
    draw.shuffle(drawn)
    arrival_s, result = 0.0, []
    for index, job in enumerate(drawn):
        result.append(f"  - {{name: {index:02}-{job}, arrival: {arrival_s:.1f} s}}")
        arrival_s += draw.expovariate(1 / MEAN_GAP_S)
    return result


def _of_domain(domain: Domain, draw: random.Random) -> list[str]:
    """The jobs of a domain, from ``model, ...`` on; models take turns."""
    models = [domain.models[k % len(domain.models)] for k in range(JOBS_A_DOMAIN)]
    return [_job(model, domain.work_s, draw) for model in models]


def _job(model: str, work_s: tuple[float, float], draw: random.Random) -> str:
    least, most = work_s
    row, net, scale = TABLE[model], NETS[model], draw.randint(1, 4)
    work = least * math.exp(draw.random() * math.log(most / least))
    rounds = max(4, round(work / (scale * row.comp_s["V100"])))
    return (
        f"{model}, app: ../../examples/apps/{net.app}, params: {net.params}, model: {model}, "
        f"batch: {row.batch}, scale: {scale}, rounds: {rounds}, weight: {draw.randint(1, 4)}, "
        f"evaluate: {{every: {math.ceil(rounds / 3)}}}"
    )


def moved_pct(seed: int, place: str) -> list[float]:
    """Mean absolute change of the simulated JCTs under each noise, in percent."""
    run = yaml.safe_load(JOBS.with_name("testbed15.yaml").read_text())
    run["workload"] = {"jobs": yaml.safe_load(_text(seed))["jobs"]}
    for job in run["workload"]["jobs"]:
        del job["app"]
    exact, *noisy = (_jct_s(run, place, noise) for noise in range(NOISES + 1))
    return [
        sum(abs(ours / plain - 1) for ours, plain in zip(one, exact, strict=True))
        * 100
        / len(exact)
        for one in noisy
    ]


def _jct_s(run: dict[str, object], place: str, noise: int) -> list[float]:
    truth = {"task_cv": NOISE if noise else 0, "seed": noise}
    found = warren.simulate({**run, "truth": truth}, place=place)
    return [float(job.row["jct_s"]) for job in found.jobs.values()]


def _text(seed: int) -> str:
    return HEAD + "format: 1\njobs:\n" + "\n".join(lines(seed)) + "\n"


def main() -> None:
    """Write the file, or compare it, or show what each seed would give."""
    text = _text(SEED)
    if "--conditioning" in sys.argv[1:]:
        for seed in range(1, 13):
            moved = {place: [round(one, 1) for one in moved_pct(seed, place)] for place in PLACES}
            print(seed, *moved.items(), flush=True)
    elif "--check" not in sys.argv[1:]:
        JOBS.write_text(text)
    elif JOBS.read_text() != text:
        sys.exit(f"{JOBS.name} is not what {Path(__file__).name} makes")


if __name__ == "__main__":
    main()
