"""The unit by which systemd keeps the service running."""

from __future__ import annotations

import sys
from typing import Final

_UNIT: Final = """\
[Unit]
Description=Warren: a queue for a team
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=2
# Jobs go on while the service is stopped, upgraded or started again.
KillMode=process
# The service may make a cgroup for each job.
Delegate=yes
OOMPolicy=continue
TasksMax=infinity
LimitNOFILE=65536

[Install]
WantedBy={target}
"""


def unit_text(arguments: list[str], *, user: bool) -> str:
    """Return the unit that runs ``warren`` with these arguments.

    Parameters
    ----------
    arguments
        Arguments of the command.
    user
        Whether the unit is for an account's own systemd, without root.
    """
    words = [sys.executable, "-P", "-m", "warren", *arguments]
    target = "default.target" if user else "multi-user.target"
    return _UNIT.format(command=" ".join(map(_quoted, words)), target=target)


def _quoted(word: str) -> str:
    """Return a word as systemd reads it back: ``%`` and ``$`` mean something to it."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{plain}"' if any(one in plain for one in " \t'\";") or not plain else plain
