"""More training commands with habits of users, for ``warren check --resume``.

    WARREN_CHECKPOINT_DIR=DIR python experiments/_resume_habits.py KIND

As in ``_resume_kinds.py`` each kind is a change of one loop, which restores all unless the kind
says what it forgets. Here the changes are in loaders, folders, files and what stands beside the
model.
"""

from __future__ import annotations

import copy
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler
from torch.utils.data.distributed import DistributedSampler

KIND = sys.argv[1]
FOLDER = Path(os.environ["WARREN_CHECKPOINT_DIR"])
EVERY, BATCH = 4, 8
PARTS = 4 if KIND.startswith("accumulate") else 1
"""Number of batches whose gradients are added up for a step."""
# The last epoch is short: what a file counts in it is the same again.
PER_EPOCH, STEPS = (32, 36) if KIND == "count-from-resume" else (10 * PARTS, 32)
PAUSE_S = 0.03
NUMBERED = ("last-but-one", "by-name", "named-by-time")
FOLDERS = ("folder-plain", "folder-renamed")
torch.manual_seed(5)
np.random.seed(5)


def row_of(index: int) -> torch.Tensor:
    """Return a row of the data."""
    row = torch.randn(12, generator=torch.Generator().manual_seed(index))
    if KIND == "numpy-noise":
        row = row + 0.1 * torch.from_numpy(np.random.randn(12)).float()
    if KIND == "workers-noise":
        row = row + 0.1 * torch.randn(12)
    return row


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Rows by their numbers."""

    def __len__(self) -> int:
        return PER_EPOCH * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return row_of(index), torch.tensor([index % 7 / 7])


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Rows one after the other, from the first on."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return ((row_of(index), torch.tensor([index % 7 / 7])) for index in range(10**6))


def batches(epoch: int) -> Iterable[Any]:
    """Return the batches of an epoch. A loader that is given no generator draws a global seed."""
    rows, own = Rows(), torch.Generator().manual_seed(epoch)
    if KIND == "stream":
        return DataLoader(Stream(), BATCH, generator=own)
    if KIND == "epoch-end-global":
        return DataLoader(rows, BATCH, shuffle=True)
    order: Iterable[int] = RandomSampler(rows, generator=own)
    if KIND == "hash-order":
        order = [int(text) for text in {str(k) for k in range(len(rows))}]
    if KIND == "no-set-epoch":
        order = DistributedSampler(rows, 1, 0, seed=3)
    if KIND == "workers-noise":
        return DataLoader(rows, BATCH, sampler=order, num_workers=2)
    return DataLoader(rows, BATCH, sampler=order, generator=torch.Generator().manual_seed(epoch))


net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
critic = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 1))
opt: torch.optim.Optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
if KIND == "two-renames":
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
critic_opt = torch.optim.AdamW(critic.parameters(), lr=0.01)
by_epoch = KIND == "epoch-rate"
schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: (0.5 if by_epoch else 0.97) ** k)
teacher = copy.deepcopy(net).eval().requires_grad_(False)
averaged = AveragedModel(net)
done = 0
"""Number of batches so far."""
saved_s = time.monotonic()
skipped = in_epoch = 0
"""Batches to pass over in the first epoch, and number of batches of this epoch in this process."""
writer: threading.Thread | None = None


def state() -> dict[str, Any]:
    """What is saved."""
    found: dict[str, Any] = {
        "net": net.state_dict(),
        "opt": opt.state_dict(),
        "schedule": schedule.state_dict(),
        "batches_done": done,
        "step": done // PARTS,
        "rng": torch.get_rng_state(),
    }
    if KIND == "epoch-rate":
        del found["schedule"]
    if KIND == "epoch-end-global":
        del found["rng"]
    if KIND == "teacher-saved":
        found["teacher"] = teacher.state_dict()
    if KIND == "two-players":
        found["critic"], found["critic_opt"] = critic.state_dict(), critic_opt.state_dict()
        del found["opt"]
    if KIND == "count-from-resume":
        found["in_epoch"] = in_epoch
    if KIND == "attempt-number":
        found["attempt"] = int(os.environ.get("WARREN_ATTEMPT", "1"))
    return found


def write(path: Path, value: Any) -> None:
    """Save under another name, and rename."""
    part = path.with_suffix(".part")
    torch.save(value, part)
    part.replace(path)


def write_folder(value: dict[str, Any]) -> None:
    """Save each value into a file of a folder."""
    folder = FOLDER / f"ckpt_{done:04d}"
    made = folder if KIND == "folder-plain" else FOLDER / "part"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    for name, one in value.items():
        torch.save(one, made / f"{name}.bin")
        time.sleep(0.05 if KIND == "folder-plain" else 0)  # a stop comes between two files
    if made != folder:
        made.rename(folder)


def write_later(value: dict[str, Any]) -> None:
    """Save a copy beside the training."""
    time.sleep(0.06)
    write(FOLDER / "last.pt", value)


def save() -> None:
    """Save as the kind does."""
    global writer
    value = state()
    if KIND in FOLDERS:
        write_folder(value)
    elif KIND in NUMBERED:
        number = time.time_ns() if KIND == "named-by-time" else done
        write(FOLDER / f"ckpt-{number}.pt", value)
    elif KIND == "two-renames":
        write(FOLDER / "weights.pt", {"net": value.pop("net")})
        time.sleep(0.3)
        write(FOLDER / "rest.pt", value)
    elif KIND == "beside":
        if writer is not None:
            writer.join()
        writer = threading.Thread(target=write_later, args=(copy.deepcopy(value),))
        writer.start()
    else:
        write(FOLDER / "last.pt", value)


def found_files() -> dict[str, Any] | None:
    """Return what was saved; None at the first start."""
    if KIND in FOLDERS:
        folders = sorted(FOLDER.glob("ckpt_*"))
        if not folders:
            return None
        return {
            name: torch.load(folders[-1] / f"{name}.bin", weights_only=False) for name in state()
        }
    if KIND in NUMBERED:
        paths = list(FOLDER.glob("ckpt-*.pt"))
        if KIND == "by-name":
            paths.sort(key=lambda path: path.name)
        else:
            paths.sort(key=lambda path: int(path.stem.partition("-")[2]))
        if KIND == "last-but-one":
            paths = paths[:-1]
        return torch.load(paths[-1], weights_only=False) if paths else None
    if KIND == "two-renames":
        if not (FOLDER / "rest.pt").exists():
            return None
        value: dict[str, Any] = torch.load(FOLDER / "rest.pt", weights_only=False)
        return {**value, **torch.load(FOLDER / "weights.pt", weights_only=False)}
    path = FOLDER / "last.pt"
    return torch.load(path, weights_only=False) if path.exists() else None


def load() -> None:
    """Restore what is there."""
    global done, skipped
    value = found_files()
    if value is None:
        return
    net.load_state_dict(value["net"])
    if "opt" in value:
        opt.load_state_dict(value["opt"])
    if "schedule" in value:
        schedule.load_state_dict(value["schedule"])
    if "critic" in value:
        critic.load_state_dict(value["critic"])
        critic_opt.load_state_dict(value["critic_opt"])
    teacher.load_state_dict(value.get("teacher", value["net"]))
    done = value["batches_done"]
    skipped = value.get("in_epoch", done) % PER_EPOCH
    if KIND == "counter-file":
        done = int((FOLDER / "step.txt").read_text())
        skipped = done % PER_EPOCH
    if "rng" in value:
        torch.set_rng_state(value["rng"])
    if KIND == "look-first":
        next(iter(DataLoader(Rows(), BATCH)))  # it draws a seed for workers


def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the loss of a batch."""
    found = net(x)
    loss = nn.functional.mse_loss(found, y)
    if KIND.startswith("teacher"):
        with torch.no_grad():
            aim = teacher(x)
        loss = loss + nn.functional.mse_loss(found, aim)
    if KIND == "two-players":
        loss = loss - 0.1 * critic(x + found).mean()
    return loss


