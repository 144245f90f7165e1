"""Build a server's contents: the job's app, and the server's part of the model."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final

import torch
from msgspec.structs import replace

from warren.live.process.specs import ServerRole
from warren.live.process.time_limit import Alarm
from warren.live.server.checkpoint_schedule import CheckpointSchedule
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app, forget_apps
from warren.live.training.helpers import Helpers
from warren.live.training.input_data.input_memory import InputMemory
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import HashLog, marks_path
from warren.model.errors import InputDataError

_STATES: Final = 6
"""Most memory of a server later on, in times the bytes of its model: states, means, optimizer."""
Built = tuple[ParameterStore, CheckpointSchedule, HashLog]


def built_within_budget(role: ServerRole, alarm: Alarm) -> Built:
    """Build a server, with its model on disk if the host's memory has no room for it."""
    inputs = _input_memory(role)
    while True:
        try:
            with _building(inputs), _turn(role), alarm.within(role.job.task_limit_ns):
                return _built(role, inputs)
        except InputDataError as error:
            if inputs is None or not inputs.spill_model(error):
                raise
        forget_apps()  # what the first build has left there is not for the second


def _built(role: ServerRole, inputs: InputMemory | None) -> Built:
    """Build what a server has before it listens."""
    store = _built_store(role, inputs)
    part, parts = role.part, role.parts
    schedule = CheckpointSchedule(store, role.job, role.store, role.round, part, parts)
    # Tasks that ran before a loss have to give the same hashes again.
    marks = HashLog(marks_path(role.store, part, parts), len(store.layout.entries))
    if not role.donors:  # else one of them may still write to that file
        marks.load()
    store.known.expected = marks.expected
    if role.rehearse:
        store.warm()
    if role.helpers and role.gpu is None:
        store.touch()
    return store, schedule, marks


def _built_store(role: ServerRole, inputs: InputMemory | None) -> ParameterStore:
    """Build the job's app, and this server's part of its model before the first round."""
    app = build_app(role.job, role.base)
    numerics.pin()
    store = ParameterStore(
        app,
        role.job,
        part=role.part,
        parts=role.parts,
        model_bytes=role.model_bytes,
        shared=role.folder,
        inputs=inputs,
        helpers=Helpers(role.helpers if role.gpu is None else 0),
        disk=None if inputs is None else inputs.disk,
        device=device_of(role),
    )
    if inputs is not None:
        inputs.reserve(store.layout, _STATES, may_spill=store.tensorwise)
    return store


def device_of(role: ServerRole) -> torch.device | None:
    """Return the device on which a server keeps its part of a job; None: it does in main memory."""
    if role.gpu is None:
        return None
    # Its code is loaded only where it is used.
    from warren.live.gpu.trainer_device import torch_device

    return torch_device(role.gpu)


def _turn(role: ServerRole) -> AbstractContextManager[object]:
    """Return the context in which a server takes memory of a GPU."""
    if role.gpu is None:
        return nullcontext()
    from warren.live.gpu.trainer_device import trainer_device

    return trainer_device(role.gpu, role.folder).turn()


def _input_memory(role: ServerRole) -> InputMemory | None:
    """Return the guard that keeps a server within the budget of its host; None: no budget."""
    if role.inputs is None:
        return None
    # Where GPUs compute, states are pinned in memory.
    inputs = replace(role.inputs, model_on_disk=False) if role.helpers else role.inputs
    return InputMemory(inputs, role.tmp, 2 * role.job.index)


def _building(inputs: InputMemory | None) -> AbstractContextManager[None]:
    """Return the context in which an app is built, where a budget limits the host's memory."""
    return nullcontext() if inputs is None else inputs.building()
