"""When jobs start: 80 % intervals of the service on replayed weeks of real traces.

Jobs of a trace go through the queue and the scheduler of the service in played time. Each job that
does not start at once gets a forecast when it is submitted, by three methods:

- *Slurm's rule*: every job takes its time limit, one play of the queue, no interval;
- *limits alone*: each length up to the limit is equally likely;
- *history*: what the service does, with the ended jobs of the queue.

The last two are corrected by their own past errors, as in the service. The program compares each
forecast with what came. Rules of run lengths are judged on the tuning week alone (``--tune`` does
no more than that). The record of errors begins a week before it, and the reported week comes after
it.

The Philly table has no users, names, limits or waiting times. A user is a virtual cluster, and a
name says the number of GPUs. A limit is made: the run time times a factor that is the user's habit
(1, 2, 4 or 8), rounded up to a usual class. Jobs run at most as long as the longest class. Jobs of
more GPUs than a host has are left out.

    python experiments/start_times.py [--part philly] [--tune]
"""

from __future__ import annotations

import contextlib
import math
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

import _common
from _parts import Make, ask, make_parts
from _service_replay import SEED, WORLDS, Replay, World, asked_of, ns_of

from warren.model.units import NS_PER_S
from warren.serve.forecast.forward import play_forward
from warren.serve.forecast.remaining import by_limits
from warren.serve.forecast.run_lengths import RULES, LengthRules, RunLengths, lengths_of
from warren.serve.forecast.when import Outlook, outlook
from warren.serve.queue.forecasts import ForecastRecord, corrected
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, AttemptBegun, Foreseen, JobEnded
from warren.serve.records.forecasts import Spread
from warren.serve.records.jobs import ServiceJob
from warren.serve.schedule.decide import Order

WEEK_S: Final = 7 * 86_400.0
WEEKS: Final = ("filling", "tuning", "reported")
CANDIDATES: Final = tuple(
    LengthRules(shrink, newest, shares)
    for shrink, newest, shares in product((1.0, 5.0, 20.0), (50, 200), (True, False))
)
"""Rules of run lengths that the tuning week judges."""
SHARES: Final = (0.1, 0.5, 0.9)


@dataclass(slots=True)
class Forecast:
    """What a method said of a job, raw and as it is shown, and what came; in seconds from then."""

    week: str
    raw: Outlook
    start: Spread
    end: Spread
    at_ns: int
    start_s: float | None = None
    end_s: float | None = None


@dataclass(slots=True)
class Method:
    """A way to forecast, with its own record of errors."""

    name: str
    look: Callable[[Queue, ServiceJob, int, Order], Outlook | None]
    record: ForecastRecord = field(default_factory=ForecastRecord)
    found: dict[str, Forecast] = field(default_factory=dict)
    none: int = 0
    took_s: float = 0.0

    def foresee(self, replay: Replay, job: ServiceJob, week: str) -> None:
        """Make a forecast of a job that waits."""
        begun_s = time.perf_counter()
        raw = self.look(replay.queue, job, replay.now_ns, replay.order)
        self.took_s += time.perf_counter() - begun_s
        if raw is None:
            self.none += 1
            return
        by = [one.correction(replay.now_ns) for one in (self.record.starts, self.record.ends)]
        self.record.note(
            Foreseen(
                time_ns=replay.now_ns, job=job.id, start=raw.start, end=raw.end,
                start_by=by[0], end_by=by[1],
            )
        )  # fmt: skip
        shown = [corrected(one, how) for one, how in zip(raw, by, strict=True)]
        start, end = shown
        self.found[job.id] = Forecast(week, raw, start, end, replay.now_ns)

    def see(self, event: AnyEvent) -> None:
        """Note what came."""
        forecast = self.found.get(getattr(event, "job", ""))
        if forecast is None:
            return
        if isinstance(event, AttemptBegun):
            forecast.start_s = (event.time_ns - forecast.at_ns) / NS_PER_S
            self.record.starts.came(event.job, event.time_ns)
        elif isinstance(event, JobEnded):
            forecast.end_s = (event.time_ns - forecast.at_ns) / NS_PER_S
            self.record.ended(event.job, event.time_ns)


