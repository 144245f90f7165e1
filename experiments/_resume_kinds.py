"""Small training commands, each with one habit of users' scripts, for ``warren check --resume``.

    WARREN_CHECKPOINT_DIR=DIR python experiments/_resume_kinds.py KIND

Each kind is a change of one loop: a small net with dropout, momentum, a schedule and averaged
weights, which restores all of it unless the kind says what it forgets.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

KIND = sys.argv[1]
FOLDER = Path(os.environ["WARREN_CHECKPOINT_DIR"])
STEPS, EVERY, PER_EPOCH = 32, 4, 10
PAUSE_S = 0.03
torch.manual_seed(5)
random.seed(5)
np.random.seed(5)


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Rows that a worker process of a loader makes from their numbers."""

    def __len__(self) -> int:
        return PER_EPOCH * 8

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        row = torch.randn(12, generator=torch.Generator().manual_seed(index))
        if KIND == "noise-by-worker":
            row = row + 0.1 * torch.randn(12)
        return row, row.abs().mean().unsqueeze(0)


NORM: tuple[nn.Module, ...] = (nn.BatchNorm1d(24),) if KIND == "buffers" else ()
net = nn.Sequential(nn.Linear(12, 24), *NORM, nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
average = [one.detach().clone() for one in net.parameters()]
WITH_CLOSURE = KIND in ("closure", "epoch-restart")
opt: torch.optim.Optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
if KIND == "adam":
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 0.03, total_steps=2 * STEPS)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=3)
step = 0


def state() -> dict[str, Any]:
    """What is saved."""
    found = {
        "net": net.state_dict(),
        "opt": opt.state_dict(),
        "schedule": schedule.state_dict(),
        "average": average,
        "step": step,
        "rng": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": np.random.get_state(),
    }
    if KIND == "scaler-kept":
        found["scaler"] = scaler.state_dict()
    if KIND == "schedule":
        del found["schedule"]
    if KIND == "rng":
        del found["rng"]
    if KIND == "half":
        found["net"] = {name: one.half() for name, one in net.state_dict().items()}
    if KIND == "buffers":
        found["net"] = dict(net.named_parameters())
    return found


def write(path: Path, value: Any) -> None:
    """Save under another name, and rename."""
    part = path.with_suffix(".part")
    if path.suffix == ".joblib":
        joblib.dump({k: _plain(v) for k, v in value.items()}, part)
    else:
        torch.save(value, part)
    part.replace(path)


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, dict):
        return {key: _tensors(one) for key, one in value.items()}
    return [_tensors(one) for one in value] if isinstance(value, list) else value


NAME = "last.joblib" if KIND == "joblib" else "last.pt"


def save() -> None:
    """Save as the kind does."""
    value = state()
    if KIND == "pair":
        torch.save({"net": value.pop("net"), "step": step}, FOLDER / "weights.pt")
        time.sleep(0.3)
        torch.save(value, FOLDER / "rest.pt")
    else:
        write(FOLDER / NAME, value)


def load() -> None:
    """Restore what is there."""
    global step
    if KIND == "pair" and (FOLDER / "rest.pt").exists():
        value = torch.load(FOLDER / "rest.pt", weights_only=False)
        value["net"] = torch.load(FOLDER / "weights.pt")["net"]
    elif (FOLDER / NAME).exists():
        path = FOLDER / NAME
        value = _tensors(joblib.load(path)) if KIND == "joblib" else None
        value = value or torch.load(path, weights_only=False)
    else:
        return
    net.load_state_dict(value["net"], strict=KIND != "buffers")
    opt.load_state_dict(value["opt"])
    if "schedule" in value:
        schedule.load_state_dict(value["schedule"])
    if KIND != "averages":
        for mine, saved in zip(average, value["average"], strict=True):
            mine.copy_(saved)
    else:
        for mine, weight in zip(average, net.parameters(), strict=True):
            mine.copy_(weight.detach())
    if "scaler" in value:
        scaler.load_state_dict(value["scaler"])
    step = value["step"]
    if "rng" in value:
        torch.set_rng_state(value["rng"].to(torch.uint8))
    random.setstate(value["python"])
    if KIND != "joblib":
        np.random.set_state(value["numpy"])


def train(x: torch.Tensor, y: torch.Tensor) -> None:
    """Make one step."""
    global step

    def loss() -> torch.Tensor:
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=KIND.startswith("scaler")):
            found = nn.functional.mse_loss(net(x), y)
        if KIND.startswith("scaler"):
            scaler.scale(found * 64).backward()
        else:
            found.backward()
        return found

    if WITH_CLOSURE:
        opt.step(loss)  # type: ignore[arg-type]
    elif KIND.startswith("scaler"):
        loss()
        scaler.step(opt)
        scaler.update()
    else:
        loss()
        opt.step()
    schedule.step()
    for mine, weight in zip(average, net.parameters(), strict=True):
        mine.mul_(0.8).add_(weight.detach(), alpha=0.2)
    step += 1
    time.sleep(PAUSE_S)
    if step % EVERY == 0:
        save()


def main() -> None:
    """Train to the last step."""
    if KIND == "ignores":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    load()
    first = 0 if KIND == "epoch-restart" else step % PER_EPOCH
    workers = 2 if "worker" in KIND else 0
    while step < STEPS:
        order = torch.Generator().manual_seed(step // PER_EPOCH)
        before = torch.get_rng_state()
        loader = DataLoader(
            Rows(),
            batch_size=8,
            shuffle=True,
            generator=None if KIND == "global-shuffle" else order,
            num_workers=workers,
        )
        batches = iter(loader)
        if KIND != "global-shuffle":
            torch.set_rng_state(before)
        for number, (x, y) in enumerate(batches):
            if number < first:
                continue
            if step >= STEPS:
                break
            train(x, y)
        first = 0


if __name__ == "__main__":
    main()
