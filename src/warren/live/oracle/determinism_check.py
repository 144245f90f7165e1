"""``warren check JOB``: is the app deterministic? The same tasks in two fresh processes.

The second one computes them in another order, after tasks of other rounds, and goes on from a
checkpoint in the middle, as a run may that is scheduled otherwise. Memory that is not initialized
holds NaN in the first process and zeros in the second. If their results differ, two more processes
find out whether that is why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from warren.live.oracle.probe_pool import ProbeEnded, ProbePool, probe_pool
from warren.live.process.specs import ProbeRole
from warren.model.job import Evaluate, Job

_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of checking a job's app.

    ``same``: both processes gave the same bits. Otherwise ``where`` and ``tensor`` name the first
    difference. ``error`` is the app's error, if there was one, and ``traceback`` the way there from
    its own code on. ``tasks``: number of tasks compared, within the class ``numerics``.
    ``uninitialized``: the app reads memory that is not initialized, as that of ``torch.empty``.
    """

    job: str
    same: bool
    tasks: int
    where: str = ""
    tensor: str = ""
    error: str = ""
    traceback: str = ""
    numerics: str = ""
    uninitialized: bool = False

    @property
    def sentence(self) -> str:
        """Return the result in one line."""
        tensor = f" in tensor {self.tensor!r}" if self.tensor else ""
        if self.uninitialized:
            effect = f"it failed: {self.error}" if self.error else f"{self.where} differs{tensor}"
            reads = "the app reads uninitialized memory, for example of torch.empty"
            return f"{self.job}: {reads}; with other values there {effect}"
        if self.error:
            return f"{self.job}: the app failed: {self.error}"
        if self.same:
            tasks = f"{self.tasks} tasks gave the same bits in two processes"
            return f"{self.job}: {tasks}, the second in another order, from a checkpoint"
        return f"{self.job}: the app is not deterministic: {self.where} differs{tensor}"


def check_job(job: Job, base: str, rounds: int = _ROUNDS) -> CheckReport:
    """Compute the first ``rounds`` rounds of a job twice and compare every result on the way.

    ``base`` is the folder that the job's app is found from.

    Raises
    ------
    EngineError
        If the processes cannot be started.
    """
    return check_jobs([job], base, rounds)[0]


def check_jobs(jobs: Sequence[Job], base: str, rounds: int = _ROUNDS) -> list[CheckReport]:
    """Check several jobs as ``check_job`` does, each in two processes of its own.

    Raises
    ------
    EngineError
        If the processes cannot be started.
    """
    with probe_pool(jobs, base) as pool:
        reports = [_checked(job, partial(_probe, pool, job, (base, rounds))) for job in jobs]
        return [replace(report, numerics=pool.numerics) for report in reports]


def _checked(job: Job, probe: Callable[[bool, bool], bytes]) -> CheckReport:
    """Check one job; ``probe(disturbed, filled)`` runs one process and returns its output."""
    first, second = probe(False, True), probe(True, False)
    found = _compare(job, first, second)
    if not _differ(job, first, second):
        return found
    # Memory alone explains a difference if the same memory gives the same result twice.
    other = probe(False, False)
    if _differ(job, first, other) and not _differ(job, other, probe(False, False)):
        return replace(_compare(job, first, other), uninitialized=True)
    return found


def _differ(job: Job, one: bytes, other: bytes) -> bool:
    """Tell whether two outputs differ; two errors do not, whatever they say."""
    failed = ["error" in _split(data)[0] for data in (one, other)]
    return failed[0] != failed[1] if any(failed) else not _compare(job, one, other).same


def _probe(
    pool: ProbePool, job: Job, where: tuple[str, int], disturbed: bool, filled: bool
) -> bytes:
    """Run one process to its end; return its output, or an error in the same form."""
    base, rounds = where
    evaluate = None if job.evaluate is None else Evaluate(every=1)  # these rounds are all there are
    job = replace(job, checkpoint=None, evaluate=evaluate)
    log, result = (str(pool.folder / name) for name in ("probe.log", "probe"))
    try:
        return pool.output_of(ProbeRole(base, job, log, result, rounds, disturbed, filled))
    except ProbeEnded as error:
        head = json.dumps({"error": str(error)}).encode()
        return len(head).to_bytes(8, "little") + head


def _split(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """Split a process's output into its header and the states and updates after it."""
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), memoryview(data)[8 + size :]


def _compare(job: Job, one: bytes, other: bytes) -> CheckReport:
    """Compare the outputs of the two processes of a job."""
    (head_a, a), (head_b, b) = _split(one), _split(other)
    for head in (head_a, head_b):
        if error := head.get("error"):
            way = head.get("traceback", "")
            return CheckReport(job=job.name, same=False, tasks=0, error=error, traceback=way)
    tasks = sum(label.startswith("task") for label in head_a["labels"])
    # Without the same tensors in the same places their bytes cannot be compared.
    if head_a["fingerprint"] != head_b["fingerprint"]:
        return CheckReport(job=job.name, same=False, tasks=tasks, where="the model's shape")
    where, tensor = _first_difference(head_a, head_b, a, b)
    return CheckReport(job=job.name, same=not where, tasks=tasks, where=where, tensor=tensor)


def _first_difference(
    head_a: dict[str, Any], head_b: dict[str, Any], a: memoryview, b: memoryview
) -> tuple[str, str]:
    """Return the first difference of two results, and its tensor; empty if they are equal."""
    size = head_a["bytes"]
    for index, label in enumerate(head_a["labels"]):
        at = index * size
        # Tensor by tensor, which leaves out the padding between them.
        for name, offset, nbytes in head_a["tensors"]:
            place = slice(at + offset, at + offset + nbytes)
            if a[place] != b[place]:
                return label, name
        if head_a["hashes"][index] != head_b["hashes"][index]:
            return f"the loss or a metric of {label}", ""
    # All intermediate results are equal: only the hash at the end is left to compare.
    return ("the final state", "") if head_a["digest"] != head_b["digest"] else ("", "")