def slurm(queue: Queue, job: ServiceJob, now_ns: int, order: Order) -> Outlook | None:
    """Slurm's rule: one play in which all jobs run for as long as they may."""
    found = play_forward(queue, now_ns, order, by_limits).get(job.id)
    if found is None or found.begin_ns is None or found.end_ns is None:
        return None
    start_s, end_s = ((one - now_ns) / NS_PER_S for one in (found.begin_ns, found.end_ns))
    return Outlook(Spread(start_s, start_s, start_s), Spread(end_s, end_s, end_s))


def limits_alone(queue: Queue, job: ServiceJob, now_ns: int, order: Order) -> Outlook | None:
    """Lengths up to the limit are equally likely."""
    return outlook(queue, job, now_ns, order, RunLengths(()))


def history(queue: Queue, job: ServiceJob, now_ns: int, order: Order) -> Outlook | None:
    """What the service does."""
    return outlook(queue, job, now_ns, order, lengths_of(queue))


def make(world: World) -> Make:
    """Replay a world, and judge its forecasts."""
    return lambda scratch: _made(world)


class Sample:
    """One replay: what the methods said, and how many jobs came and waited in each week."""

    def __init__(self, world: World, sample: int) -> None:
        self.world = world
        self.jobs, self.left_out = asked_of(world, sample)
        self.methods = [
            Method("Slurm's rule", slurm),
            Method("limits alone", limits_alone),
            Method("history", history),
        ]
        self.waited: Counter[str] = Counter()
        self.most_waiting = 0

    def run(self) -> None:
        """Replay until all that was foreseen has come."""
        replay = Replay(self.world, self.jobs)
        replay.seen += [one.see for one in self.methods]
        for job in replay.steps():
            week = _week(self.world, replay.now_ns)
            if week == "after" and all(map(_is_known, self.methods)):
                return
            if job is None or week not in WEEKS:
                continue
            self.waited[week] += 1
            self.most_waiting = max(self.most_waiting, len(replay.queue.waiting))
            if self.waited[week] % self.world.every == 0:
                for method in self.methods:
                    method.foresee(replay, job, week)
                print(f"  {week}: {self.waited[week]} waited", end="\r", flush=True)


def _made(world: World) -> dict[str, Any]:
    samples = []
    with contextlib.suppress(KeyboardInterrupt):  # the samples until then are saved
        for number in range(world.samples):
            sample = Sample(world, number)
            sample.run()
            samples.append(sample)
            _common.table([list(map(_common.short, row)) for row in _lines(samples)])
    by_name = [list(same) for same in zip(*(one.methods for one in samples), strict=True)]
    all_jobs = [job for one in samples for job in one.jobs]
    return {
        "rows": _rows(samples),
        "losses": losses(world, range(len(samples))),
        "rules": RULES._asdict(), "gpus": world.hosts * world.gpus, "order": world.order,
        "tuning": world.tuning, "keep": world.keep, "samples": len(samples),
        "left_out": sum((one.left_out for one in samples), Counter[str]()),
        "most_waiting": max(one.most_waiting for one in samples),
        "submitted": Counter(_week(world, one.at_ns) for one in all_jobs),
        "waited": sum((one.waited for one in samples), Counter[str]()),
        "forecast_s": {
            same[0].name: statistics.mean(one.took_s for one in same)
            / max(1, statistics.mean(len(one.found) for one in same))
            for same in by_name
        },
        "without": {same[0].name: sum(one.none for one in same) for same in by_name},
    }  # fmt: skip


def _rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    by_name = [list(same) for same in zip(*(one.methods for one in samples), strict=True)]
    return [judged(same[0].name, week, same) for week in WEEKS for same in by_name]


