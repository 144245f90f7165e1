"""The journal: the single record of a run, as bytes. Writing them is the caller's business.

A journal is a magic line and then frames ``[length u32][crc32 u32][payload]`` (little endian),
each payload one msgpack record. The same seed gives the same bytes in simulation.
``warren.core.journal_reader`` reads them back.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import fields
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from warren.model.costs import CostTable, IntArray
from warren.model.decision import Assignment, Decision, Group, Plan, Shape
from warren.model.events import AnyEvent
from warren.model.job import Job
from warren.model.link_use import LinkUse
from warren.model.run import Run
from warren.model.timeline import PlanOutcome, Timeline

MAGIC: Final = b"warren journal 1\n"
FRAME: Final = struct.Struct("<II")
"""The prefix of a payload: its length and its checksum."""


class Header(msgspec.Struct, frozen=True, tag="Header", array_like=True):
    """First record: the names behind the indices in the other records.

    ``inputs``: a hash of a live run's inputs, ``numerics``: the numerics class it computes in; both
    are empty elsewhere.
    """

    run: str
    world: str
    place: str
    grain: str
    seed: int
    jobs: tuple[str, ...]
    devices: tuple[str, ...]
    inputs: str = ""
    numerics: str = ""


class PinnedHeader(Header, frozen=True, tag="PinnedHeader", array_like=True):
    """The header of a live run: ``app_sha256`` is, for each job, the hash of its app's text."""

    app_sha256: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, tag="Step", array_like=True):
    """Events of one instant and the decision on them (assignments, (job, reason), wake)."""

    events: tuple[AnyEvent, ...]
    assign: tuple[Assignment, ...] = ()
    reasons: tuple[tuple[int, int], ...] = ()
    wake_ns: int | None = None


class CopyStep(Step, frozen=True, tag="CopyStep", array_like=True):
    """A step after which tasks under way were started once more: ``copy``, after ``assign``."""

    copy: tuple[Assignment, ...] = ()


class AnswersStep(CopyStep, frozen=True, tag="AnswersStep", array_like=True):
    """A step at which shape, group or flow were answered too, or several policies ask to be woken.

    ``shapes`` by job, ``classes`` as (job, class), ``host_classes`` as (host, job, class);
    ``groups`` are all there are from now on, None: no change. ``later_wakes_ns``: wake-ups after
    ``wake_ns``.
    """

    shapes: tuple[tuple[int, Shape], ...] = ()
    groups: tuple[Group, ...] | None = None
    classes: tuple[tuple[int, int], ...] = ()
    host_classes: tuple[tuple[int, int, int], ...] = ()
    later_wakes_ns: tuple[int, ...] = ()

    @property
    def answers(self) -> Decision:
        """Return the answers to shape, group and flow, as a policy gives them."""
        return Decision(
            shapes=dict(self.shapes),
            groups=self.groups,
            classes=dict(self.classes),
            host_classes={(host, job): kind for host, job, kind in self.host_classes},
        )


class DelayStep(AnswersStep, frozen=True, tag="DelayStep", array_like=True):
    """A step at which flow delayed rounds: ``delays_ns`` as (job, ns), beside all other answers."""

    delays_ns: tuple[tuple[int, int], ...] = ()

    @property
    def answers(self) -> Decision:
        """Return the answers to shape, group and flow, as a policy gives them."""
        return msgspec.structs.replace(super().answers, delays_ns=dict(self.delays_ns))


class PlanAdopted(msgspec.Struct, frozen=True, tag="PlanAdopted", array_like=True):
    """The policy returned a whole plan; columns as zlib-compressed little-endian int64."""

    columns: tuple[bytes, ...]


class PlanRun(msgspec.Struct, frozen=True, tag="PlanRun", array_like=True):
    """A plan ran in compiled code: timeline columns in field order, and finish times."""

    columns: tuple[bytes, ...]
    finish: bytes


class Resumed(msgspec.Struct, frozen=True, tag="Resumed", array_like=True):
    """A run that had been cut off goes on from here, at the time that it had reached."""

    time_ns: int


class PinnedResumed(Resumed, frozen=True, tag="PinnedResumed", array_like=True):
    """A run goes on with these texts of its apps, which may be others than it had."""

    app_sha256: tuple[str, ...] = ()


class JobsAdded(msgspec.Struct, frozen=True, tag="JobsAdded", array_like=True):
    """Jobs have come that the run did not know; their indices go on where those before end.

    ``costs``: the columns of their ``CostTable`` in field order, row after row; None: not stated.
    """

    jobs: tuple[Job, ...]
    costs: tuple[tuple[int, ...] | None, ...]


class LinksUsed(msgspec.Struct, frozen=True, tag="LinksUsed", array_like=True):
    """Last record of a run with counted bytes: the bytes that passed each link over time.

    ``columns``: those of ``LinkUse`` in field order, packed as those of a plan; ``since_ns``: when
    counting began.
    """

    bin_ns: int
    since_ns: int
    columns: tuple[bytes, ...]


Record: TypeAlias = (
    Header
    | PinnedHeader
    | Step
    | CopyStep
    | AnswersStep
    | DelayStep
    | PlanAdopted
    | PlanRun
    | Resumed
    | PinnedResumed
    | JobsAdded
    | LinksUsed
)

_NOTHING_BESIDE: Final = ((), None, (), (), ())
"""The fields of ``AnswersStep`` after ``copy`` where place alone is answered."""
_ENCODER: Final = msgspec.msgpack.Encoder()


