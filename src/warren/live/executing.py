"""The process of an executor."""

from __future__ import annotations

from warren.live.executor import Executor
from warren.live.processes import direct_output, pin_to_core, set_name, wake_precisely
from warren.live.roles import ExecutorRole, Role


def main(role: Role, lifeline: int) -> None:
    """Serve one device until the zygote is gone."""
    assert isinstance(role, ExecutorRole)
    set_name(f"warren-exec-{role.device}")
    wake_precisely()
    pin_to_core(role.core)
    direct_output(role.log)
    Executor(role, lifeline).serve()
