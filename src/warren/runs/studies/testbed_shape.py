"""The testbed that a user asks for: equal hosts by options, or the hosts of a file."""

from __future__ import annotations

from dataclasses import dataclass

from warren.model.errors import Problem, SpecError
from warren.model.testbed import COMMAND, Bed
from warren.store.files import read


@dataclass(frozen=True, slots=True)
class TestbedShape:
    """A testbed as a user asks for it, by ``file`` or by all the others.

    ``hosts``: number of hosts, each behind a ``link`` of this rate (``200Mbit``), with ``cpus``
    (None: all), addresses in ``subnet`` and a ``queue`` before its link (``fair`` or ``fifo``).
    """

    hosts: int | None
    link: str | None
    cpus: float | None
    subnet: str | None
    file: str | None
    queue: str | None = None


def bed_of(shape: TestbedShape, name: str) -> Bed:
    """Return the testbed that is asked for, called ``name``.

    Raises SpecError if the file or an option is wrong, an option is given beside the file, or one
    is missing.
    """
    # Imported here: a testbed that is only looked at, or removed, has no need of files of users.
    from warren.workload.specs.testbed import equal_hosts, load_testbed

    options = {"--hosts": shape.hosts, "--link": shape.link}
    others = {**options, "--cpus": shape.cpus, "--subnet": shape.subnet, "--queue": shape.queue}
    if shape.file is not None:
        given = [option for option, value in others.items() if value is not None]
        if given:
            message = f"says it all; leave out {', '.join(given)}"
            raise SpecError(Problem(file=COMMAND, field="--file", message=message))
        return load_testbed(shape.file, read, name)
    for option, value in options.items():
        if value is None:
            message = "is missing; allowed: --hosts N --link RATE, or --file TESTBED.yaml"
            raise SpecError(Problem(file=COMMAND, field=option, message=message))
    # Neither is None here; 0 hosts and an empty rate are refused as any wrong value is.
    return equal_hosts(
        shape.hosts or 0, shape.link or "", shape.cpus, shape.subnet, name, shape.queue
    )
