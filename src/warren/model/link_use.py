"""Bytes that passed each link over time: rows of both worlds, and their collection during a run.

Host h has uplink 2 h and downlink 2 h + 1. Time is cut into bins of one length.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from warren.model.costs import FloatArray, IntArray

BINS: Final = 1024
"""Most bins of a run, unless its recorder was asked for another number."""
FIRST_BIN_NS: Final = 1_000_000
"""The length of bins when a run begins; it doubles whenever time passes the last one."""
_BUFFERED: Final = 2**15
"""Intervals that wait before they are added up: few enough to stay in a cache."""
_PIECES: Final = 2**18
"""About how many pieces of intervals are kept before they are sorted into the rows."""
# A row's link, job, class and bin are one number, in this order from the highest bit on.
_BIN_BITS: Final = 16
_CLASS_BITS: Final = 3
_JOB_BITS: Final = 24
_LINK_BITS: Final = 20


# No equality (``eq=False``): comparing arrays gives arrays, not an answer.
class LinkUse(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """One row (axis R) a link, job, class and bin in which bytes passed, sorted in this order.

    ``bin_R`` b holds the bytes that passed from b ``bin_ns`` on, until the next bin begins.
    ``bytes_R`` are whole bytes: the bytes of rows that follow one another are right to one byte in
    all. Bytes before ``since_ns`` are not known: the run was cut off then, and went on.
    """

    bin_ns: int
    link_R: IntArray
    job_R: IntArray
    class_R: IntArray
    bin_R: IntArray
    bytes_R: IntArray
    since_ns: int = 0

    def __len__(self) -> int:
        return len(self.link_R)


class LinkUseRecorder:
    """Adds up which bytes pass each link of ``hosts`` hosts, in at most ``bins`` bins of time.

    It holds one number for each link, job, class and bin in which bytes passed, whatever the
    number of intervals.

    Raises
    ------
    ValueError
        For more than 65,536 bins or 524,288 hosts, or an odd number of bins.
    """

    __slots__ = (
        "_bin_ns",
        "_bins",
        "_byte_counts",
        "_bytes_R",
        "_intervals",
        "_key_R",
        "_link_count",
        "_links",
        "_pieces",
        "_waiting",
    )

    def __init__(self, hosts: int, bins: int = BINS) -> None:
        if not 0 < bins <= 2**_BIN_BITS or bins % 2 or 2 * hosts > 2**_LINK_BITS:
            raise ValueError(f"cannot record the links of {hosts} hosts in {bins} bins")
        self._bins = bins
        self._link_count = 2 * hosts
        self._bin_ns = FIRST_BIN_NS
        self._key_R: IntArray = np.empty(0, dtype=np.int64)
        self._bytes_R: FloatArray = np.empty(0)
        self._pieces: list[tuple[IntArray, FloatArray]] = []
        self._forget()

    def _forget(self) -> None:
        """Begin with no intervals that wait."""
        self._links = array("q")
        # For each interval: its job, class, begin, end and number of links.
        self._intervals = array("q")
        self._byte_counts = array("d")
        self._waiting = 0

    def add(
        self,
        links: Sequence[int],
        job: int,
        flow_class: int,
        begin_ns: int,
        end_ns: int,
        byte_count: float,
    ) -> None:
        """Note that ``byte_count`` bytes of a job passed each of ``links``, at one rate.

        They passed from ``begin_ns`` to ``end_ns``; if these are equal, all at once.
        """
        self._links.extend(links)
        self._intervals.extend((job, flow_class, begin_ns, end_ns, len(links)))
        self._byte_counts.append(byte_count)
        self._waiting += 1
        if self._waiting >= _BUFFERED:
            self._add_up()

    def add_all(self, links_N: IntArray, what_I5: IntArray, bytes_I: FloatArray) -> None:
        """Note many intervals I at once: job, class, begin, end and number of links of each.

        ``links_N`` has their links one after another; the rest is as in ``add``.
        """
        self._links.frombytes(links_N.astype(np.int64).tobytes())
        self._intervals.frombytes(what_I5.astype(np.int64).tobytes())
        self._byte_counts.frombytes(bytes_I.astype(np.float64).tobytes())
        self._waiting += len(bytes_I)
        if self._waiting >= _BUFFERED:
            self._add_up()

    def use(self) -> LinkUse:
        """Return everything noted so far.

        Raises
        ------
        ValueError
            If an interval ends before it begins, or a job, class, time or number of bytes is below
            zero or too large for a row.
        """
        self._add_up()
        self._sort_in()
        # The rounded value is the sum up to each row, so that errors do not add up.
        sum_R = np.rint(np.cumsum(self._bytes_R)).astype(np.int64)
        whole_R: IntArray = np.ediff1d(sum_R, to_begin=sum_R[:1])
        key_R = self._key_R[whole_R > 0]
        return LinkUse(
            bin_ns=self._bin_ns,
            link_R=key_R >> (_JOB_BITS + _CLASS_BITS + _BIN_BITS),
            job_R=key_R >> (_CLASS_BITS + _BIN_BITS) & (2**_JOB_BITS - 1),
            class_R=key_R >> _BIN_BITS & (2**_CLASS_BITS - 1),
            bin_R=key_R & (2**_BIN_BITS - 1),
            bytes_R=whole_R[whole_R > 0],
        )

    def _add_up(self) -> None:
        """Add the intervals that wait to the rows."""
        if not self._waiting:
            return
        job_I, class_I, begin_I, end_I, links_I = (
            np.array(self._intervals, dtype=np.int64).reshape(-1, 5).T
        )
        bytes_I = np.array(self._byte_counts)
        link_F = np.array(self._links, dtype=np.int64)
        self._forget()
        _check(job_I, class_I, begin_I, end_I, bytes_I)
        if len(link_F) and not 0 <= link_F.min() <= link_F.max() < self._link_count:
            raise ValueError("a link is none of the cluster's")
        self._lengthen_bins(max(int(end_I.max()), int(begin_I.max()) + 1))
        # One flow (axis F) for each interval and each of its links.
        interval_F = np.repeat(np.arange(len(links_I)), links_I)
        key_F = link_F << _JOB_BITS | job_I[interval_F]
        key_F = (key_F << _CLASS_BITS | class_I[interval_F]) << _BIN_BITS
        begin_F, end_F = begin_I[interval_F], end_I[interval_F]
        first_F = begin_F // self._bin_ns
        pieces_F = np.maximum(end_F - 1, begin_F) // self._bin_ns - first_F + 1
        bytes_F = bytes_I[interval_F]
        # Long intervals have many pieces: flows are taken in batches, so that memory stays small.
        batch_F = np.cumsum(pieces_F) // _PIECES
        for rows in np.split(np.arange(len(key_F)), np.flatnonzero(np.diff(batch_F)) + 1):
            self._spread(key_F[rows], begin_F[rows], end_F[rows], pieces_F[rows], bytes_F[rows])

    def _lengthen_bins(self, end_ns: int) -> None:
        """Double the length of bins until all that ends at ``end_ns`` has one."""
        doubled = 0
        while self._bin_ns * self._bins < end_ns:
            self._bin_ns *= 2
            doubled += 1
        if doubled:
            self._sort_in()
            bin_R = self._key_R & (2**_BIN_BITS - 1)
            self._pieces = [((self._key_R - bin_R) + (bin_R >> doubled), self._bytes_R)]
            self._key_R, self._bytes_R = self._key_R[:0], self._bytes_R[:0]
            self._sort_in()

    def _spread(
        self,
        key_F: IntArray,
        begin_F: IntArray,
        end_F: IntArray,
        pieces_F: IntArray,
        bytes_F: FloatArray,
    ) -> None:
        """Add flows to the rows, each spread over its bins by the time it has in them."""
        flow_P = np.repeat(np.arange(len(key_F)), pieces_F)
        first_P = np.cumsum(pieces_F) - pieces_F
        bin_P = np.arange(len(flow_P)) - first_P[flow_P] + (begin_F // self._bin_ns)[flow_P]
        begin_P = np.maximum(begin_F[flow_P], bin_P * self._bin_ns)
        end_P = np.minimum(end_F[flow_P], (bin_P + 1) * self._bin_ns)
        share_P = np.ones(len(flow_P))
        length_P = (end_F - begin_F)[flow_P]
        np.divide(end_P - begin_P, length_P, out=share_P, where=length_P > 0)
        self._pieces.append((key_F[flow_P] + bin_P, bytes_F[flow_P] * share_P))
        # In so large portions that each row is sorted few times, however many there are.
        if sum(len(key_P) for key_P, _ in self._pieces) >= max(_PIECES, len(self._key_R)):
            self._sort_in()

    def _sort_in(self) -> None:
        """Make rows of the pieces: one for each key, with the bytes of all that have it."""
        if not self._pieces:
            return
        key = np.concatenate([self._key_R, *(key_P for key_P, _ in self._pieces)])
        byte_counts = np.concatenate([self._bytes_R, *(bytes_P for _, bytes_P in self._pieces)])
        self._pieces.clear()
        # ``bincount`` adds one after the other, so every machine gets the same sums.
        self._key_R, row = np.unique(key, return_inverse=True)
        self._bytes_R = np.bincount(row, byte_counts, len(self._key_R)).astype(np.float64)


def _check(
    job_I: IntArray, class_I: IntArray, begin_I: IntArray, end_I: IntArray, bytes_I: FloatArray
) -> None:
    """Refuse intervals that no row can hold."""
    for name, value_I, limit in (
        ("job", job_I, 2**_JOB_BITS),
        ("class", class_I, 2**_CLASS_BITS),
        ("begin", begin_I, np.inf),
        ("length", end_I - begin_I, np.inf),
        ("number of bytes", bytes_I, np.inf),
    ):
        bad_I = ~((value_I >= 0) & (value_I < limit))
        if bad_I.any():
            raise ValueError(f"{value_I[bad_I][0]} is not the {name} of bytes on a link")
