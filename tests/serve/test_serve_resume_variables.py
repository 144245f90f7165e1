"""The variables of commands that come back, and of those that take Warren for Slurm."""

from __future__ import annotations

from typing import Any

from warren.serve.daemon.orders import start_order
from warren.serve.records.jobs import Attempt, CommandSpec, Resume, ServiceJob


def variables(
    number: int = 1, job: str = "12", devices: tuple[str, ...] = ("GPU-a",), **spec: Any
) -> dict[str, str]:
    wanted = CommandSpec(**{"command": ("true",), "folder": "/w", "resume": Resume(), **spec})
    array = job.partition("_")[0] if "_" in job else None
    made = ServiceJob(id=job, order=0, user="ana", spec=wanted, submitted_ns=5, array=array)
    return start_order(made, Attempt(number, "h1", devices, 0), None).environment


def test_torchrun_hands_the_signal_on_and_waits_as_long_as_the_grace() -> None:
    found = variables(resume=Resume(signal="USR1", grace_s=300.0))
    assert found["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "300"
    signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
    assert found["TORCHELASTIC_SIGNALS_TO_HANDLE"] == signals
    assert found["PET_SIGNALS_TO_HANDLE"] == signals
    assert variables()["PET_SIGNALS_TO_HANDLE"] == "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


def test_no_variable_says_that_a_launcher_has_started_the_command() -> None:
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & set(variables())


def test_a_run_of_weights_and_biases_is_the_same_over_attempts_and_of_one_job_alone() -> None:
    first, second = variables(1), variables(2)
    assert first["WANDB_RUN_ID"] == second["WANDB_RUN_ID"]
    assert first["WANDB_RUN_ID"] != variables(job="13")["WANDB_RUN_ID"]
    assert first["WANDB_RESUME"] == "allow"
    assert ("WARREN_RESUME" in first, second["WARREN_RESUME"]) == (False, "1")


def test_what_the_user_has_set_stays() -> None:
    own = {"WANDB_RUN_ID": "mine", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "9", "WARREN_RESUME": "1"}
    found = variables(environment=own)
    assert (found["WANDB_RUN_ID"], found["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) == ("mine", "9")
    assert "WARREN_RESUME" not in found  # it is of the job in which this one was submitted


def test_checkpoints_on_shared_storage_have_a_folder_of_the_job() -> None:
    shared = Resume(checkpoints="/nfs/runs/")
    assert variables(resume=shared)["WARREN_CHECKPOINT_DIR"] == "/nfs/runs/12"
    own = {"WARREN_CHECKPOINT_DIR": "/mine"}
    assert variables(resume=shared, environment=own)["WARREN_CHECKPOINT_DIR"] == "/mine"


def test_a_command_that_does_not_come_back_gets_nothing_more() -> None:
    names = {"WARREN_JOB_ID", "WARREN_ATTEMPT", "WARREN_ATTEMPT_ID"}
    assert set(variables(resume=None)) == names


def test_slurm_is_one_task_on_one_host_and_counts_restarts() -> None:
    slurm = Resume(compat="slurm")
    stale = {"SLURM_JOB_ID": "777", "SLURM_NTASKS": "8"}  # of the shell that submitted it
    first = variables(resume=slurm, environment=stale)
    assert (first["SLURM_JOB_ID"], first["SLURM_NTASKS"], first["SLURM_PROCID"]) == ("12", "1", "0")
    assert (first["SLURM_LOCALID"], first["SLURM_NODEID"]) == ("0", "0")
    assert (first["SLURM_JOB_NODELIST"], first["SLURM_GPUS_ON_NODE"]) == ("h1", "1")
    assert "SLURM_RESTART_COUNT" not in first
    assert "SLURM_ARRAY_JOB_ID" not in first
    assert variables(3, resume=slurm)["SLURM_RESTART_COUNT"] == "2"
    # An interactive shell of Slurm has this name, and libraries do not requeue it.
    assert first["SLURM_JOB_NAME"] not in ("bash", "interactive")


def test_a_job_of_an_array_has_a_number_of_its_own_for_slurm() -> None:
    found = [variables(job=f"12_{k}", resume=Resume(compat="slurm")) for k in (0, 1_000_000)]
    assert [one["SLURM_ARRAY_JOB_ID"] for one in found] == ["12", "12"]
    assert [one["SLURM_ARRAY_TASK_ID"] for one in found] == ["0", "1000000"]
    numbers = [int(one["SLURM_JOB_ID"]) for one in found]
    assert len({*numbers, 12, 13}) == 4
