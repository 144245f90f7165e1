"""Made-up evidence of a check: a whole run of twenty steps, and runs that went on after step 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from warren.serve.certificate import verdict
from warren.serve.certificate.evidence import (
    CheckedRun,
    CheckedStep,
    CheckpointFile,
    Judgement,
    Save,
    StoppedRun,
)

STEPS: Final = 20
EVERY: Final = 4
EPOCH: Final = 8


def step(k: int, mark: str = "") -> CheckedStep:
    """Step ``k`` (from 0) of a whole run; with a mark, one that came to other parameters."""
    return CheckedStep(
        before=f"weights {k}{mark if k else ''}",
        after=f"weights {k + 1}{mark}",
        types=["torch.float32"],
        state=f"state {k}{mark}" if k else "",
        state_kinds=["momentum: torch.float32"] if k else [],
        grads=f"grads {k}{mark}",
        norm=1.0005,
        lr=[0.1 / (k + 1)],
        rng={"torch": f"rng {k}", "python": "never drawn from"},
        rng_at_step={"torch": f"rng {k} after its masks", "python": "never drawn from"},
        others=[f"teacher {k}"],
        inputs=[("x", f"batch {k}", [f"row {k % EPOCH}", f"row {k % EPOCH + 1}"])],
        time=float(k),
    )


def values(**named: Any) -> dict[str, CheckpointFile]:
    """A checkpoint of one file."""
    usual: dict[str, Any] = {
        "net.weight": ["torch.float32", [2], "w"],
        "opt.state.0.momentum": ["torch.float32", [2], "m"],
        "step": ["int", [], STEPS],
    }
    return {"last.pt": CheckpointFile(written=99.0, format="torch_file", values=usual | named)}


WHOLE = CheckedRun(
    lanes={"0": [step(k) for k in range(STEPS)]},
    files=values(),
    saves=tuple(Save(k, k) for k in range(EVERY, STEPS + 1, EVERY)),
)


@dataclass
class Resumed:
    """A run that was stopped after step 10 and goes on from the save of step 8, unless changed."""

    began: int = 8
    stop: int = 10
    files: dict[str, CheckpointFile] | None = None
    at_stop: dict[str, CheckpointFile] | None = None

    def judged(self, steps: list[CheckedStep] | None = None, **rest: Any) -> Judgement:
        lane = [step(k) for k in range(self.began, STEPS)] if steps is None else steps
        run = replace(WHOLE, lanes={"0": lane}, files=self.files or values(), **rest)
        at_stop = values() if self.at_stop is None else self.at_stop
        stop = StoppedRun(
            by="kill",
            place="between saves",
            steps=self.stop,
            newest=((self.stop - 1) // EVERY * EVERY,),
            files=at_stop,
            resumed=run,
        )
        return verdict.judged(WHOLE, stop)


def apart(**changed: Any) -> list[CheckedStep]:
    """Steps after step 8 that come to other parameters; the first of them with these changes."""
    first = replace(step(8), after="weights 9 other", **changed)
    return [first, *(step(k, " other") for k in range(9, STEPS))]


OTHER = values(**{"net.weight": ["torch.float32", [2], "other"]})


def found(judgement: Judgement) -> tuple[str, list[str]]:
    return judgement.level, [cause.kind for cause in judgement.causes]


def judged_of(whole: CheckedRun, steps: list[CheckedStep], **more: Any) -> Judgement:
    """What is said of a run that was stopped after step 10 of another whole run."""
    run = replace(whole, lanes={"0": steps}, files=more.pop("resumed_files", OTHER))
    usual: dict[str, Any] = {"by": "kill", "place": "within a save", "steps": 10, "newest": (8,)}
    usual["files"] = {}
    return verdict.judged(whole, StoppedRun(**{**usual, **more}, resumed=run))