def opening(run: Run, world: str, place: str, inputs: str = "", numerics: str = "") -> Header:
    """Make the first record of a run's journal, with the hashes of its apps if it trains them."""
    header = Header(
        run=run.name,
        world=world,
        place=place,
        grain=run.grain.text,
        seed=run.seed,
        jobs=tuple(job.name for job in run.workload.jobs),
        devices=tuple(device.name for device in run.cluster.devices),
        inputs=inputs,
        numerics=numerics,
    )
    if run.sources is None:
        return header
    return PinnedHeader(**msgspec.structs.asdict(header), app_sha256=run.app_sha256_J)


def going_on(run: Run, time_ns: int) -> Resumed:
    """Make the record of a run that goes on at ``time_ns``."""
    if run.sources is None:
        return Resumed(time_ns)
    return PinnedResumed(time_ns, run.app_sha256_J)


def step_of(
    events: tuple[AnyEvent, ...], decision: Decision, later_wakes_ns: tuple[int, ...] = ()
) -> Step:
    """Make the record of one instant: its events, and the decision on them except for a plan."""
    assign, wake_ns = decision.assign, decision.wake_ns
    reasons = tuple([(job, int(reason)) for job, reason in decision.reasons.items()])
    beside = (
        tuple(decision.shapes.items()),
        decision.groups,
        tuple(decision.classes.items()),
        tuple([(*key, kind) for key, kind in decision.host_classes.items()]),
        later_wakes_ns,
    )
    if decision.delays_ns:
        delays_ns = tuple(decision.delays_ns.items())
        return DelayStep(events, assign, reasons, wake_ns, (), *beside, delays_ns)
    # If place alone is answered, the record is the plain one, whatever else could be asked.
    if beside == _NOTHING_BESIDE:
        return Step(events, assign, reasons, wake_ns)
    return AnswersStep(events, assign, reasons, wake_ns, (), *beside)


def encode(record: Record) -> bytes:
    """Return a record as one frame: length and checksum, then the msgpack payload."""
    payload = _ENCODER.encode(record)
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def pack_column(column: IntArray) -> bytes:
    """Return an int64 column as compressed bytes of its differences.

    Differences of sorted times are small, and compress well.
    """
    # The first value stays unchanged; ``unpack_column`` adds everything up again. Level 1 of zlib.
    delta = np.array(column, dtype="<i8")
    np.subtract(column[1:], column[:-1], out=delta[1:])
    return zlib.compress(delta.data if len(delta) else b"", 1)


def unpack_column(data: bytes) -> IntArray:
    """Return the column that ``pack_column`` made these bytes of."""
    delta = np.frombuffer(zlib.decompress(data), dtype="<i8")
    return np.cumsum(delta, dtype=np.int64)


def adopted(plan: Plan) -> PlanAdopted:
    """Make the record of a plan."""
    return PlanAdopted(tuple(pack_column(getattr(plan, field.name)) for field in fields(Plan)))


def adopted_plan(record: PlanAdopted) -> Plan:
    """Return the plan that a record holds."""
    names = [field.name for field in fields(Plan)]
    return Plan(**dict(zip(names, map(unpack_column, record.columns), strict=True)))


def plan_run(outcome: PlanOutcome) -> PlanRun:
    """Make the record of a plan's outcome."""
    timeline = outcome.timeline
    columns = tuple(pack_column(getattr(timeline, field.name)) for field in fields(Timeline))
    return PlanRun(columns, pack_column(outcome.finish_ns_J))


def plan_outcome(record: PlanRun) -> PlanOutcome:
    """Return the outcome of a plan that a record holds."""
    timeline = Timeline.from_columns(map(unpack_column, record.columns))
    return PlanOutcome(timeline=timeline, finish_ns_J=unpack_column(record.finish))


def jobs_added(jobs: tuple[Job, ...], costs: CostTable) -> JobsAdded:
    """Make the record of jobs that have come, with their costs."""
    columns = (getattr(costs, field.name) for field in fields(CostTable))
    return JobsAdded(
        jobs,
        tuple(None if one is None else tuple(one.ravel().astype(int).tolist()) for one in columns),
    )


def added_costs(record: JobsAdded) -> CostTable:
    """Return the costs of the jobs of a record."""
    columns: dict[str, Any] = {}
    for field, column in zip(fields(CostTable), record.costs, strict=True):
        if column is not None:
            shape = (len(record.jobs), -1) if field.name.endswith("_JT") else (-1,)
            kind = np.bool_ if field.name == "fits_JT" else np.int64
            columns[field.name] = np.array(column, dtype=kind).reshape(shape)
    return CostTable(**columns)


def links_used(use: LinkUse) -> LinksUsed:
    """Make the record of the bytes that passed the links."""
    columns = (use.link_R, use.job_R, use.class_R, use.bin_R, use.bytes_R)
    return LinksUsed(use.bin_ns, use.since_ns, tuple(map(pack_column, columns)))


def link_use(record: LinksUsed) -> LinkUse:
    """Return the use of the links that a record holds."""
    # Five columns and no other: a journal of another version must not be read.
    link_R, job_R, class_R, bin_R, bytes_R = map(unpack_column, record.columns)
    return LinkUse(record.bin_ns, link_R, job_R, class_R, bin_R, bytes_R, record.since_ns)
