"""The process of a parameter server: starts one, and says why when it cannot go on."""

from __future__ import annotations

import os

from warren.live.process.linux import direct_output, own_temporary_folder, set_name, wait_for_end
from warren.live.process.specs import JobStateRole, Role, ServerRole
from warren.live.server.server import Server
from warren.live.training.app.app_errors import print_traceback, reason_of
from warren.live.transport.messages import AnyMessage, CannotWrite, JobBroke
from warren.live.transport.sockets import link_to_controller
from warren.model.errors import InputDataError, SpecError


def main(role: Role, lifeline: int) -> None:
    """Serve one job until the zygote is gone."""
    assert isinstance(role, ServerRole)
    set_name(f"warren-serve-{role.job.index}")
    direct_output(role.log)
    own_temporary_folder(role.tmp)
    control = link_to_controller(role.folder, role.identity)
    try:
        if role.trainer is None:
            serve_alone(Server(role, lifeline, control), lifeline)
        else:
            # Its code is loaded only where it is used.
            from warren.live.server.device_process import serve

            serve(lambda: Server(role, lifeline, control), role.trainer, lifeline)
    except BaseException as error:  # user code may raise anything, SystemExit too
        print_traceback(error)
        control.send(last_words(role, "its server", error))
        wait_for_end(lifeline)


def serve_alone(server: Server, lifeline: int) -> None:
    """Take messages and make rounds until the zygote closes the lifeline."""
    server.listen()
    while True:
        ready = server.poller.poll(server.timeout_ms())
        if lifeline in ready:
            return
        server.turn(ready)
        server.end_if_cut_off()


def last_words(role: JobStateRole, where: str, error: BaseException) -> AnyMessage:
    """Return the last message of a process to the controller before it ends by an error.

    A job fails by its own doing; a disk that refuses Warren's own files ends the run.

    Parameters
    ----------
    role
        The process.
    where
        Its name in the message, such as ``its server``.
    error
        The error that was raised.
    """
    job = role.job.index
    heir = role.generation if isinstance(role, ServerRole) and role.donors else -1
    if isinstance(error, SpecError | InputDataError):
        return JobBroke(job, reason_of(error), heir)
    # Any other error may come from the app, which may use files too: only files of the run count.
    # Its attributes are its arguments, which may be anything.
    if isinstance(error, OSError) and isinstance(error.errno, int):
        path = error.filename
        if isinstance(path, str) and path.startswith((role.store, role.params)):
            return CannotWrite(error.errno, os.strerror(error.errno), path)
    return JobBroke(job, f"app failed in {where}: {reason_of(error)}", heir)
