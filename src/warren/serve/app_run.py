"""The command of a job that trains apps: a run of Warren on the devices that the service gave.

``python -m warren.serve.app_run RUN.yaml [OPTIONS of warren run]`` is what ``warren submit --app``
submits. The run's folder is in ``WARREN_CHECKPOINT_DIR``, which stays the same over the attempts of
a job, so a job that is started again goes on from its checkpoints, with the same bits.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_INPUTS: Final = ("run.yaml", "profile.csv", "devices.csv", "journal")
"""Files that a run writes before it begins; with all of them it can go on."""


def main() -> None:
    """Become ``warren run``, which begins the run or goes on with it."""
    given = os.environ.get("WARREN_CHECKPOINT_DIR")
    if given is None or len(sys.argv) < 2:
        print(
            "app_run: is started by warren serve alone; see `warren submit --app`", file=sys.stderr
        )
        sys.exit(2)
    command = run_command(sys.argv[1:], Path(given), os.environ, len(os.sched_getaffinity(0)))
    os.execv(sys.executable, [sys.executable, "-P", "-m", "warren", *command])


def run_command(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], processors: int
) -> list[str]:
    """Return the arguments of ``warren`` for an attempt.

    Parameters
    ----------
    arguments
        The run file, and more options of ``warren run``; a run that goes on has them already.
    folder
        What stays of the job over its attempts.
    environment
        Of the attempt; ``CUDA_VISIBLE_DEVICES`` names its GPUs.
    processors
        How many processors it has, if it has no GPU.
    """
    run = folder / "run"
    if all((run / name).exists() for name in _INPUTS):
        return ["run", "--resume", str(run)]
    # What is there is of an attempt that was killed before it had written its inputs.
    shutil.rmtree(run, ignore_errors=True)
    gpus = [one for one in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    devices = f"cuda: {len(gpus)}" if gpus else f"CPU: {processors}"
    cluster = f"cluster={{hosts: [{{name: here, devices: {{{devices}}}}}]}}"
    return ["run", arguments[0], "--set", cluster, *arguments[1:], "--out", str(run)]


if __name__ == "__main__":
    main()
