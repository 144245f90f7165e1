"""What takes the places of sockets, clocks and alarms while histories are played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Final

import pytest
import torch
from history_jobs import app_of
from history_world import BROKEN_NS, EndedAsKilled, World
from torch import nn

from warren.live.process import free_memory
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.memory.shared_arena import Arena


class Clock:
    """Takes the place of the module ``time``."""

    def monotonic_ns(self) -> int:
        return World.now.now_ns


class PlainEvaluation:
    """Evaluates, and does not look for what the app keeps."""

    left: tuple[object, ...] = ()

    def __init__(self, built: BuiltApp, *_: object) -> None:
        self._app = built.app

    def of(self, model: nn.Module) -> dict[str, float]:
        with torch.no_grad():
            return dict(self._app.evaluate(model))

    def rehearse(self, model: nn.Module) -> None:
        self.of(model)


def _sleep_until(at_ns: int) -> None:
    World.now.slept_ns = at_ns


def _end_as_killed() -> None:
    raise EndedAsKilled


_CLOCKS: Final = ("control.engine", "control.local_engine", "control.servers", "run_clock")


@contextmanager
def virtual_modules() -> Iterator[None]:
    """What is made meanwhile belongs to the world of now."""
    create = Arena.create
    with pytest.MonkeyPatch.context() as patch:
        live = "warren.live"
        for module in _CLOCKS:
            patch.setattr(f"{live}.{module}.time", Clock())
        for module in ("server.server", "device.executor"):
            patch.setattr(f"{live}.{module}.Hub", lambda *what: World.now.hub(*what))
            patch.setattr(f"{live}.{module}.Poller", lambda: World.now.acting.poller)
        patch.setattr(
            f"{live}.device.executor.link_to_controller",
            lambda folder, _: World.now.link_to_controller(folder),
        )
        for module in ("server.server", "server.migration", "device.parameter_client"):
            patch.setattr(
                f"{live}.{module}.link_to_server", lambda *what: World.now.link_to_server(*what)
            )
        for module in ("server.round_start", "device.executor"):
            patch.setattr(f"{live}.{module}.sleep_until", _sleep_until)
        patch.setattr(f"{live}.device.executor.end_as_killed", _end_as_killed)
        patch.setattr(f"{live}.device.executor._BROKEN_NS", BROKEN_NS)
        endless = SimpleNamespace(within=lambda _: nullcontext())
        patch.setattr(f"{live}.server.server.Alarm", lambda: endless)
        patch.setattr(f"{live}.server.built_store.build_app", app_of)
        patch.setattr(f"{live}.training.replica.Evaluation", PlainEvaluation)
        patch.setattr(f"{live}.server.checkpoint_schedule.EVERY_NS", 5_000_000)
        patch.setattr(free_memory, "scarce", lambda: False)
        patch.setattr(Arena, "create", lambda *what: World.now.arena(create(*what)))
        yield
