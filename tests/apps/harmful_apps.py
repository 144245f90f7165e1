"""Apps that change the process they run in, end it, or end others: bad neighbors.

Each trains its own small model and would finish, unless it says otherwise. None of them changes
what another job computes, since no two jobs share a process.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp

Pair = tuple[Tensor, Tensor]


class Neighbour(TorchApp):
    """A small perceptron; what it does beside, ``harm`` says, after each loss."""

    def model(self) -> nn.Module:
        """One hidden layer."""
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).float()

    def dataset(self) -> Pair:
        """A plane."""
        x = torch.randn(64, 4, dtype=torch.float32)
        return x, x.sum(1, keepdim=True)

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """Mean square, then the harm."""
        with torch.enable_grad():
            x, y = batch
            found = functional.mse_loss(model(x), y)
        self.harm()
        return found

    def harm(self) -> None:
        """Nothing."""


class OtherKernels(Neighbour):
    """Chooses the kernels of all that follows in its process."""

    def harm(self) -> None:
        """For layers and convolutions."""
        torch.backends.mkldnn.enabled = False  # type: ignore[assignment]


class FlushesDenormals(Neighbour):
    """Lets its thread treat denormal numbers as zero."""

    def harm(self) -> None:
        """A flag of the processor."""
        torch.set_flush_denormal(True)


class DefaultDtype(Neighbour):
    """Wants numbers of 64 bits where nothing is said."""

    def harm(self) -> None:
        """For all tensors that are made without a dtype."""
        torch.set_default_dtype(torch.float64)


class LeavesGradOff(Neighbour):
    """Forgets to switch gradients on again."""

    def harm(self) -> None:
        """For all that is computed next."""
        torch.set_grad_enabled(False)


class GoesElsewhere(Neighbour):
    """Takes its process to another folder, with another environment."""

    def harm(self) -> None:
        """Folder, environment, and where modules are looked for."""
        os.chdir("/")
        os.environ["NOISE"] = "0.3"
        sys.path[:] = []


class Patches(Neighbour):
    """Puts a function of its own in the place of one of PyTorch's."""

    def harm(self) -> None:
        """The one that ``nn.ReLU`` calls."""
        functional.relu = lambda x, inplace=False: functional.leaky_relu(x, 0.1)


class DrawsInThread(Neighbour):
    """Has a thread that draws from all generators all of the time."""

    def harm(self) -> None:
        """Start it, once a process."""
        if not any(thread.name == "draws" for thread in threading.enumerate()):
            threading.Thread(target=self._draw, name="draws", daemon=True).start()

    def _draw(self) -> None:
        while True:
            random.random(), np.random.rand(), torch.rand(1)
            time.sleep(1e-4)


class DiesLater(Neighbour):
    """Ends its process some milliseconds after a task: another task may be running by then."""

    after_s: float = 0.03

    def harm(self) -> None:
        """Unless it is about to end already."""
        if not any(isinstance(thread, threading.Timer) for thread in threading.enumerate()):
            timer = threading.Timer(self.after_s, os._exit, (3,))
            timer.daemon = True
            timer.start()


class KeepsMemory(Neighbour):
    """Keeps more with each task, until ``local.memory`` ends its process."""

    task_mb: int = 16

    def harm(self) -> None:
        """Touched, so that it counts."""
        self._kept: list[Any] = [*getattr(self, "_kept", []), np.ones(self.task_mb << 17)]


class KillsItsParent(Neighbour):
    """Kills the process that it was forked from, in each task."""

    def harm(self) -> None:
        """Which has forked everything else of the run, too; it takes a moment to end."""
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(0.2)


class PrintsEndlessly(Neighbour):
    """Prints in each task until something ends it; so that no test fills a disk, ``most_mb``."""

    most_mb: int = 64

    def harm(self) -> None:
        """The same line again and again."""
        line = "this fills the disk. " * 390
        for _ in range(self.most_mb * 1_000_000 // len(line)):
            print(line, flush=True)
