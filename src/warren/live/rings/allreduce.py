"""Sums over the processes of a ring: torch.distributed, in fixed blocks and a fixed order.

A ring's bits depend on the order in which its gradients are added. Here that follows from the
ranks and the size of a block alone: gloo cuts a block into as many pieces as there are ranks, and
a piece passes from rank to rank, each of which adds its own. Which host a rank is on changes who
waits for whom, not one bit. ``ring_sum`` says the same in one process, for whoever has to agree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor

BLOCK_BYTES: Final = 1 << 24
"""What is summed by one call; a block's bytes are held twice meanwhile."""
_SEGMENTS: Final = 2
"""A piece is sent in at least so many segments."""


class RingBroken(Exception):
    """Another rank is lost, or does not answer."""


class Ring:
    """One process' place in a ring; a process can be in one only.

    Parameters
    ----------
    meeting
        A file that all ranks can write and that is not there yet: through it they find each other.
    interface
        The network interface on which this rank listens to its neighbours, like ``lo``.
    limit_s
        How long one sum may take.

    Raises
    ------
    RingBroken
        Here and in every method: another rank is lost, or does not answer in time.
    """

    def __init__(self, rank: int, size: int, meeting: str, interface: str, limit_s: float) -> None:
        self.rank, self.size = rank, size
        os.environ["GLOO_SOCKET_IFNAME"] = interface
        store = dist.FileStore(meeting, size)  # type: ignore[attr-defined]
        limit = timedelta(seconds=limit_s)
        with _told():
            dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)

    def add(self, flat: Tensor) -> None:
        """Put the sum over all ranks, shape (elements,), in the place of every rank's own."""
        with _told():
            for block in blocks(flat):
                dist.all_reduce(block)

    def gather(self, own: Tensor) -> list[Tensor]:
        """What every rank has, in the order of ranks; all of one shape and type."""
        found = [torch.empty_like(own) for _ in range(self.size)]
        with _told():
            dist.all_gather(found, own)
        return found

    def share(self, value: Tensor) -> None:
        """Put what rank 0 has in the place of every rank's own."""
        with _told():
            dist.broadcast(value, src=0)

    def close(self) -> None:
        """Leave the ring."""
        dist.destroy_process_group()


@contextmanager
def _told() -> Iterator[None]:
    """What the library says of lost neighbours, by its own name."""
    try:
        yield
    except RuntimeError as error:
        raise RingBroken(str(error)) from error


def blocks(flat: Tensor) -> Iterator[Tensor]:
    """A flat tensor cut into blocks: by its size and type alone."""
    return iter(torch.split(flat, max(1, BLOCK_BYTES // flat.element_size())))


def ring_sum(parts: Sequence[Tensor]) -> Tensor:
    """What ``Ring.add`` gives to all, from every rank's own, shape (elements,), to the bit."""
    cut = [list(blocks(part)) for part in parts]
    return torch.cat([_block_sum(block) for block in zip(*cut, strict=True)])


def _block_sum(parts: Sequence[Tensor]) -> Tensor:
    """Piece c begins at rank c - 1 and passes on to the rank before, round the ring."""
    ranks, elements = len(parts), len(parts[0])
    piece = _piece(elements, parts[0].element_size(), ranks)
    total = torch.empty_like(parts[0])
    for at in range(ranks):
        own = slice(at * piece, min(elements, (at + 1) * piece))
        summed = parts[at - 1][own]
        for step in range(2, ranks + 1):
            summed = parts[(at - step) % ranks][own] + summed
        total[own] = summed
    return total


def _piece(elements: int, element_bytes: int, ranks: int) -> int:
    """Elements a piece, in gloo: whole segments of at most 1 MiB, two or more of them."""
    most = (1 << 20) // element_bytes
    segments = max(-(-elements // most), _SEGMENTS * ranks)
    each = -(-segments // ranks)
    return each * -(-elements // (each * ranks))
