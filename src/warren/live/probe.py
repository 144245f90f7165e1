"""A child that computes a job's first tasks and writes every intermediate result to a file.

``warren check`` compares two such files. They hold, with the layout of the job beside them, the
first state, then for each round the updates of its tasks and the state after its barrier.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from warren.live.processes import direct_output, set_name
from warren.live.roles import ProbeRole, Role
from warren.live.trainer import one_line
from warren.live.training.checkpoints import write_whole
from warren.live.training.load import build_app
from warren.live.training.runner import TaskRunner
from warren.live.training.store import ParameterStore
from warren.model.job import Job


def main(role: Role, lifeline: int) -> None:
    """Compute and write; what the app raises goes into the file as well."""
    assert isinstance(role, ProbeRole)
    set_name("warren-probe")
    direct_output(role.log)
    try:
        header, parts = _compute(role.job, role.base, role.rounds)
    except BaseException as error:  # user code may raise anything, SystemExit too
        traceback.print_exc()
        header, parts = {"error": one_line(error)}, []
    head = json.dumps(header).encode()
    write_whole(role.result, len(head).to_bytes(8, "little") + head + b"".join(parts))
    sys.stdout.flush()


def _compute(job: Job, base: str, rounds: int) -> tuple[dict[str, Any], list[bytes]]:
    store = ParameterStore(build_app(job, base), job)
    runner = TaskRunner(build_app(job, base), job)
    state = b"".join(store.state())
    labels, parts, hashes = ["the initial state"], [state], [""]
    for round_no in range(rounds):
        for shard in range(job.scale):
            result = runner.run(state, round_no, shard)
            store.add(shard, result)
            labels.append(f"task {shard} of round {round_no}")
            parts.append(b"".join(result.update))
            hashes.append(result.marks.hex())
        store.step()
        outcome = store.conclude()
        labels.append(f"the state after round {round_no}")
        state = b"".join(store.state())
        parts.append(state)
        hashes.append(f"{outcome.loss!r} {dict(outcome.metrics or {})!r}")
        if outcome.finished:
            break
    tensors = [[entry.name, entry.offset, entry.nbytes] for entry in store.layout.entries]
    header = {
        "labels": labels,
        "hashes": hashes,
        "bytes": store.layout.total_bytes,
        "tensors": tensors,
        "fingerprint": store.layout.fingerprint,
        "digest": store.digest(),
    }
    return header, parts
