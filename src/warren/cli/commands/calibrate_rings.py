"""``warren calibrate --rings``: rings exchange at once, and a network is fitted to their rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.cli.streams import answer, answers_alone, print_json, say
from warren.model.errors import Problem, SpecError
from warren.store.files import write_atomic

if TYPE_CHECKING:
    from warren.runs.calibration.ring_network_file import RingCalibration

_PICTURES: Final = (".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True)
class RingCalibrationOptions:
    """The options of ``warren calibrate --rings`` as typed.

    ``others``: options that were given and belong to other calibrations.
    """

    local: bool
    testbed: str | None
    quick: bool
    plot: str | None
    out: str | None
    others: Sequence[str]


@answers_alone()
def calibrate_rings_command(asked: RingCalibrationOptions, json_: bool) -> None:
    """Measure how rings slow each other, fit a network, and write it and its picture."""
    import yaml

    # Imported here: help on ``warren calibrate`` needs nothing of what measures rings.
    from warren.runs.calibration.ring_measurement import calibrate_rings
    from warren.runs.calibration.ring_network_file import network_yaml

    _check(asked)
    found, facts = calibrate_rings(asked.testbed, quick=asked.quick)
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
    """Refuse options that do not go together, before minutes of measuring."""

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


def _lines(found: RingCalibration) -> list[str]:
    """Return the fitted constants and how far off they are, a line a reading of SJF-BCO."""
    from warren.runs.calibration.ring_network_file import shares

    lines = []
    # Rounds that were left out of a fit tell its error best; too few rounds leave none out.
    # 8e-6: from bytes a second to Mbit/s.
    for reading, fit in found.fits.items():
        one, of = fit.network, "rounds left out"
        error = shares(fit.left_out_N)
        if not error:
            error, of = shares(fit.error_N), "the rounds it was fitted to"
        lines.append(
            f"{reading}: xi1 {one.xi1:.3g}, alpha {one.alpha:.3g}, xi2 {1e3 * one.xi2_s:.3g} ms, "
            f"b^e {8e-6 * one.outer_bytes_per_s:.4g} Mbit/s; error of {of}: mean "
            f"{100 * error['mean']:.1f} %, largest {100 * error['largest']:.1f} %"
        )
    # The better fit is first, and the file has that one.
    lines[0] += " (stored)"
    return lines
