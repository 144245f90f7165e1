"""The smaller parts of a checked run file: profile rows, scheduler, truth."""

from __future__ import annotations

from collections.abc import Mapping

from warren.model.costs import ProfileRow
from warren.model.run import Losses, Scheduler, Truth
from warren.workload.specs.run import ProfileSpec, RunSpec


def build_profiles(specs: Mapping[str, ProfileSpec]) -> tuple[ProfileRow, ...]:
    """Extra profile rows, in file order. ``batch`` 0: the times hold for any batch."""
    return tuple(
        ProfileRow(
            model=name,
            batch=spec.batch,
            model_bytes=spec.model,
            memory_bytes=spec.memory,
            comp_s=spec.comp,
            sync_s=spec.sync,
            source=spec.source,
            overhead_s=spec.overhead,
            switch_s=spec.switch,
            build_s=spec.build,
        )
        for name, spec in specs.items()
    )


def build_scheduler(spec: RunSpec) -> Scheduler:
    """The four policy names and the options of the place policy."""
    names = spec.scheduler
    return Scheduler(
        place=names.place,
        flow=names.flow,
        group=names.group,
        shape=names.shape,
        servers=names.servers,
        copies_after=names.copies_after,
        options=spec.policy,
    )


def build_truth(spec: RunSpec) -> Truth:
    """The hidden truth of a simulation."""
    truth, losses = spec.truth, spec.truth.losses
    return Truth(
        task_cv=truth.task_cv,
        job_cv=truth.job_cv,
        seed=truth.seed,
        losses=Losses(noise=losses.noise) if losses else None,
    )
