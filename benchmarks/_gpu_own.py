"""The user's own loop: what some lines of PyTorch take a step, with the model, data and loss of an
app. ``python _gpu_own.py`` reads a list of cases as JSON and prints a line of JSON for each.

Each case is timed in blocks, and its ways take turns: *free* has the fastest kernels,
*deterministic* those of ``use_deterministic_algorithms`` with memory that is filled (torch's
default), *unfilled* the same without.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

WAYS: Final = ("free", "deterministic", "unfilled")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One net to time; ``tasks``: batches a step, whose gradients are added."""

    name: str
    app: str
    batch: int
    params: dict[str, Any] = field(default_factory=dict)
    tasks: int = 1
    device: str = "cuda"
    warm: int = 8
    blocks: int = 5
    steps: int = 8
    workers: int = 0
    ways: tuple[str, ...] = WAYS


def main() -> None:
    """Time every case; the error of one is its line, and the others go on."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # asked for by deterministic kernels
    for case in json.loads(sys.stdin.read()):
        try:
            row = Own(Case(**case)).measured()
        except Exception as error:
            row = {"error": f"{type(error).__name__}: {error}"[:400]}
        print(json.dumps({"name": case["name"], **row}), flush=True)
        _give_back()


def cases_as_text(cases: list[Case]) -> str:
    """What ``main`` reads."""
    return json.dumps([asdict(case) for case in cases])


def _give_back() -> None:
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def app_of(case: Case) -> Any:
    """Return the app of a case, made from its file."""
    path, _, name = case.app.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that the workers of a DataLoader find its classes
    spec.loader.exec_module(module)
    return getattr(module, name)(**case.params)


class Own:
    """The model, the data and the loop of one case."""

    def __init__(self, case: Case) -> None:
        import torch

        self.torch, self.case, self.app = torch, case, app_of(case)
        torch.manual_seed(1)
        self.cuda = case.device == "cuda"
        self.model = self.app.model().to(case.device)
        self.model.train()
        self.batches = self._loaded() if case.workers else self._indexed()
        self.optimizer = self.app.optimizer(list(self.model.named_parameters()))

    def measured(self) -> dict[str, Any]:
        """Medians of blocks, in milliseconds a step; the gradients of a step alone as well."""
        steps, times = self.case.steps, {way: ([], []) for way in self.case.ways}
        for way in self.case.ways:
            self._pin(way)
            for _ in range(self.case.warm):
                self.step()
        for _ in range(self.case.blocks):
            for way, (whole, gradients) in times.items():
                self._pin(way)
                self.step()
                whole.append(self._timed_ms(self.step, steps))
                if self.case.tasks > 1:
                    gradients.append(self._timed_ms(self.gradients, steps))
        return {
            way: {
                "ms": median(whole),
                "blocks_ms": whole,
                **({"gradients_ms": median(gradients)} if gradients else {}),
            }
            for way, (whole, gradients) in times.items()
        }

    def step(self) -> None:
        """One step of the loop."""
        self.gradients()
        self.optimizer.step()

    def gradients(self) -> None:
        """Forward and backward of the batches of a step."""
        self.optimizer.zero_grad(set_to_none=True)
        for _ in range(self.case.tasks):
            (self.app.loss(self.model, next(self.batches)) / self.case.tasks).backward()

    def _timed_ms(self, call: Callable[[], None], times: int) -> float:
        self._wait()
        begin = time.perf_counter()
        for _ in range(times):
            call()
        self._wait()
        return (time.perf_counter() - begin) / times * 1000

    def _wait(self) -> None:
        if self.cuda:
            self.torch.cuda.synchronize()

    def _pin(self, way: str) -> None:
        self.torch.use_deterministic_algorithms(way != "free")
        self.torch.utils.deterministic.fill_uninitialized_memory = way == "deterministic"
        self.torch.backends.cudnn.deterministic = way != "free"
        self.torch.backends.cudnn.benchmark = way == "free"

    def _indexed(self) -> Iterator[Any]:
        """Batches drawn from tensors in memory, without end."""
        data = self.app.dataset()
        parts = data if isinstance(data, tuple) else (data,)
        while True:
            index = self.torch.randint(len(parts[0]), (self.case.batch,))
            batch = tuple(self._moved(part[index]) for part in parts)
            yield batch if isinstance(data, tuple) else batch[0]

    def _moved(self, tensor: Any) -> Any:
        return tensor.pin_memory().to("cuda", non_blocking=True) if self.cuda else tensor

    def _loaded(self) -> Iterator[Any]:
        """Batches that a DataLoader with workers makes, without end."""
        loader = self.torch.utils.data.DataLoader(
            self.app.dataset(),
            batch_size=self.case.batch,
            shuffle=True,
            drop_last=True,
            num_workers=self.case.workers,
            pin_memory=self.cuda,
            persistent_workers=True,
        )
        while True:
            for batch in loader:
                yield tuple(part.to(self.case.device, non_blocking=True) for part in batch)


if __name__ == "__main__":
    main()
