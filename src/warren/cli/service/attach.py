"""``warren attach``: a shell with the devices of a running job."""

from __future__ import annotations

from warren.cli.service.declare import SERVER, Argument, command
from warren.serve.client.address import refused


@command(
    Argument("job", "ID", "Id of a running job of yours on this machine."),
    SERVER,
    examples=("warren attach 12",),
)
def attach(*, job: str, server: str | None) -> int:
    """Open a shell with the devices of a running job."""
    raise refused("attach: not written yet")