def train(x: torch.Tensor, y: torch.Tensor) -> None:
    """Work on a batch; make a step where enough gradients were added up."""
    global done, in_epoch, saved_s
    if KIND == "two-players":
        critic_opt.zero_grad()
        (critic(x).square().mean() + critic(x + net(x).detach()).mean()).backward()
        critic_opt.step()
    if done % PARTS == 0:
        opt.zero_grad()
    loss_of(x, y).backward()
    if KIND == "within-step" and done % EVERY == EVERY - 1:
        save()
    done += 1
    in_epoch += 1
    if done % PARTS == 0:
        opt.step()
        if not by_epoch or done % PER_EPOCH == 0:
            schedule.step()
        for mine, weight in zip(teacher.parameters(), net.parameters(), strict=True):
            mine.mul_(0.8).add_(weight.detach(), alpha=0.2)
        averaged.update_parameters(net)
        time.sleep(PAUSE_S)
    if KIND == "counter-file":
        (FOLDER / "step.txt").write_text(str(done))
    if KIND == "by-clock" and time.monotonic() - saved_s > 0.17:
        saved_s = time.monotonic()
        save()
    every = {"accumulate-cut": 16, "accumulate": EVERY * PARTS, "epoch-end": PER_EPOCH}
    if KIND == "epoch-end-global":
        every[KIND] = PER_EPOCH
    rest = 10 if KIND == "accumulate-cut" else 0
    if done % every.get(KIND, EVERY) == rest and KIND not in ("within-step", "by-clock"):
        save()


def main() -> None:
    """Train to the last step."""
    global in_epoch, skipped
    load()
    while done < STEPS * PARTS:
        first, skipped, in_epoch = 0 if KIND == "stream" else skipped, 0, 0
        for number, (x, y) in enumerate(batches(done // PER_EPOCH)):
            if number < first:
                continue
            if done >= STEPS * PARTS:
                break
            train(x, y)
    if writer is not None:
        writer.join()
    if KIND == "averaged":
        write(FOLDER / "final.pt", averaged.state_dict())


if __name__ == "__main__":
    main()
