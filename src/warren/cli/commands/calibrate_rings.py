"""``warren calibrate --rings``: rings exchange at once, and a network is fitted to their rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warren.cli.streams import answer, answers_alone, print_json, say
from warren.model.errors import Problem, SpecError
from warren.store.files import write_atomic

_PICTURES: Final = (".png", ".svg", ".pdf")
_BUSY: Final = 0.2
_TRIAL_BYTES: Final = 8_000_000


@dataclass(frozen=True, slots=True)
class RingCalibrationOptions:
    """The options as typed; ``others`` are those of other calibrations that were given."""

    local: bool
    testbed: str | None
    quick: bool
    plot: str | None
    out: str | None
    others: Sequence[str]


@answers_alone()
def calibrate_rings_command(asked: RingCalibrationOptions, json_: bool) -> None:
    """Measure, fit, and write what is asked for."""
    import yaml

    from warren.runs.calibration.ring_network_file import calibrated, network_yaml

    _check(asked)
    rows, facts = _measured(asked)
    found = calibrated(rows)
    text = network_yaml(found, facts)
    if asked.out is not None:
        write_atomic(Path(asked.out), text)
        say(f"written: {asked.out}")
    if asked.plot is not None:
        from warren.cli.views.ring_plot import draw_rings

        draw_rings(Path(asked.plot), found)
        say(f"drawn: {asked.plot}")
    if json_:
        print_json(yaml.safe_load(text))
    elif asked.out is None:
        answer(text.rstrip("\n"))
    for line in _lines(found):
        say(line)


def _check(asked: RingCalibrationOptions) -> None:
    def wrong(field: str, message: str) -> SpecError:
        return SpecError(Problem(file="calibrate", field=field, message=message))

    if asked.others:
        raise wrong(asked.others[0], "does not go with --rings")
    if asked.local == (asked.testbed is not None):
        which = "both are given" if asked.local else "neither is given"
        raise wrong("--rings", f"needs either --testbed NAME or --local; {which}")
    if asked.plot is not None and Path(asked.plot).suffix not in _PICTURES:
        raise wrong("--plot", f"{asked.plot!r} is no picture; allowed: {', '.join(_PICTURES)}")
    for path in (asked.out, asked.plot):
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise SpecError(Problem(file=path, message="cannot be written: no such folder"))


def _measured(asked: RingCalibrationOptions) -> tuple[list[Any], Mapping[str, str | float]]:
    """Rows, and of which machine and hosts they are."""
    from warren.live.measure.machine import busy_share, machine_facts
    from warren.live.measure.ring_rounds import ProbedRing, RingProber, bed_places, local_places
    from warren.live.testbed.link_test import GOODPUT
    from warren.live.testbed.status import one_standing
    from warren.model.testbed import checked_name
    from warren.runs.calibration.ring_rounds import measure_rings, plan

    facts: dict[str, str | float] = {}
    if asked.testbed is not None:
        record = one_standing(checked_name(asked.testbed))
        slowest_bps = min(one.link_bps for one in record.bed.hosts)
        ranks, bytes_per_s = bed_places(record), GOODPUT * slowest_bps / 8
        facts |= {"testbed": record.bed.name, "hosts": len(ranks), "queue": record.bed.queue}
        facts["link_mbit"] = slowest_bps / 1e6
    else:
        say("all ranks are on this machine and exchange over lo: processors, not links, limit them")
        ranks, bytes_per_s = local_places(4), 0.0
        facts |= {"testbed": "none; over lo", "hosts": len(ranks)}
    share = busy_share()
    if share > _BUSY:
        say(f"this machine is {100 * share:.0f} % busy with other work; times will come out long")
    facts |= {**machine_facts(""), "busy_before": round(share, 2)}
    facts.pop("numerics")
    with RingProber(ranks) as prober:
        if not bytes_per_s:
            trial = ProbedRing(hosts=(0, 1), message_bytes=_TRIAL_BYTES)
            bytes_per_s = _TRIAL_BYTES / float(prober.run([trial], 5)[0].round_s_R.mean())
        runs = plan(len(ranks), bytes_per_s, quick=asked.quick)
        return measure_rings(prober, runs, _tell), facts


def _tell(done: int, of: int, what: str) -> None:
    say(f"{done + 1} of {of}: {what}")


def _lines(found: Any) -> list[str]:
    """What was found, for people."""
    from warren.runs.calibration.ring_network_file import shares

    lines = []
    for reading, fit in found.fits.items():
        one, error = fit.network, shares(fit.left_out_N) or shares(fit.error_N)
        lines.append(
            f"{reading}: xi1 {one.xi1:.3g}, alpha {one.alpha:.3g}, xi2 {1e3 * one.xi2_s:.3g} ms, "
            f"b^e {8e-6 * one.outer_bytes_per_s:.4g} Mbit/s; error of rounds left out: mean "
            f"{100 * error['mean']:.1f} %, largest {100 * error['largest']:.1f} %"
        )
    lines[0] += " (stored)"
    return lines
