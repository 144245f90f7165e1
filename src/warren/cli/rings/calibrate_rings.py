"""``warren calibrate --rings``: rings exchange at once, and a network is fitted to their rounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warren.cli.streams import say
from warren.cli.views.pictures import KINDS
from warren.cli.views.yaml_answer import answer_yaml
from warren.model.errors import Problem, SpecError

if TYPE_CHECKING:
    from warren.runs.calibration.ring_network_file import RingCalibration


def calibrate_rings_command(
    local: bool, testbed: str | None, quick: bool, plot: str | None, out: str | None, json_: bool
) -> None:
    """Measure how rings slow each other, fit a network, and write it and its picture."""
    # Imported here: help on ``warren calibrate`` needs no code that measures rings.
    from warren.runs.calibration.ring_measurement import calibrate_rings
    from warren.runs.calibration.ring_network_file import network_yaml

    _check(local, testbed, plot, out)
    found, facts = calibrate_rings(testbed, quick=quick)
    answer_yaml(network_yaml(found, facts), out, json_)
    if plot is not None:
        from warren.cli.rings.ring_plot import draw_rings

        draw_rings(Path(plot), found)
        say(f"drawn: {plot}")
    for line in _lines(found):
        say(line)


def _check(local: bool, testbed: str | None, plot: str | None, out: str | None) -> None:
    """Refuse options that do not go together, before minutes of measuring."""

    def wrong(field: str, message: str) -> SpecError:
        return SpecError(Problem(file="calibrate", field=field, message=message))

    if local == (testbed is not None):
        which = "both are given" if local else "neither is given"
        raise wrong("--rings", f"needs either --testbed NAME or --local; {which}")
    if plot is not None and Path(plot).suffix not in KINDS:
        raise wrong("--plot", f"{plot!r} is no picture; allowed: {', '.join(KINDS)}")
    for path in (out, plot):
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
