"""The way of a job from its shape to another: the hosts that change, the blocks that move."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, NoReturn

from warren.model.costs import BoolArray, IntArray
from warren.model.errors import Problem, SpecError
from warren.model.job import EpochCost
from warren.solve.shapes.block_moves import Holder, Operation, reconfiguration, stages

BLOCKS: Final = (200, 128)
"""Numbers of blocks of data and of model in Cruise, 3.4.6."""
_MOST_BLOCKS: Final = 10**6
_COUNTS: Final = re.compile(r"\d{1,9}(\+\d{1,9})*,\d{1,9}(\+\d{1,9})*", re.ASCII)
_PAIR: Final = re.compile(r"\d{1,9},\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStep:
    """The step that a host makes on the way to another shape.

    ``kind``: add, delete, switch or move. ``role``: the host's new role, or its former one if it is
    deleted; for a move, the owners of the blocks: workers (of the data) or servers (of the model).
    They go to ``target``. ``size_bytes``: None if the size of the data is not stated. ``after``:
    positions of the steps that must be over before.
    """

    kind: Literal["add", "delete", "switch", "move"]
    host: str
    role: Holder
    target: str = ""
    blocks: int = 0
    size_bytes: int | None = 0
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeChange:
    """The plan of a change of shape: ``stages`` has the places of steps that may run at once.

    ``workers``, ``servers``: hosts of the shape that is left. ``data_blocks``, ``model_blocks``:
    how many there are in all.
    """

    workers: tuple[str, ...]
    servers: tuple[str, ...]
    data_blocks: int
    model_blocks: int
    steps: tuple[ChangeStep, ...]
    stages: tuple[tuple[int, ...], ...]

    def moved(self, role: Holder) -> tuple[int, int, int | None]:
        """Return moves, blocks and bytes (None: not known) of the data or the model."""
        moves = [one for one in self.steps if one.kind == "move" and one.role == role]
        sizes = [one.size_bytes for one in moves if one.size_bytes is not None]
        known = sum(sizes) if len(sizes) == len(moves) else None
        return len(moves), sum(one.blocks for one in moves), known


def block_counts(text: str | None) -> tuple[int, int]:
    """Return the numbers of blocks of data and model in ``--blocks``; raises SpecError."""
    if text is None:
        return BLOCKS
    if _PAIR.fullmatch(text):
        data, model = map(int, text.split(","))
        if 1 <= data <= _MOST_BLOCKS and 1 <= model <= _MOST_BLOCKS:
            return data, model
    message = f"{text!r}; allowed: DATA,MODEL, blocks of either, from 1 to {_MOST_BLOCKS:,}"
    raise SpecError(Problem(file="--blocks", message=message))


def shape_change(
    text: str,
    blocks: tuple[int, int],
    cost: EpochCost,
    hosts: Sequence[str],
    kind_N: IntArray,
    works_K: BoolArray,
    items: Mapping[str, int],
    server_bytes: Mapping[str, int],
) -> ShapeChange:
    """Plan the way from a stated shape to another: Cruise, 3.3.1.

    In the stated one, of each kind of hosts the first ones work and the last ones serve, and data
    and model lie evenly on them, one block more on hosts that keep their role. Then workers have
    blocks by the items, and servers by the bytes, that their kind has in the other shape; a host
    with neither is deleted.

    Parameters
    ----------
    text
        ``W,S``: numbers of working and serving hosts; with several kinds ``W+W,S+S``, a number a
        kind.
    hosts, kind_N, works_K
        All hosts of the cluster, the kind of each, by first hosts, and the kinds that can work.
    items, server_bytes
        The new shape: the items that each host works on, and the bytes it holds.

    Raises
    ------
    SpecError
        If the text is wrong, or more hosts are stated than there are, or can work.
    """
    before = _stated_roles(text, hosts, kind_N, works_K)
    after: list[Holder | None] = [
        "worker" if items.get(host) else "server" if server_bytes.get(host) else None
        for host in hosts
    ]
    plan = reconfiguration(
        before, after, _held(blocks[0], "worker", before, after),
        _held(blocks[1], "server", before, after), data_share_N=_shares(hosts, kind_N, items),
        model_share_N=_shares(hosts, kind_N, server_bytes),
    )  # fmt: skip
    size = {
        "worker": None if cost.data_bytes is None else Fraction(cost.data_bytes, blocks[0]),
        "server": Fraction(cost.model_bytes, blocks[1]),
    }
    return ShapeChange(
        workers=tuple(host for host, role in zip(hosts, before, strict=True) if role == "worker"),
        servers=tuple(host for host, role in zip(hosts, before, strict=True) if role == "server"),
        data_blocks=blocks[0],
        model_blocks=blocks[1],
        steps=tuple(_step(one, hosts, size[one.role]) for one in plan),
        stages=tuple(map(tuple, stages(plan))),
    )


def _step(one: Operation, hosts: Sequence[str], block_bytes: Fraction | None) -> ChangeStep:
    """Return an operation with names of hosts and with bytes."""
    return ChangeStep(
        kind=one.kind, host=hosts[one.machine], role=one.role,
        target=hosts[one.target] if one.kind == "move" else "", blocks=one.blocks,
        size_bytes=None if block_bytes is None else round(one.blocks * block_bytes),
        after=one.after,
    )  # fmt: skip


def _stated_roles(
    text: str, hosts: Sequence[str], kind_N: IntArray, works_K: BoolArray
) -> list[Holder | None]:
    """Return the role of each host in the shape that ``--from`` states."""
    of_kind = [
        [at for at, mine in enumerate(kind_N.tolist()) if mine == kind]
        for kind in range(int(kind_N.max()) + 1)
    ]
    form = ",".join(["+".join(side * len(of_kind)) for side in "WS"])
    names = ", ".join(f"{len(mine)} as {hosts[mine[0]]}" for mine in of_kind)
    if not _COUNTS.fullmatch(text):
        _refuse(text, f"allowed: {form}, how many hosts work and how many serve")
    works, serves = ([int(one) for one in side.split("+")] for side in text.split(","))
    if not len(works) == len(serves) == len(of_kind):
        _refuse(text, f"allowed: {form}, a number for each kind of hosts: {names}")
    if not (sum(works) and sum(serves)):
        _refuse(text, "allowed: a host that works and another that serves, or more")
    before: list[Holder | None] = [None] * len(hosts)
    for mine, working, serving, can in zip(of_kind, works, serves, works_K.tolist(), strict=True):
        if working and not can:
            _refuse(text, f"hosts as {hosts[mine[0]]} have no device to work on; allowed: 0")
        if working + serving > len(mine):
            _refuse(text, f"allowed: as many hosts of a kind as there are: {names}")
        for at in mine[:working]:
            before[at] = "worker"
        for at in mine[len(mine) - serving :]:
            before[at] = "server"
    return before


def _refuse(text: str, message: str) -> NoReturn:
    raise SpecError(Problem(file="--from", message=f"{text!r}; {message}"))


def _held(
    blocks: int, role: Holder, before: Sequence[Holder | None], after: Sequence[Holder | None]
) -> list[int]:
    """Lay blocks evenly on hosts of a role, one more on those that keep it."""
    holders = [at for at, one in enumerate(before) if one == role]
    each, more = divmod(blocks, len(holders))
    first = set(sorted(holders, key=lambda at: after[at] != role)[:more])
    return [each + (at in first) if one == role else 0 for at, one in enumerate(before)]


def _shares(
    hosts: Sequence[str], kind_N: IntArray, parts: Mapping[str, int]
) -> list[int | Fraction]:
    """Return the mean share of hosts of each kind, over those that have something."""
    kinds = kind_N.tolist()
    some: dict[int, list[int]] = {}
    for kind, host in zip(kinds, hosts, strict=True):
        if parts.get(host):
            some.setdefault(kind, []).append(parts[host])
    mean = {kind: Fraction(sum(mine), len(mine)) for kind, mine in some.items()}
    return [mean[kind] if parts.get(host) else 0 for kind, host in zip(kinds, hosts, strict=True)]
