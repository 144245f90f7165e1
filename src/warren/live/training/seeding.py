"""Seed randomness: every generator is set from a hash before user code runs."""

from __future__ import annotations

import hashlib
import random
from typing import Any, Final

import numpy as np
import torch

BARRIER: Final = -1
"""The shard number of a round's barrier (optimizer step and evaluation)."""


def reseed(seed: int, round_no: int, shard: int) -> None:
    """Set the generators of ``random``, ``numpy`` and ``torch`` for task (round_no, shard)."""
    _set_generators(f"task {seed} {round_no} {shard}")


def reseed_sample(seed: int, round_no: int, shard: int, at: int) -> None:
    """Set the generators on the CPU for sample ``at`` of a task; one more is for ``collate``."""
    _set_generators(f"sample {seed} {round_no} {shard} {at}", devices=False)


def seed_sampler(seed: int, epoch: int) -> None:
    """Set the generators on the CPU for ``app.sampler()`` of an epoch."""
    _set_generators(f"sampler {seed} {epoch}", devices=False)


def seed_model(seed: int) -> None:
    """Set the generators for ``app.model()``."""
    _set_generators(f"model {seed}")


def seed_dataset(seed: int) -> None:
    """Set the generators for ``app.dataset()``."""
    _set_generators(f"dataset {seed}")


def seed_optimizer(seed: int) -> None:
    """Set the generators for ``app.optimizer()``."""
    _set_generators(f"optimizer {seed}")


def seed_schedule(seed: int) -> None:
    """Set the generators for ``app.schedule()``."""
    _set_generators(f"schedule {seed}")


def seed_otherwise(seed: int) -> None:
    """Set the generators as no other call does, to reveal values that depend on them."""
    _set_generators(f"otherwise {seed}")


def generator_states() -> tuple[Any, ...]:
    """Return the states of the generators of ``random``, ``numpy`` and ``torch``.

    That of the GPU is among them once this process uses one.
    """
    there = torch.cuda.get_rng_state() if _uses_gpu() else None
    return random.getstate(), np.random.get_state(), torch.default_generator.get_state(), there


def set_generator_states(states: tuple[Any, ...]) -> None:
    """Take the generators back to where they were."""
    of_random, of_numpy, of_torch, of_gpu = states
    random.setstate(of_random)
    np.random.set_state(of_numpy)
    torch.default_generator.set_state(of_torch)
    if of_gpu is not None:
        torch.cuda.set_rng_state(of_gpu)


def _uses_gpu() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def stream_key(seed: int, epoch: int) -> int:
    """Return the 128-bit key of one epoch's permutation."""
    return int.from_bytes(_hash(f"epoch {seed} {epoch}")[:16], "little")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _set_generators(text: str, *, devices: bool = True) -> None:
    # Three disjoint parts of one hash: 64 bits for random, 32 for numpy (its limit), 64 for torch.
    digest = _hash(text)
    random.seed(int.from_bytes(digest[:8], "little"))
    np.random.seed(int.from_bytes(digest[8:12], "little"))
    value = int.from_bytes(digest[16:24], "little")
    # torch.manual_seed formats a stack trace for CUDA on every call until CUDA is in use.
    torch.default_generator.manual_seed(value)
    if devices and _uses_gpu():
        torch.cuda.manual_seed_all(value)
