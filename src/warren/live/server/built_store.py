"""Build a server's contents: the job's app, and the server's part of the model."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from warren.live.process.specs import ServerRole
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.live.training.helpers import Helpers
from warren.live.training.input_data.input_memory import InputMemory
from warren.live.training.parameter_store import ParameterStore

_STATES: Final = 6
"""Most memory of a server later on, in times the bytes of its model: states, means, optimizer."""


def built_store(role: ServerRole, inputs: InputMemory | None) -> ParameterStore:
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
        helpers=Helpers(role.helpers),
    )
    if inputs is not None:
        inputs.reserved_bytes = _STATES * store.total_bytes
    return store


def input_memory(role: ServerRole) -> InputMemory | None:
    """Return the guard that keeps a server within the budget of its host; None: no budget."""
    if role.inputs is None:
        return None
    return InputMemory(role.inputs, role.tmp, 2 * role.job.index)


def building(inputs: InputMemory | None) -> AbstractContextManager[None]:
    """Return the context in which an app is built, where a budget limits the host's memory."""
    return nullcontext() if inputs is None else inputs.building()
