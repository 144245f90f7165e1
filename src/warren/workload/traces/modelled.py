"""Models for the jobs of a trace that knows run times only, so that device types differ.

A job of run time T draws one of the models asked for, by (the run's seed, its name), all equally
likely. It becomes ceil(T / T^c) rounds, T^c that of the cluster's type which is fastest for the
model: run alone on its GPUs, all of that type, it computes for T. On other types it takes longer,
and synchronisation comes on top. What the trace's jobs really trained is not known; this keeps
their arrivals, their GPUs and their run times.
"""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import sha256

from warren.model.errors import Problem, SpecError
from warren.model.units import NS_PER_S
from warren.workload.traces.rows import Row, TraceRequest


def modelled(row: Row, request: TraceRequest) -> Row:
    """The row with a model and its rounds; as it is if the trace tells more, or none is asked for.

    Raises
    ------
    SpecError
        If no device type of the cluster has a cost for the model.
    """
    told = row.model or row.steps is not None or row.prices is not None
    if told or not request.models or row.run_ns is None:
        return row
    drawn = sha256(f"{request.run_seed}/{row.name}".encode()).digest()[:8]
    cost = request.models[int.from_bytes(drawn, "little") % len(request.models)]
    fastest_s = min((cost.comp_s[kind] for kind in request.types if kind in cost.comp_s), default=0)
    if not fastest_s:
        message = f"model {cost.model} has no cost on {', '.join(request.types)}"
        raise SpecError(Problem(file=request.file, field="models", message=message))
    rounds = max(1, math.ceil(row.run_ns / NS_PER_S / fastest_s))
    return replace(row, model=cost.model, batch=max(1, cost.batch), steps=rounds)
