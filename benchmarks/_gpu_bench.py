"""The nets of gpu_alone.py, where its runs go, and the own loops that were timed already."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import _gpu_runs as runs
from _gpu_own import WAYS, Case, cases_as_text

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent
WARM: Final = 15
"""Rounds before the first that is timed."""


@dataclass(frozen=True, kw_only=True)
class Net:
    """A net, how long it is trained, and the steps of a block of its own loop."""

    app: str
    batch: int
    rounds: int
    params: dict[str, Any] = field(default_factory=dict)
    steps: int = 8


NETS: Final = {
    "gpt2": Net(app="gpt2.py:Gpt2", batch=16, rounds=79),
    "resnet50": Net(app="resnet50.py:ResNet", batch=64, rounds=95, steps=10),
    "bert": Net(app="bert.py:Bert", batch=32, rounds=79),
    "tiny": Net(app="_gpu_nets.py:Tiny", batch=64, rounds=1015, steps=200),
    "llama": Net(app="llama_lora.py:Llama", batch=4, rounds=45, steps=6),
    "unet": Net(app="unet.py:Diffusion", batch=64, rounds=63),
}
_TEXT: Final = {"layers": 1, "heads": 4, "width": 32, "words": 200, "length": 12, "texts": 32}
SMALL: Final = {
    "gpt2": {"params": _TEXT, "batch": 2},
    "resnet50": {"params": {"net": "resnet18", "side": 32, "images": 32, "lr": 0.01}, "batch": 2},
    "bert": {"params": _TEXT, "batch": 2},
    "tiny": {},
    "llama": {"params": {**_TEXT, "rank": 2}, "batch": 2},
    "unet": {"params": {"width": 16, "levels": 2, "side": 16, "images": 32}, "batch": 2},
}
"""What is smaller in a rehearsal, and where bits alone are compared."""


def attempted(call: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """A result, or a row with the error in its place."""
    try:
        return call(*arguments)
    except runs.SkippedError as reason:
        return {"skipped": str(reason)}
    except Exception:
        return {"error": " | ".join(traceback.format_exc().splitlines()[-runs.ERROR_LINES :])}


class Bench:
    """Where runs go, what they run on, and the own loops that were timed already."""

    def __init__(self, scratch: Path, *, rehearse: bool, repeat: int) -> None:
        self.scratch, self.rehearse, self.repeat = scratch, rehearse, repeat
        self.device = "cpu" if rehearse else "cuda"
        # A rehearsal may be beside other runs; what is measured has the machine to itself.
        self.shared = ("--share",) if rehearse else ()
        self.end_s = 0.0
        self._own: dict[str, dict[str, Any]] = {}
        self._count = 0

    def left_s(self) -> float:
        """Seconds that the part has left."""
        return self.end_s - time.monotonic()

    def net(self, name: str, *, small: bool = False) -> Net:
        """A net in the size that is trained here."""
        net = replace(NETS[name], **SMALL[name]) if small or self.rehearse else NETS[name]
        folder = HERE if net.app.startswith("_") else ROOT / "examples" / "gpu"
        rounds = 30 if self.rehearse else net.rounds
        return replace(net, app=f"{folder}/{net.app}", rounds=rounds)

    def case(self, name: str, net: Net, **more: Any) -> Case:
        """The own loop of a net."""
        little = {"warm": 1, "blocks": 2, "steps": 3} if self.rehearse else {"steps": net.steps}
        settings: dict[str, Any] = {
            "app": net.app,
            "batch": net.batch,
            "params": net.params,
            "device": self.device,
            **little,
            **more,
        }
        return Case(name=name, **settings)

    def own(self, cases: list[Case]) -> dict[str, dict[str, Any]]:
        """What own loops take, each timed once."""
        wanted = [case for case in cases if case.name not in self._own]
        if wanted:
            script, limit_s = HERE / "_gpu_own.py", 0.7 * self.left_s()
            if self.rehearse:
                os.environ["OMP_NUM_THREADS"] = "1"  # as trainers
            self._own |= runs.own_loops(script, cases_as_text(wanted), limit_s)
        late = {"error": "not reached in time"}
        return {case.name: self._own.get(case.name, late) for case in cases}

    def out(self, name: str) -> Path:
        """A new folder for a run."""
        self._count += 1
        return self.scratch / f"{self._count}-{name}"

    def job(self, name: str, net: Net, ms: float, scale: int = 1, **more: Any) -> runs.Job:
        """A job that trains a net."""
        return runs.Job(
            name=name,
            app=net.app,
            batch=net.batch,
            rounds=net.rounds,
            params=net.params,
            ms=ms,
            scale=scale,
            more={"checkpoint": {"every": 100_000}, "nan_loss": "train", **more},
        )

    def trained(self, name: str, jobs: list[runs.Job], place: str, **more: Any) -> runs.Trained:
        """A run of jobs."""
        run = runs.run_of(jobs, place, self.device, **more)
        return runs.trained(run, self.out(name), self.left_s(), *self.shared)


def checked(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """An own loop that was timed; an error if it failed, skipped without its package."""
    if "No module named" in own.get("error", ""):
        raise runs.SkippedError(own["error"])
    if "error" in own:
        raise runs.PartError(f"own loop: {own['error']}")
    return own


def ratios(ms: float, own: Mapping[str, Any], key: str = "ms") -> dict[str, float]:
    """How many times an own loop's time each way."""
    return {way: ms / own[way][key] for way in WAYS if way in own}
