"""The length of an emulated task: its profile times, and two things that no policy sees.

``emulate.slower`` multiplies both times on a device type. ``emulate.jitter`` names a file of
measured times: as factors around their median, each task draws one for its COMP. The draw follows
from (run seed, job, round, shard), so it is the same on every device and in every order; a task
that runs again takes the same time.

In a testbed under ``network: {model: fluid}`` the bytes of jobs with servers pass links whose rates
the model knows: they take the place of T^s, which is padded to 0.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import numpy as np

from warren.live.clock import ClusterClock
from warren.model.cluster import Cluster
from warren.model.costs import CostTable, FloatArray
from warren.model.draws import JITTER, draw_bits, stream_key
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.model.units import NEVER_NS

PPM: Final = 1_000_000
"""Parts per million of a factor of one."""
MAX_VALUES: Final = 100_000
MAX_FACTOR: Final = 1000
_MAX_BYTES: Final = 16 * MAX_VALUES + 4096
"""Room for the widest numbers, of 16 bytes, and for the header of the file."""
_MAGIC: Final = b"\x93NUMPY"
_START: Final = 2.0
"""Multiple of the median above which values at the beginning contain start-up work."""
_SMALL, _LARGE = 1e-15, 1e15
_ALLOWED: Final = (
    f"allowed: a .npy file of one dimension with 1 to {MAX_VALUES} numbers from {_SMALL:g} to "
    f"{_LARGE:g}"
)


def read_jitter(path: str) -> tuple[int, ...]:
    """Read the factors of ``emulate.jitter``: the values of a NumPy file over their median.

    Values at its beginning that are more than twice the median of all are left out.

    Parameters
    ----------
    path : str
        A ``.npy`` file of one dimension.

    Returns
    -------
    tuple of int
        The factors in parts per million, in the order of the file.

    Raises
    ------
    SpecError
        If the file cannot be read, or holds anything else.
    """
    try:
        return _factors(_array(Path(path)))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(Problem(file=path, field="emulate.jitter", message=reason)) from None


def _array(path: Path) -> FloatArray:
    """Read the values of a ``.npy`` file; a ValueError describes any fault."""
    # To open a named pipe would wait for a process that writes to it.
    if path.exists() and not path.is_file():
        raise ValueError("is not a file")
    # One byte more than allowed shows that a file is too large, however large it is.
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES or not content.startswith(_MAGIC):
        raise ValueError(f"is not such a file; {_ALLOWED}")
    try:
        found = np.load(io.BytesIO(content), allow_pickle=False)
    # A damaged header raises whatever error its tokens lead to.
    except Exception:
        raise ValueError(f"is damaged, or holds no numbers; {_ALLOWED}") from None
    if found.dtype.kind not in "iuf":
        raise ValueError(f"holds values of type {found.dtype}; {_ALLOWED}")
    if found.ndim != 1 or not 1 <= found.size <= MAX_VALUES:
        raise ValueError(f"has the shape {found.shape}; {_ALLOWED}")
    return np.asarray(found, dtype=np.float64)


def _factors(values: FloatArray) -> tuple[int, ...]:
    """Turn measured times into factors of their median, in parts per million."""
    # Negated, so that a NaN, which compares as false, is wrong too.
    wrong = np.flatnonzero(~((values >= _SMALL) & (values <= _LARGE)))
    if wrong.size:
        raise ValueError(f"value {wrong[0]} is {values[wrong[0]]}; {_ALLOWED}")
    # The first value that is no start-up; at least half of all values are at most the median.
    started = int(np.argmax(values <= _START * np.median(values)))
    kept = values[started:]
    factors = kept / np.median(kept)
    if factors.max() > MAX_FACTOR:
        raise ValueError(f"a value is more than {MAX_FACTOR} times the median")
    return tuple(max(1, round(factor)) for factor in (factors * PPM).tolist())


Pair: TypeAlias = tuple[int, int]
"""Real nanoseconds that COMP and synchronization are padded to; both 0: not padded."""


class PadTable(msgspec.Struct, frozen=True, array_like=True):
    """The pads of one device, small enough for a message, for the computations of its executor.

    ``pads_J`` are those of each job without jitter; ``jitter_ppm`` the factors to draw from, in
    parts per million; empty: none. ``on_links``: bytes of jobs with servers take the place of T^s.
    """

    pads_J: tuple[Pair, ...]
    seed: int = 0
    jitter_ppm: tuple[int, ...] = ()
    on_links: bool = False

    def constant(self, job: int) -> Pair:
        """Return the pads of a task of this job before it draws."""
        return self.pads_J[job]

    def pads(self, job: int, round_no: int, shard: int) -> Pair:
        """Return the pads of one task."""
        comp_ns, sync_ns = self.pads_J[job]
        if not self.jitter_ppm or not comp_ns:
            return comp_ns, sync_ns
        # The bits are a function of the task's name alone: no state, so no order of draws.
        drawn = draw_bits(stream_key(self.seed, JITTER, job), round_no, shard)
        factor_ppm = self.jitter_ppm[drawn % len(self.jitter_ppm)]
        return max(1, comp_ns * factor_ppm // PPM), sync_ns


class Pads:
    """The pads of a run. Device types are positions on the type axis.

    Parameters
    ----------
    run : Run
        The run; without ``emulate`` in its cluster nothing is padded.
    costs : CostTable
        The profile times, in cluster nanoseconds.

    Raises
    ------
    SpecError
        If the file of ``emulate.jitter`` cannot be used.
    """

    def __init__(self, run: Run, costs: CostTable) -> None:
        self._run, self._costs = run, costs
        jitter_ppm = check_jitter(run)
        kinds = range(len(run.cluster.types))
        self._tables = tuple(
            PadTable(
                pads_J=self._pads_J(kind),
                seed=run.seed,
                jitter_ppm=jitter_ppm,
                on_links=on_links(run.cluster),
            )
            for kind in kinds
        )

    def table(self, device_type: int) -> PadTable:
        """Return the pads that an executor of a device of this type needs."""
        return self._tables[device_type]

    def _pads_J(self, kind: int) -> tuple[Pair, ...]:
        """Compute the pads of each job on one device type, before tasks draw."""
        emulate = self._run.cluster.emulate
        jobs = self._run.workload.jobs
        if emulate is None:
            return tuple((0, 0) for _ in jobs)
        slower = emulate.slower.get(self._run.cluster.type_names[kind], 1.0)
        clock = ClusterClock(0, emulate.time_scale)

        def real(cluster_ns: int) -> int:
            # A time that never ends stays below what an integer of a message can hold.
            pad_ns = clock.pad_ns(cluster_ns)
            return min(NEVER_NS, pad_ns if slower == 1.0 else round(pad_ns * slower))

        comp_ns_J = self._costs.comp_ns_JT[:, kind].tolist()
        sync_ns_J = self._costs.sync_ns_JT[:, kind].tolist()
        if on_links(self._run.cluster):
            sync_ns_J = [0 if job.sync == "ps" else sync_ns_J[job.index] for job in jobs]
        # COMP is padded to at least 1 ns: 0 would mean that it is not padded.
        pairs = zip(comp_ns_J, sync_ns_J, strict=True)
        return tuple((max(1, real(comp_ns)), real(sync_ns)) for comp_ns, sync_ns in pairs)


def on_links(cluster: Cluster) -> bool:
    """Tell whether bytes of emulated jobs with servers pass links that the network model knows."""
    known = cluster.local.testbed is not None and cluster.network.model == "fluid"
    return known and cluster.live_emulate is not None


def check_jitter(run: Run) -> tuple[int, ...]:
    """Return the factors that the run's tasks draw from; none where it states or pads nothing.

    Raises
    ------
    SpecError
        If the file of ``emulate.jitter`` cannot be used.
    """
    emulate = run.cluster.live_emulate
    if emulate is None or not emulate.jitter:
        return ()
    return read_jitter(os.path.join(run.base, emulate.jitter))
