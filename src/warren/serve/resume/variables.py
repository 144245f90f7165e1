"""Variables of commands that can stop and come back. Pure.

RANK, LOCAL_RANK and WORLD_SIZE are not among them: libraries take them for the word of a launcher,
and start no processes of their own then. ``torchrun`` sets them for the processes it starts.
"""

from __future__ import annotations

import hashlib
from typing import Final

from warren.serve.records.jobs import Attempt, Resume, ServiceJob

_TORCHRUN_SIGNALS: Final = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
"""Signals that ``torchrun`` hands on to its processes without a word."""
_INDICES: Final = 10_000_000
"""Numbers of jobs that Slurm's id of an array leaves for its jobs."""


def resume_variables(job: ServiceJob, attempt: Attempt) -> dict[str, str]:
    """Return the environment of an attempt without the names of job and attempt.

    What the user has set himself stays, but variables of Slurm: those of the shell that submitted
    the job would name another job.
    """
    spec, resume = job.spec, job.spec.resume
    if resume is None:
        return dict(spec.environment)
    found = {**_of_libraries(job, resume), **spec.environment}
    if resume.checkpoints:
        found.setdefault("WARREN_CHECKPOINT_DIR", f"{resume.checkpoints.rstrip('/')}/{job.id}")
    found["WARREN_GRACE_S"] = f"{resume.grace_s:g}"
    found.pop("WARREN_RESUME", None)
    if attempt.number > 1:
        found["WARREN_RESUME"] = "1"
    if resume.compat == "slurm":
        found = {name: value for name, value in found.items() if not name.startswith("SLURM_")}
        found |= slurm_variables(job, attempt)
    return found


def _of_libraries(job: ServiceJob, resume: Resume) -> dict[str, str]:
    """Return what ``torchrun`` and Weights & Biases need to know; the user may set others."""
    signals = dict.fromkeys((*_TORCHRUN_SIGNALS, f"SIG{resume.signal}"))
    # The number of a job begins again with each service; the time of its submission does not.
    run = hashlib.blake2b(f"{job.id} {job.submitted_ns}".encode(), digest_size=4).hexdigest()
    return {
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(1, int(resume.grace_s))),
        "TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(signals),
        # What stands for the option of ``torchrun``, which overwrites the variable above.
        "PET_SIGNALS_TO_HANDLE": ",".join(signals),
        "WANDB_RUN_ID": f"warren-{job.id}-{run}",
        "WANDB_RESUME": "allow",
    }


def slurm_variables(job: ServiceJob, attempt: Attempt) -> dict[str, str]:
    """Return the variables that Slurm would set for a job of one task on one host."""
    array, _, index = job.id.rpartition("_")
    number = f"{int(array) * _INDICES + int(index)}" if array else job.id
    gpus = sum(not device.startswith("cpu:") for device in attempt.devices)
    host = attempt.host
    found = {
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), number),
        "SLURM_JOB_NAME": job.spec.name or f"warren-{job.id}",
        "SLURM_JOB_USER": job.user,
        "SLURM_SUBMIT_DIR": job.spec.folder,
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), "1"),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"), "1"),
        **dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), "0"),
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME"), host),
        "SLURM_GPUS_ON_NODE": str(gpus),
    }
    if attempt.number > 1:
        found["SLURM_RESTART_COUNT"] = str(attempt.number - 1)
    if array:
        found |= {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": index}
    return found
