"""Putting the parts of one run together. Nothing else knows both worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from warren.cli.bounds import lower_bound
from warren.cli.files import OutputDir
from warren.cli.policies import Timed, choose
from warren.core.history import read_history
from warren.core.loop import Core, Observer
from warren.model.costs import CostTable, ProfileRow
from warren.model.run import Run
from warren.report.record import LIVE, Record

if TYPE_CHECKING:
    from warren.policy.protocol import AnyPolicy

Attend = Callable[[Core], AbstractContextManager[Observer | None]]
"""Given the core, a context that watches every step (progress bar, live table)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run, apart from what to run."""

    compiled: bool = True
    check: bool = False
    attend: Attend | None = None


@dataclass(slots=True)
class _Memory:
    """A journal kept in memory, for runs that write no folder."""

    data: bytearray = field(default_factory=bytearray)

    def journal(self, data: bytes) -> None:
        self.data += data

    def journal_bytes(self) -> bytes:
        return bytes(self.data)

    def keep(self) -> None:
        """Nothing to keep."""


def simulate(run: Run, out: OutputDir | None = None, options: Options | None = None) -> Record:
    """Run in virtual time and return the record; writes ``out`` when it is given."""
    from warren.profile.costs import cost_table
    from warren.sim.port import SimPort

    begin = perf_counter()
    measured = _measured(run)
    costs = cost_table(run, measured)
    policy = Timed(choose(run))
    port = SimPort(run, costs)
    record = _execute(run, costs, policy, port, "sim", out, options or Options(), begin)
    if out is not None:
        _export(out, record)
    return record


def run_live(run: Run, out: OutputDir, options: Options | None = None) -> Record:
    """Train for real and return the record; ``out`` is written, also after an interruption."""
    from warren.live.controller import LivePort
    from warren.live.plain_port import PlainPort
    from warren.profile.costs import cost_table

    begin = perf_counter()
    costs = cost_table(run, _measured(run))
    policy = Timed(_live_policy(run))
    plain = run.cluster.engine == "plain"
    port = PlainPort(run, out.path) if plain else LivePort(run, costs, out.path)
    with port:
        out.keep()
        record = _execute(run, costs, policy, port, LIVE, out, options or Options(), begin)
    if isinstance(port, LivePort):
        overruns = float(port.overruns.total())
        record = replace(record, extra={**record.extra, "overruns": overruns})
    _export(out, record)
    return record


def _live_policy(run: Run) -> AnyPolicy:
    if run.cluster.engine == "plain":
        from warren.policy.place.registry import place_policy

        return place_policy("plain")
    return choose(run)


def _measured(run: Run) -> Mapping[str, ProfileRow]:
    from warren.profile.costs import missing

    if not missing(run):
        return {}
    from warren.cli.measuring import measured_rows

    return measured_rows(run)


def _execute(
    run: Run,
    costs: CostTable,
    policy: Timed,
    port: object,
    world: str,
    out: OutputDir | None,
    options: Options,
    begin: float,
) -> Record:
    journal = out if out is not None else _Memory()
    core = Core(
        run=run,
        costs=costs,
        policy=policy,  # type: ignore[arg-type]
        port=port,  # type: ignore[arg-type]
        sink=journal.journal,
        world=world,
        check=options.check,
        compiled=options.compiled,
    )
    attend = options.attend(core) if options.attend else nullcontext(None)
    with attend as observe:
        core.observe = observe
        core.execute()
    journal.keep()
    history = read_history(journal.journal_bytes())
    extra = {"decide_s": policy.decide_s, "wall_s": perf_counter() - begin}
    bound = lower_bound(run, costs, history)
    return Record(run=run, history=history, costs=costs, extra=extra, bound=bound)


def _export(out: OutputDir, record: Record) -> None:
    from warren.cli.export import result_files

    out.write(result_files(record))
