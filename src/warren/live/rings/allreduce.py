"""Sums over the processes of a ring: torch.distributed, in fixed blocks and a fixed order.

A ring's bits depend on the order in which its gradients are added. Here that order follows from the
ranks and the size of a block alone: gloo cuts a block into as many pieces as there are ranks, and a
piece passes from rank to rank, each of which adds its own. The hosts of the ranks change which rank
waits for which, and not one bit. ``ring_sum`` gives the same result in one process, for comparison.
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

from warren.live.rings.meeting_store import MeetingStore
from warren.live.rings.rank_proof import PROOF_BYTES, RankProofs

BLOCK_BYTES: Final = 1 << 24
"""Bytes summed by one call; a block's bytes are held twice meanwhile."""
_SEGMENTS: Final = 2
"""Least number of segments in which a piece is sent."""
_PROOF_S: Final = 60.0
"""Proofs are waited for at most this long; once all are connected they take milliseconds."""


class RingBroken(Exception):
    """The error of a ring that cannot go on: another rank is lost, or does not answer."""


class Ring:
    """One process' place in a ring; a process can be in one only.

    Parameters
    ----------
    rank, size
        Number of this process, from 0, and the number of processes in the ring.
    meeting
        A file that does not exist yet, and the name of the ring. Unless there is a ``store``, all
        ranks write it, and find each other through it.
    interface
        The network interface on which this rank listens to its neighbors, like ``lo``.
    limit_s
        Longest time of one sum, in seconds.
    secret
        The secret of the ranks of this ring: ``warren.live.rings.rank_proof``.
    store
        The store through which they find each other instead of the file.

    Raises
    ------
    RingBroken
        Here and in every method: another rank is lost, or does not answer in time; here also: a
        process without the secret has taken its place.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        meeting: str,
        interface: str,
        limit_s: float,
        secret: bytes,
        store: MeetingStore | None = None,
    ) -> None:
        self.rank, self.size = rank, size
        # gloo takes the interface from the environment only.
        os.environ["GLOO_SOCKET_IFNAME"] = interface
        met = dist.FileStore(meeting, size) if store is None else store  # type: ignore[attr-defined]
        limit = timedelta(seconds=limit_s)
        with _told():
            dist.init_process_group("gloo", store=met, rank=rank, world_size=size, timeout=limit)
        self._prove(RankProofs(secret, meeting, rank), timedelta(seconds=min(limit_s, _PROOF_S)))

    def _prove(self, proofs: RankProofs, limit: timedelta) -> None:
        """Show all others that this rank belongs here, and let them show it."""
        others = [other for other in range(self.size) if other != self.rank]
        own = {other: torch.tensor(list(proofs.to(other)), dtype=torch.uint8) for other in others}
        shown = {other: torch.zeros(PROOF_BYTES, dtype=torch.uint8) for other in others}
        with _told():  # all begin before one is waited for, so that no rank can hold another up
            begun = [(other, dist.irecv(shown[other], src=other)) for other in others]
            begun += [(other, dist.isend(own[other], dst=other)) for other in others]
        for other, one in begun:
            with _told(f"rank {other} has not proved that it belongs to this ring: "):
                assert one is not None
                one.wait(limit)
        for other in others:
            if not proofs.right(other, bytes(shown[other].tolist())):
                message = f"who is in the place of rank {other} does not belong to this ring"
                raise RingBroken(message)

    def add(self, flat: Tensor) -> None:
        """Put the sum over all ranks, shape (elements,), in the place of every rank's own."""
        with _told():
            for block in blocks(flat):
                dist.all_reduce(block)

    def gather(self, own: Tensor) -> list[Tensor]:
        """Return every rank's tensor, in the order of ranks; all of one shape and type."""
        found = [torch.empty_like(own) for _ in range(self.size)]
        with _told():
            dist.all_gather(found, own)
        return found

    def share(self, value: Tensor) -> None:
        """Replace every rank's tensor by that of rank 0."""
        with _told():
            dist.broadcast(value, src=0)

    def close(self) -> None:
        """Leave the ring."""
        dist.destroy_process_group()


@contextmanager
def _told(about: str = "") -> Iterator[None]:
    """Raise the library's errors about lost neighbors as ``RingBroken``."""
    try:
        yield
    except RuntimeError as error:
        raise RingBroken(f"{about}{error}") from error


def blocks(flat: Tensor) -> Iterator[Tensor]:
    """Cut a flat tensor into blocks, by its size and type alone."""
    return iter(torch.split(flat, max(1, BLOCK_BYTES // flat.element_size())))


def ring_sum(parts: Sequence[Tensor]) -> Tensor:
    """Return the result of ``Ring.add`` on all ranks, to the bit, in one process.

    Parameters
    ----------
    parts
        The tensor of every rank, in order; each of shape (elements,).
    """
    cut = [list(blocks(part)) for part in parts]
    return torch.cat([_block_sum(block) for block in zip(*cut, strict=True)])


def _block_sum(parts: Sequence[Tensor]) -> Tensor:
    """Return the sum of one block, each piece added in its own order of ranks.

    Piece c begins at rank c - 1 and passes on to the rank before, round the ring.
    """
    ranks, elements = len(parts), len(parts[0])
    piece = _piece(elements, parts[0].element_size(), ranks)
    total = torch.empty_like(parts[0])
    for at in range(ranks):
        # The last pieces of a small block may be short, or empty.
        own = slice(at * piece, min(elements, (at + 1) * piece))
        summed = parts[at - 1][own]
        for step in range(2, ranks + 1):
            # Each rank adds its own to the sum that has come round.
            summed = parts[(at - step) % ranks][own] + summed
        total[own] = summed
    return total


def _piece(elements: int, element_bytes: int, ranks: int) -> int:
    """Return the number of elements that gloo puts in a piece.

    A piece is a whole number of segments, two or more, of at most 1 MiB each.
    """
    # With ceilings throughout: S = max(ceil(elements / most), 2 ranks) segments at least,
    # ceil(S / ranks) of them a piece, each of ceil(elements / (segments of all pieces)) elements.
    most = (1 << 20) // element_bytes
    segments = max(-(-elements // most), _SEGMENTS * ranks)
    each = -(-segments // ranks)
    return each * -(-elements // (each * ranks))
