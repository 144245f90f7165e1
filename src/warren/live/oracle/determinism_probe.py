"""A child that computes a job's first tasks and writes every intermediate result to a file.

``warren check`` compares two such files. They hold the layout of the job, the first state, then for
each round the updates of its tasks and the state after its barrier. Then follows the state after
more steps by the last updates, which shows an optimizer's work of each fifth step. One file is
written undisturbed. For the other, tasks run in another order, with other tasks and servers
between: each server is restored from the checkpoint of the one before it, by an app that is loaded
again.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Any, Final

from warren.live.process.linux import direct_output, own_temporary_folder, set_name
from warren.live.process.specs import ProbeRole, Role
from warren.live.training import numerics
from warren.live.training.app.app_errors import print_traceback, reason_of, way_there
from warren.live.training.app.app_loader import build_app, forget_apps
from warren.live.training.checkpoints.files import write_whole
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import TaskResult
from warren.live.training.task_runner import TaskRunner

_MORE: Final = 12
"""Number of steps by the last updates."""
_ELSEWHERE: Final = 3
"""Number of these steps after which another server goes on."""
_ODD: Final = 0x3F
"""Byte that makes small numbers of all types of floats."""


def main(role: Role, lifeline: int) -> None:
    """Compute a job's first tasks and write them; an error of the app goes into the file too."""
    assert isinstance(role, ProbeRole)
    set_name("warren-probe")
    direct_output(role.log)
    # What the first process has compiled there is not for the second.
    own_temporary_folder(f"{role.result}-{'other' if role.disturbed else 'first'}")
    numerics.poison(_ODD if role.filled else 0)
    try:
        with numerics.filled() if role.filled else nullcontext():
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
        """Replace the server by another one, which goes on from a checkpoint of the first.

        Raises
        ------
        SpecError
            It would save something else than the first.
        """
        before = self.store
        saved = bytes(before.checkpoint_part())
        # Globals and classes of the app are new ones too, as in another process.
        forget_apps()
        self.store = ParameterStore(build_app(self._job, self._role.base), self._job)
        self.store.restore([saved])
        before.check_restored(self.store)

    def more_steps(self, results: list[TaskResult]) -> None:
        """Step on by the results of a round; evaluate after the last step."""
        for number in range(_MORE):
            if self.store.finished:
                return
            for shard, result in enumerate(results):
                self.store.add(shard, result)
            self.store.step()
            if number < _MORE - 1:
                self.store.follow(finished=self.store.version == self._job.rounds)
            else:
                self.store.conclude()
            if self._role.disturbed and number % _ELSEWHERE == 0 and not self.store.finished:
                self.go_on_elsewhere()


def _compute(role: ProbeRole) -> tuple[dict[str, Any], list[bytes]]:
    """Return the header of the file and all states and updates, which it labels, in order."""
    steps = _Steps(role)
    labels = ["the initial state"]
    parts = [b"".join(steps.store.state())]
    hashes = [""]
    for round_no in range(role.rounds):
        results = steps.tasks()
        for shard, result in enumerate(results):
            steps.store.add(shard, result)
            labels.append(f"task {shard} of round {round_no}")
            parts.append(b"".join(result.in_main_memory()))
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
    steps.more_steps(results)
    store = steps.store
    labels.append("the state after more steps by the last updates")
    parts.append(b"".join(store.state()))
    hashes.append("")
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
