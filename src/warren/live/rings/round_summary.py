"""Messages of ranks about a round beside their gradients: a few bytes, through the ring."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from warren.live.rings.allreduce import Ring
from warren.live.training.tensor_layout import flat_of, raw

_HEAD: Final = struct.Struct("<dqqqq?qq")
"""Loss; start, end of COMP, end and T^s in ns; whether COMP overran; the saved round; the delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSummary:
    """A rank's round: loss and mask of its task, and its times (host's monotonic ns).

    ``present`` is the mask: the parameters that have a gradient. ``end_ns``: its part of the mean
    is there. ``sync_ns`` is its pad T^s; ``overran``: COMP took longer than its pad. ``saved``: the
    round of the oldest checkpoint that rank 0 may go back to. ``delay_ns``: delay of the next round
    after the barrier, as rank 0 says.
    """

    loss: float
    start_ns: int
    comp_end_ns: int
    end_ns: int
    sync_ns: int
    overran: bool
    saved: int
    delay_ns: int
    present: bytes

    def packed(self) -> bytes:
        """Return the summary as bytes, as many on every rank of a job."""
        head = _HEAD.pack(
            self.loss,
            self.start_ns,
            self.comp_end_ns,
            self.end_ns,
            self.sync_ns,
            self.overran,
            self.saved,
            self.delay_ns,
        )
        return head + self.present

    @staticmethod
    def unpacked(data: bytes) -> RoundSummary:
        """Return the summary that was packed into ``data``."""
        loss, start_ns, comp_end_ns, end_ns, sync_ns, overran, saved, delay_ns = _HEAD.unpack_from(
            data
        )
        return RoundSummary(
            loss=loss,
            start_ns=start_ns,
            comp_end_ns=comp_end_ns,
            end_ns=end_ns,
            sync_ns=sync_ns,
            overran=overran,
            saved=saved,
            delay_ns=delay_ns,
            present=data[_HEAD.size :],
        )


def exchanged(ring: Ring, own: RoundSummary) -> list[RoundSummary]:
    """Exchange the summaries of a round over the ring; return those of all ranks, in order."""
    found = ring.gather(flat_of(own.packed()).clone())
    return [RoundSummary.unpacked(bytes(raw(one))) for one in found]
