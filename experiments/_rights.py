"""Whether this machine lets an experiment make testbeds, and has the commands that it needs."""

from __future__ import annotations

import shutil

from warren.live.testbed.cpu_quota import quota_home
from warren.live.testbed.iproute import check_usable
from warren.model.errors import SpecError


def cannot(*commands: str) -> str:
    """Why a testbed cannot be made, or which of these commands is missing; empty if all is well."""
    try:
        check_usable()
    except SpecError as error:
        return str(error)
    missing = [one for one in commands if shutil.which(one) is None]
    return f"needs the command {missing[0]}" if missing else ""


def no_quota() -> str:
    """Why hosts of a testbed cannot have a quota of processors; empty if they can."""
    try:
        quota_home()
    except SpecError as error:
        return str(error)
    return ""
