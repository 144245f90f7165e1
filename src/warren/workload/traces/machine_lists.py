"""Turn published lists of machines into cluster files.

*Sources.* Alibaba's openb node list (cluster-trace-gpu-v2023, ``openb_node_list_*``): ``sn,
cpu_milli, memory_mib, gpu, model``, a line a machine. Tiresias's and Muri's cluster
specifications: ``num_switch, num_node_p_switch, num_gpu_p_node, num_cpu_p_node, mem_p_node``, one
line.

*Differs.* Equal machines become one entry with a count. Machines without a GPU are counted and
left out. Network cards are not stated there, so T^s is that of 25 Gbit/s where no profile states
it. A specification's devices are of type ``GPU``; its switches are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.workload.specs.types import is_name
from warren.workload.traces.csv_cells import CsvCells, cells_of
from warren.workload.traces.format import TraceHead, head_of
from warren.workload.traces.rows import BadRow, NoJob, TraceRequest, UnusedRows

_NODES: Final = ("sn", "memory_mib", "gpu", "model")
_SPEC: Final = ("num_switch", "num_node_p_switch", "num_gpu_p_node", "mem_p_node")
_MAX_HOSTS: Final = 100_000


@dataclass(frozen=True, slots=True, order=True)
class _Machine:
    """The attributes that make two machines equal; ordered by type, GPUs and memory."""

    type: str
    gpus: int
    memory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """A cluster file's text, how many hosts and devices it has, and remarks on lines not used."""

    text: str
    hosts: int
    devices: int
    notes: tuple[str, ...]


def is_cluster(head: TraceHead) -> bool:
    """Tell whether a file's beginning shows a list of machines."""
    return head.has(*_NODES) or head.has(*_SPEC)


def read_cluster(request: TraceRequest) -> Machines:
    """Make a cluster file of a list of machines.

    Raises SpecError if the text is no list of machines, or holds no machine with a GPU.
    """
    unused = UnusedRows()
    counts: dict[_Machine, int] = {}
    for found in _machines(request):
        if isinstance(found, NoJob):
            unused.add(found)
        else:
            machine, count = found
            counts[machine] = counts.get(machine, 0) + count
    notes = tuple(unused.notes(request.file))
    if not counts:
        message = f"holds no machine with a GPU: {'; '.join(notes[:3]) or 'it has no rows'}"
        raise SpecError(Problem(file=request.file, message=message))
    return Machines(
        text="".join(f"{line}\n" for line in _lines(counts)),
        hosts=sum(counts.values()),
        devices=sum(machine.gpus * count for machine, count in counts.items()),
        notes=notes,
    )


def _machines(request: TraceRequest) -> Iterator[tuple[_Machine, int] | NoJob]:
    """Yield machines with their count, or why a row has none."""
    # The two kinds of list differ in their first line of names.
    spec = head_of(request.file, request.content).has(*_SPEC)
    for cells in cells_of(request, _SPEC if spec else _NODES):
        if isinstance(cells, NoJob):
            yield cells
            continue
        try:
            yield _of_spec(cells) if spec else _of_node(cells)
        except BadRow as bad:
            yield NoJob(line=cells.line, reason=bad.reason, value=bad.value)


def _of_node(cells: CsvCells) -> tuple[_Machine, int]:
    gpus = cells.count("gpu")
    kind = cells.values.get("model", "")
    if gpus == 0:
        raise BadRow("has no GPU")
    if not is_name(kind):
        raise BadRow("model is not a name", kind)
    return _Machine(kind, gpus, f"{cells.count('memory_mib')} MiB"), 1


def _of_spec(cells: CsvCells) -> tuple[_Machine, int]:
    count = cells.count("num_switch", 1) * cells.count("num_node_p_switch", 1)
    # Two numbers of twelve digits may be multiplied here.
    if count > _MAX_HOSTS:
        raise BadRow(f"more than {_MAX_HOSTS} hosts", str(count))
    gpus = cells.count("num_gpu_p_node", 1)
    return _Machine("GPU", gpus, f"{cells.count('mem_p_node')} GB"), count


def _lines(counts: dict[_Machine, int]) -> Iterator[str]:
    """Yield the lines of a cluster file: an entry a kind of machine, the most devices first."""
    yield "format: 1"
    yield "hosts:"
    names: dict[str, int] = {}
    for machine in sorted(counts, key=lambda one: (-one.gpus * counts[one], one)):
        stem = f"{machine.type.lower()}x{machine.gpus}"
        # Machines that differ in memory alone have one stem, and get numbers.
        names[stem] = names.get(stem, 0) + 1
        name = stem if names[stem] == 1 else f"{stem}.{names[stem]}"
        devices = f"{{{json.dumps(machine.type)}: {machine.gpus}}}"
        more = f"devices: {devices}, memory: {machine.memory}"
        yield f"  - {{name: {json.dumps(name)}, count: {counts[machine]}, {more}}}"
