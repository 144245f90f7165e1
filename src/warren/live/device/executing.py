"""The process of an executor."""

from __future__ import annotations

from warren.live.device.executor import Executor
from warren.live.process.linux import direct_output, pin_to_core, set_name, wake_precisely
from warren.live.process.specs import ExecutorRole, Role


def main(role: Role, lifeline: int) -> None:
    """Serve one device until the zygote is gone."""
    assert isinstance(role, ExecutorRole)
    set_name(f"warren-exec-{role.device}")
    wake_precisely()
    pin_to_core(role.core)
    direct_output(role.log)
    Executor(role, lifeline).serve()