def _lines(samples: Sequence[Sample]) -> Iterator[Sequence[object]]:
    for row in _rows(samples):
        for what in ("start", "end"):
            if what in row:
                yield (row["week"], row["place"], row["forecasts"], what, *row[what].values())


def _is_known(method: Method) -> bool:
    return all(one.end_s is not None for one in method.found.values())


def judged(name: str, week: str, methods: Sequence[Method]) -> dict[str, Any]:
    """How good the forecasts of a week were."""
    row: dict[str, Any] = {"place": name, "week": week}
    for what in ("start", "end"):
        outcomes = [
            (getattr(one, what), getattr(one.raw, what), actual)
            for method in methods
            for one in method.found.values()
            if one.week == week and (actual := getattr(one, f"{what}_s")) is not None
        ]
        row["forecasts"] = len(outcomes)
        if not outcomes:
            continue
        row[what] = {
            "inside": _inside([(shown, came) for shown, _, came in outcomes]),
            "inside_raw": _inside([(raw, came) for _, raw, came in outcomes]),
            "median_error_s": _error([(shown.expected_s, came) for shown, _, came in outcomes]),
            "median_error_raw_s": _error([(raw.expected_s, came) for _, raw, came in outcomes]),
            "median_width_s": statistics.median(one.high_s - one.low_s for one, _, _ in outcomes),
            "median_actual_s": statistics.median(came for _, _, came in outcomes),
        }
    return row


def _inside(pairs: Sequence[tuple[Spread, float]]) -> float:
    return sum(one.low_s <= came <= one.high_s for one, came in pairs) / len(pairs)


def _error(pairs: Sequence[tuple[float, float]]) -> float:
    return statistics.median(abs(said - came) for said, came in pairs)


def losses(world: World, samples: Iterable[int]) -> list[dict[str, Any]]:
    """How well each candidate foresees the lengths of jobs of the tuning week, the best first.

    The loss is the pinball loss of the 10, 50 and 90 % quantiles of the logarithm of the length.
    """
    sums = dict.fromkeys(CANDIDATES, 0.0)
    number = 0
    for sample in samples:
        replay = Replay(world, asked_of(world, sample)[0])
        for job in replay.steps():
            week = _week(world, replay.now_ns)
            if week in ("reported", "after"):
                break
            if job is None or week != "tuning":
                continue
            number += 1
            for rules in CANDIDATES:
                left = lengths_of(replay.queue, rules).remaining(job)
                sums[rules] += sum(
                    _pinball(left.quantile(share), replay.run_s(job), share) for share in SHARES
                )
    found = [{**rules._asdict(), "loss": one / max(1, number)} for rules, one in sums.items()]
    return sorted(found, key=lambda one: one["loss"])


def _pinball(said_s: float, came_s: float, share: float) -> float:
    over = math.log(came_s) - math.log(max(1.0, said_s))
    return share * over if over > 0 else (share - 1) * over


def _week(world: World, at_ns: int) -> str:
    weeks = 1 + (at_ns - ns_of(world.tuning)) / NS_PER_S / WEEK_S
    return "before" if weeks < 0 else (*WEEKS, "after")[min(3, int(weeks))]


def _cannot(part: str) -> str:
    path = _common.DATA / WORLDS[part].file
    return "" if path.is_file() else f"no trace at {path} (set WARREN_DATA)"


def main() -> None:
    """Replay each world, or judge the rules of run lengths alone."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if begun in the background
    tune = "--tune" in sys.argv
    if tune:
        sys.argv.remove("--tune")
    asked = ask(__doc__, list(WORLDS))
    if tune:
        for part in asked.parts:
            if not _cannot(part):
                _common.table([
                    [part, *map(_common.short, one.values())]
                    for one in losses(WORLDS[part], range(WORLDS[part].samples))
                ])  # fmt: skip
        return
    worlds = {name: make(world) for name, world in WORLDS.items()}
    make_parts("start_times", asked, worlds, seed=SEED, stated={}, cannot=_cannot)


if __name__ == "__main__":
    main()
