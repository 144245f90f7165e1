"""``hare-mix``: jobs of the eight models of Hare's Table 2.

*From the paper* (HPDC'22, section 7.1 and Table 2; shares from HLAS's Table II, since the HPDC
table prints a stray 45 %): the models with their batch sizes, a quarter of the jobs from each
domain, parameter servers; "NLP jobs involve heavier training workloads (i.e., more training rounds
and more training time)", recommendation jobs "have less workloads". Costs are profile rows.

*Ours*, since the paper does not print them: rounds, drawn evenly between two limits a domain; 1,
2, 4 or 8 tasks a round, evenly; weights 1 to 4, evenly; models of a domain take turns. 200 jobs
have about 490,000 tasks. A quarter means exactly a quarter of the jobs.

*Arrivals.* The paper takes the Google cluster trace of 2019, without saying which part or how fast
it is played. The substitute is a Poisson process, played so that ``load`` is offered work over
capacity: the jobs' work, in seconds of the whole cluster, arrives evenly over that / ``load``.
``together`` is the mean number of jobs that arrive at one instant.

*Tail.* HLAS (TCC'24, IV-B) holds where many jobs are small and a few take most of the GPU time, as
in Google's trace. Rounds drawn evenly are not so; with ``tail`` a job's are multiplied by a
lognormal factor of mean 1.

*Targets, searches.* With ``targets`` every job has a stop rule. ``searches`` is the percentage of
the jobs in searches, see ``warren.workload.generators.job_families``.

*Batch factor.* A factor of 2 doubles a task's batch and halves the rounds: the same items are
trained, which is how Fig. 19 can show no change for most policies.

*Repeats.* ``repeats`` is the number of recurring kinds of jobs (see ``job_families``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Evaluate, Job, Stop
from warren.workload.generators.draws import (
    arrivals_ns,
    bursts_ns,
    integers,
    lognormal,
    lognormal_mean,
    shuffled,
    whole_cluster_s,
    window_s,
)
from warren.workload.generators.inputs import GeneratorInputs
from warren.workload.generators.job_families import JobKind, factors, kinds, places, searches, turns
from warren.workload.specs.job import job_seed
from warren.workload.specs.workload import HareMixSpec
from warren.workload.traces.rows import Trace

_WEIGHTS: Final = 4
TARGET: Final = Stop(metric="loss", falls_to=0.1)
"""The stop rule of every job, with ``targets``; the simulator draws the losses on the way."""
# Numbers of the streams: the draws of a new option must not move the draws of the others.
_ORDER, _ROUNDS, _SCALES, _OF_WEIGHTS, _ARRIVALS = range(5)
_BURSTS, _TAILS = range(13, 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """One job before it has a number and an arrival."""

    kind: JobKind
    rounds: int
    weight: int
    batch: int
    search: str = ""


def hare_mix(spec: HareMixSpec, ground: GeneratorInputs) -> Trace:
    """Draw the jobs in order of arrival.

    Raises SpecError if the shares add up to nothing, or no device of the cluster can run a model.
    """
    seed = ground.run_seed if spec.seed is None else spec.seed
    try:
        drawn = _searching(_drawn(spec, seed, ground), spec.searches, seed)
        # One computation for each model and batch, and not for each of many jobs.
        rows = dict.fromkeys((one.kind.model, one.batch) for one in drawn)
        task_s = {row: _task_s(*row, ground) for row in rows}
        work_s = [task_s[one.kind.model, one.batch] * one.kind.scale * one.rounds for one in drawn]
        length_s = window_s(work_s, spec.load)
    except ValueError as error:
        problem = Problem(file=ground.file, field=ground.field, message=str(error))
        raise SpecError(problem) from None
    times_ns = arrivals_ns(seed, _ARRIVALS, spec.jobs, length_s)
    if spec.together > 1:
        times_ns = bursts_ns(seed, (_ARRIVALS, _BURSTS), spec.jobs, length_s, spec.together)
    tasks = sum(one.kind.scale * one.rounds for one in drawn)
    pace = "all at time 0" if spec.load is None else f"load {spec.load:g}, over {length_s:.0f} s"
    note = f"hare-mix, seed {seed}: {len(drawn)} jobs, {tasks} tasks, {pace}"
    return Trace(jobs=tuple(_jobs(spec, drawn, times_ns, ground)), profiles=(), notes=(note,))


def _drawn(spec: HareMixSpec, seed: int, ground: GeneratorInputs) -> list[_Drawn]:
    """Draw the jobs without arrivals: kind, rounds, weight and batch of each."""
    found = _recurring(spec, seed) if spec.repeats else _single(spec, seed)
    weights = integers(seed, _OF_WEIGHTS, spec.jobs, _WEIGHTS)
    result = []
    for (kind, factor), weight in zip(found, weights, strict=True):
        reference = _row(kind.model, ground).batch or 1
        batch = max(1, round(reference * spec.batch_factor))
        # Rounds times batch stay the same, whatever the batch factor: the same items are trained.
        rounds = kind.rounds * factor * spec.rounds_factor * reference / batch
        one = _Drawn(kind=kind, rounds=max(1, round(rounds)), weight=1 + weight, batch=batch)
        result.append(one)
    return result


def _searching(drawn: list[_Drawn], percent: float, seed: int) -> list[_Drawn]:
    """Put some of the jobs into searches: jobs that are alike but for their rounds."""
    for search in searches(len(drawn), percent, seed):
        like = drawn[search.first]
        for job, part in enumerate(search.parts, search.first):
            rounds = max(1, round(like.rounds * part))
            drawn[job] = replace(like, rounds=rounds, search=search.name)
    return drawn


def _single(spec: HareMixSpec, seed: int) -> Iterator[tuple[JobKind, float]]:
    """Yield for each job a kind of its own, and the factor of its rounds."""
    listed = places(spec.jobs, spec.shares)
    scales = integers(seed, _SCALES, spec.jobs, len(spec.scales))
    parts = integers(seed, _ROUNDS, spec.jobs, 2**31)
    # Divided by their mean, the factors leave the offered work the same in the mean.
    mean = lognormal_mean(spec.tail)
    factors = [one / mean for one in lognormal(seed, _TAILS, spec.jobs, spec.tail)]
    for job, place in enumerate(shuffled(seed, _ORDER, spec.jobs)):
        domain, model = listed[place]
        rounds = domain.drawn_rounds(parts[job])
        scale = spec.scales[scales[job]]
        yield JobKind(stem=model, user="", model=model, scale=scale, rounds=rounds), factors[job]


def _recurring(spec: HareMixSpec, seed: int) -> Iterator[tuple[JobKind, float]]:
    """Yield for each job the kind that it is a run of, and the factor of its rounds."""
    known = kinds(spec.repeats, spec.kinds_seed, spec.shares, spec.scales)
    of_jobs = turns(seed, spec.jobs, len(known))
    for number, factor in zip(of_jobs, factors(seed, spec.jobs, spec.spread), strict=True):
        yield known[number], factor


def _jobs(
    spec: HareMixSpec, drawn: list[_Drawn], times_ns: list[int], ground: GeneratorInputs
) -> Iterator[Job]:
    """Yield the jobs with their names, numbers and arrivals."""
    # As many digits in each name, so that names sort in order of arrival.
    width = len(str(len(drawn) - 1))
    for index, one in enumerate(drawn):
        stem = one.kind.stem if spec.repeats or not one.search else f"{one.kind.stem}-{one.search}"
        name = f"{index:0{width}}-{stem}"
        yield Job(
            index=index,
            name=name,
            scale=one.kind.scale,
            rounds=one.rounds,
            batch=one.batch,
            model=one.kind.model,
            weight=float(one.weight),
            arrival_ns=times_ns[index],
            user=one.kind.user or one.search,
            group=one.search,
            seed=job_seed(ground.run_seed, name),
            evaluate=Evaluate(every=1) if spec.targets else None,
            stop=TARGET if spec.targets else None,
        )


def _task_s(model: str, batch: int, ground: GeneratorInputs) -> float:
    """Return the seconds that the whole cluster needs for a task, computation alone."""
    row = _row(model, ground)
    try:
        task_s = whole_cluster_s(row.comp_s, ground.devices(row.memory_bytes))
    except ValueError:
        types = ", ".join(ground.cluster.type_names)
        raise ValueError(f"no device can run {model}; types of the cluster: {types}") from None
    # T^c is proportional to the batch; a row of batch 0 holds for any batch.
    return task_s * batch / row.batch if row.batch else task_s


def _row(model: str, ground: GeneratorInputs) -> ProfileRow:
    if model not in ground.rows:
        raise ValueError(f"model {model} has no profile row")
    return ground.rows[model]
