"""``sjf-bco``: rings of 1 to 32 GPUs, as the simulations of SJF-BCO draw them.

*From the paper* (MobiHoc'22, section 7): of 160 jobs 80 have one GPU, 14 two, 26 four, 30 eight, 8
sixteen and 2 thirty-two, as in the Philly trace; rounds F from 1,000 to 6,000; a round takes tau
from 0.01 to 0.05 s; a job F tau from 50 to 300 s. ``jobs`` keeps the parts.

*Ours*, since the paper does not say: F and tau are drawn evenly, and again while F tau is below 50
s (it is never above 300 s); sizes come in a drawn order. tau is a round alone: ``exchange`` of it
is the time of the gradients on the NIC of the slowest host without other traffic, which gives the
model's bytes, and the rest is COMP. The time that contention and overhead add depends on the
cluster's ``network``. The paper has both within 15 % of the time: see ``experiments/sjf-bco``,
whose parameters give that at most, even if every GPU of the largest host belongs to another ring.

All jobs are there at time 0, unless ``load`` is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.cluster import REFERENCE_NIC_BPS
from warren.model.costs import FloatArray, IntArray, ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.workload.generators.cluster_shapes import parts_of
from warren.workload.generators.draws import arrivals_ns, shuffled, uniform, window_s
from warren.workload.generators.inputs import GeneratorInputs
from warren.workload.specs.job import job_seed
from warren.workload.specs.workload import SjfBcoSpec
from warren.workload.traces.rows import Trace

GPUS: Final = {"1": 80, "2": 14, "4": 26, "8": 30, "16": 8, "32": 2}
"""Number of the 160 jobs by the number of GPUs that they ask for."""
# The paper's F, tau in seconds, and least F tau in seconds.
ROUNDS: Final = (1000, 6000)
ROUND_S: Final = (0.01, 0.05)
LEAST_S: Final = 50.0
# Numbers of the streams. Lengths are drawn again from 28, 30, ..., so they come last.
_ARRIVALS = 24
_ORDER = 25
_LENGTHS = 26
_SOURCE: Final = "drawn as SJF-BCO (MobiHoc'22), section 7"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lengths:
    """F and tau of each job, shape (jobs,) each; ``_J`` is the axis of jobs."""

    rounds_J: IntArray
    round_s_J: FloatArray


def sjf_bco(spec: SjfBcoSpec, ground: GeneratorInputs) -> Trace:
    """Draw the jobs in order of arrival.

    Raises SpecError if their work over the load is outside the range of times.
    """
    seed = ground.run_seed if spec.seed is None else spec.seed
    listed = [int(size) for size, count in parts_of(spec.jobs, GPUS).items() for _ in range(count)]
    sizes = [listed[place] for place in shuffled(seed, _ORDER, spec.jobs)]
    drawn = _lengths(seed, spec.jobs)
    devices = len(ground.cluster.devices)
    # F tau is a ring's time alone; times its GPUs over all GPUs it is work of the whole cluster.
    job_s = drawn.rounds_J * drawn.round_s_J
    try:
        length_s = window_s((job_s * sizes / devices).tolist(), spec.load)
    except ValueError as error:
        problem = Problem(file=ground.file, field=ground.field, message=str(error))
        raise SpecError(problem) from None
    times_ns = arrivals_ns(seed, _ARRIVALS, spec.jobs, length_s)
    rows = tuple(_rows(spec, sizes, drawn.round_s_J.tolist(), ground))
    jobs = tuple(_jobs(sizes, drawn.rounds_J.tolist(), times_ns, rows, ground))
    pace = "all at time 0" if spec.load is None else f"load {spec.load:g}, over {length_s:.0f} s"
    note = f"sjf-bco, seed {seed}: {len(jobs)} rings, {sum(sizes)} GPUs asked for, {pace}"
    return Trace(jobs=jobs, profiles=rows, notes=(note,))


def _lengths(seed: int, jobs: int) -> _Lengths:
    """Draw F and tau of each job, and again for jobs whose F tau is too short so far."""
    rounds_J = np.zeros(jobs, dtype=np.int64)
    round_s_J = np.zeros(jobs)
    stream, short_J = _LENGTHS, np.ones(jobs, dtype=np.bool_)
    while np.any(short_J):
        first, last = ROUNDS
        # Drawn for all jobs each time: a job's numbers do not depend on others' lengths.
        again_J = first + (uniform(seed, stream, jobs) * (last - first + 1)).astype(np.int64)
        again_s_J = ROUND_S[0] + uniform(seed, stream + 1, jobs) * (ROUND_S[1] - ROUND_S[0])
        rounds_J = np.where(short_J, again_J, rounds_J)
        round_s_J = np.where(short_J, again_s_J, round_s_J)
        short_J, stream = rounds_J * round_s_J < LEAST_S, stream + 2
    return _Lengths(rounds_J=rounds_J, round_s_J=round_s_J)


def _rows(
    spec: SjfBcoSpec, sizes: list[int], round_s_J: list[float], ground: GeneratorInputs
) -> Iterator[ProfileRow]:
    """Yield the cost row of each job, the same on every device type."""
    nic_bps = min(host.nic_bps or REFERENCE_NIC_BPS for host in ground.cluster.hosts)
    width = len(str(len(sizes) - 1))
    for index, (size, round_s) in enumerate(zip(sizes, round_s_J, strict=True)):
        exchange_s = spec.exchange * round_s if size > 1 else 0.0
        # Each of w devices of a ring sends 2 (w - 1) / w of the model; solved for the model.
        sent_bytes = exchange_s * nic_bps / 8
        types = ground.cluster.type_names
        yield ProfileRow(
            model=f"sjf-bco:{index:0{width}}-{size}gpu",
            batch=0,
            model_bytes=round(sent_bytes * size / (2 * max(1, size - 1))),
            memory_bytes=0,
            comp_s=dict.fromkeys(types, round_s - exchange_s),
            sync_s=dict.fromkeys(types, exchange_s),
            source={"comp": _SOURCE, "sync": _SOURCE, "model": _SOURCE},
        )


def _jobs(
    sizes: list[int],
    rounds_J: list[int],
    times_ns: list[int],
    rows: tuple[ProfileRow, ...],
    ground: GeneratorInputs,
) -> Iterator[Job]:
    for index, row in enumerate(rows):
        name = row.model.partition(":")[2]
        yield Job(
            index=index,
            name=name,
            scale=sizes[index],
            rounds=rounds_J[index],
            sync="ring",
            arrival_ns=times_ns[index],
            seed=job_seed(ground.run_seed, name),
            cost=row.model,
        )
