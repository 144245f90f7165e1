"""A child that trains one job with the plain loop, for ``engine: plain``."""

from __future__ import annotations

import faulthandler
import time

import torch

from warren.apps.protocol import TorchApp
from warren.live.oracle.plain import train
from warren.live.process.linux import direct_output, own_temporary_folder, set_name, wait_for_end
from warren.live.process.specs import PlainRole, Role
from warren.live.training import numerics
from warren.live.training.app.app_errors import print_traceback, reason_of
from warren.live.training.app.app_loader import build_app
from warren.live.training.weight_average import safetensors_of, write_params
from warren.live.transport.messages import JobBroke, PlainDone
from warren.live.transport.sockets import Link, controller_address
from warren.model.errors import SpecError


def main(role: Role, lifeline: int) -> None:
    """Train the job, save its parameters, and tell the controller how it went."""
    assert isinstance(role, PlainRole)
    set_name(f"warren-plain-{role.job.index}")
    direct_output(role.log)
    own_temporary_folder(role.tmp)
    faulthandler.enable()  # a crash in a library leaves a traceback in the log
    control = Link(controller_address(role.folder))
    try:
        control.send(_train(role))
    except BaseException as error:  # user code may raise anything, SystemExit too
        print_traceback(error)
        control.send(JobBroke(role.job.index, f"app failed: {reason_of(error)}"))
    wait_for_end(lifeline)


def _app_of_tasks(role: PlainRole) -> TorchApp:
    """Return an app of a second module: tasks have globals and classes of their own, as elsewhere.

    A module that cannot be loaded twice, since it registers something, is the same one.
    """
    try:
        return build_app(role.job, role.base, copy=True)
    except SpecError:
        return build_app(role.job, role.base)


def _train(role: PlainRole) -> PlainDone:
    """Train the job and write its parameters; return the report for the controller."""
    start_ns = time.monotonic_ns()
    app = build_app(role.job, role.base)
    tasks = _app_of_tasks(role)
    device = None if role.gpu is None else torch.device("cuda", role.gpu)
    numerics.pin()  # the app's module may have changed any setting
    result = train(app, role.job, tasks, device)
    end_ns = time.monotonic_ns()
    write_params(role.params, safetensors_of(result.state_dict), result.averaged_state_dict)
    return PlainDone(
        job=role.job.index,
        rounds=result.rounds,
        losses=list(result.losses),
        metrics=[(done, dict(values)) for done, values in result.metrics.items()],
        start_ns=start_ns,
        end_ns=end_ns,
        sha256=result.digest,
    )
