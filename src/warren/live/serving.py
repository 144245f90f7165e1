"""The process of a parameter server: starts one, and says why when it cannot go on."""

from __future__ import annotations

import traceback

import zmq

from warren.live.memory_limit import enter
from warren.live.messages import JobBroke
from warren.live.processes import direct_output, own_temporary_folder, set_name, wait_for_end
from warren.live.roles import Role, ServerRole
from warren.live.server import Server
from warren.live.trainer import one_line
from warren.live.transport import Link, controller_address
from warren.model.errors import SpecError


def main(role: Role, lifeline: int) -> None:
    """Serve one job until the zygote is gone."""
    assert isinstance(role, ServerRole)
    set_name(f"warren-serve-{role.job.index}")
    enter(role.memory)
    direct_output(role.log)
    own_temporary_folder(role.tmp)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    control = Link(context, controller_address(role.folder))
    try:
        Server(role, lifeline, context, control).serve()
    except BaseException as error:  # user code may raise anything, SystemExit too
        traceback.print_exc()
        control.send(JobBroke(role.job.index, _reason(error)))
        wait_for_end(lifeline)


def _reason(error: BaseException) -> str:
    if isinstance(error, SpecError):
        return one_line(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot write {error.filename}: {error.strerror}"
    return f"app failed in its server: {one_line(error)}"
