"""A child that computes a job's first tasks and writes every intermediate result to a file.

``warren check`` compares two such files. They hold, with the layout of the job beside them, the
first state, then for each round the updates of its tasks and the state after its barrier. One is
written undisturbed, the other with tasks in another order, and other tasks and servers between.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from warren.live.process.linux import direct_output, set_name
from warren.live.process.specs import ProbeRole, Role
from warren.live.training.app.app_errors import print_traceback, reason_of, way_there
from warren.live.training.app.app_loader import build_app
from warren.live.training.checkpoints.files import write_whole
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import TaskResult
from warren.live.training.task_runner import TaskRunner


def main(role: Role, lifeline: int) -> None:
    """Compute a job's first tasks and write them; what the app raises goes into the file too."""
    assert isinstance(role, ProbeRole)
    set_name("warren-probe")
    direct_output(role.log)
    try:
        header, parts = _compute(role)
    except BaseException as error:  # user code may raise anything, SystemExit too
        print_traceback(error)
        header, parts = {"error": reason_of(error), "traceback": way_there(error)}, []
    head = json.dumps(header).encode()
    # The file: 8 bytes with the size of the header, the header, then all states and updates.
    write_whole(role.result, len(head).to_bytes(8, "little") + head + b"".join(parts))
    sys.stdout.flush()


class _Steps:
    """A server's and a trainer's side of a job's first rounds, one after another."""

    def __init__(self, role: ProbeRole) -> None:
        self._role = role
        self._job = role.job
        self._runner = TaskRunner(build_app(role.job, role.base), role.job)
        self.store = ParameterStore(build_app(role.job, role.base), role.job)
        if role.disturbed:
            self._runner.warm()
            self.store.warm()

    def tasks(self) -> list[TaskResult]:
        """Compute the tasks of the next round; return their results in the order of shards."""
        store = self.store
        scale = self._job.scale
        results = {}
        state = b"".join(store.state())
        order = list(range(scale))
        # Disturbed: the last shard first, and before it a task of a round that is not compared.
        if self._role.disturbed:
            order.reverse()
            self._runner.run(state, store.version + self._role.rounds, scale - 1)
        for shard in order:
            results[shard] = self._runner.run(state, store.version, shard)
        return [results[shard] for shard in range(scale)]

    def go_on_elsewhere(self) -> None:
        """Replace the server by another one, which goes on from a checkpoint of the first."""
        saved = bytes(self.store.checkpoint_part())
        self.store = ParameterStore(build_app(self._job, self._role.base), self._job)
        self.store.restore([saved])


def _compute(role: ProbeRole) -> tuple[dict[str, Any], list[bytes]]:
    """Return the header of the file and all states and updates, which it labels, in order."""
    steps = _Steps(role)
    labels = ["the initial state"]
    parts = [b"".join(steps.store.state())]
    hashes = [""]
    for round_no in range(role.rounds):
        for shard, result in enumerate(steps.tasks()):
            steps.store.add(shard, result)
            labels.append(f"task {shard} of round {round_no}")
            parts.append(b"".join(result.update))
            hashes.append(result.marks.hex())
        steps.store.step()
        outcome = steps.store.conclude()
        labels.append(f"the state after round {round_no}")
        parts.append(b"".join(steps.store.state()))
        hashes.append(f"{outcome.loss!r} {dict(outcome.metrics or {})!r}")
        if outcome.finished:
            break
        if role.disturbed:
            steps.go_on_elsewhere()
    store = steps.store
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
