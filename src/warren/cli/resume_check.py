"""``warren check --resume -- COMMAND``: does a command that was stopped come back exactly?"""

from __future__ import annotations

import signal as signals
from pathlib import Path
from typing import Annotated

import typer

from warren.cli.streams import answer, print_json, say
from warren.model.errors import Problem, SpecError
from warren.model.units import parse_time_s
from warren.serve.certificate.certificate import CertificateCheck
from warren.serve.certificate.report import Certificate, as_mapping

Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help=(
            "Stop and resume a command instead, and compare its last checkpoints with those of a "
            "whole run. The command stands behind --."
        ),
    ),
]
Signal = Annotated[
    str | None,
    typer.Option(
        "--signal",
        metavar="NAME",
        help="With --resume: signal that asks the command to stop. Default: TERM.",
    ),
]
Grace = Annotated[
    str | None,
    typer.Option(
        "--grace",
        metavar="TIME",
        help="With --resume: time from the signal to SIGKILL. Default: 30 s, less in a short run.",
    ),
]
Stops = Annotated[
    int | None,
    typer.Option(
        "--stops",
        metavar="N",
        min=1,
        help="With --resume: number of stops by the signal, and by SIGKILL. Default: 3 each.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="With --resume: seed of the stops. Default: 0."),
]
Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="DIR",
        help="With --resume: new folder for the checkpoints and output of all runs.",
    ),
]


def check_resume(
    command: list[str],
    *,
    signal: str | None,
    grace: str | None,
    stops: int | None,
    seed: int | None,
    keep: str | None,
    as_json: bool,
) -> None:
    """Check a command, print the verdict, and exit with 1 unless the level is ``exact``.

    Raises
    ------
    SpecError
        If an option or the command is wrong.
    typer.Exit
        If the level is another one.
    """
    found = CertificateCheck(
        command,
        signum=_signal(signal or "TERM"),
        grace_s=None if grace is None else _seconds(grace),
        stops=3 if stops is None else stops,
        seed=seed or 0,
        keep=None if keep is None else Path(keep),
        say=say,
    ).run()
    if as_json:
        print_json(as_mapping(found))
    else:
        for line in _lines(found):
            answer(line)
    if found.level != "exact":
        raise typer.Exit(1)


def _signal(name: str) -> int:
    """Return the number of a signal: ``TERM``, ``SIGUSR1`` or ``10``."""
    if name.isdigit() and int(name) in set(signals.Signals):
        return int(name)
    full = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    if full not in signals.Signals.__members__:
        message = f"no signal {name!r}; allowed: a name such as TERM, USR1, INT"
        raise SpecError(Problem(file="check", field="--signal", message=message))
    return int(signals.Signals[full])


def _seconds(text: str) -> float:
    try:
        found = parse_time_s(text)
    except ValueError as error:
        raise SpecError(Problem(file="check", field="--grace", message=str(error))) from None
    if not 0 <= found < float("inf"):
        message = f"must be 0 s or more, got {text!r}"
        raise SpecError(Problem(file="check", field="--grace", message=message))
    return found


def _lines(found: Certificate) -> list[str]:
    if found.level is None:
        head = f"no level: {found.likely_cause or 'no stop could be made'}"
    else:
        head = f"{found.level}: {_MEANING[found.level]}"
    lines = [head]
    if found.level is not None and found.likely_cause:
        lines.append(f"likely cause: {found.likely_cause}")
    if found.first_difference is not None:
        step = found.first_difference["step"]
        where = "" if step is None else f", from step {step} on"
        lines.append(f"first difference: {found.first_difference['tensor']}{where}")
    for name, kind in ((found.signal, found.by_signal), ("SIGKILL", found.by_kill)):
        if kind is not None and kind.level is not None:
            lines.append(f"by {name}: {kind.level} ({kind.stops} stops, seed {found.seed})")
    return lines


_MEANING = {
    "exact": "resumed runs end with the same bits as a whole run",
    "equal order": "resumed runs have the same batches, steps and rates, but other bits",
    "restarts": "the data order or a random stream begins again after a resume",
    "loses": "steps or state are lost or repeated by a stop",
}
