"""A Ray cluster over the hosts of a testbed: a node in each, called as the host."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from warren.live.extras import need
from warren.live.own_programs import own_program
from warren.live.testbed.names import namespace
from warren.model.errors import EngineError
from warren.model.testbed import Bed

_PORT: Final = 6379
_STORE_BYTES: Final = 80_000_000
"""Size of each node's object store, the least that Ray takes: Warren puts nothing into it."""
_WITHIN_S: Final = 60.0


def check_ray() -> None:
    """Refuse where Ray is not installed.

    Raises
    ------
    SpecError
        If it is not.
    """
    need("ray")


def ray_folder(name: str) -> Path:
    """Return the folder that Ray's nodes of a testbed work in."""
    return Path(tempfile.gettempdir(), f"warren-ray-{name}")


def start_ray(bed: Bed) -> str:
    """Start a node in each host, the head in the first; return the cluster's address.

    They end with the testbed, as all processes in its hosts do.

    Raises
    ------
    EngineError
        If a node does not come up; the message quotes Ray.
    """
    shutil.rmtree(ray_folder(bed.name), ignore_errors=True)
    address = f"{bed.address(0)}:{_PORT}"
    for index in range(len(bed.hosts)):
        start_node(bed, index, address)
    return address


def start_node(bed: Bed, index: int, address: str) -> None:
    """Start the node of one host; see ``start_ray``."""
    role = [f"--address={address}"]
    if not index:
        folder = f"--temp-dir={ray_folder(bed.name)}"
        role = ["--head", f"--port={_PORT}", folder, "--include-dashboard=false"]
    command = [
        "ip", "netns", "exec", namespace(bed.name, index),
        *own_program("ray.scripts.scripts", "start"), *role,
        f"--node-ip-address={bed.address(index)}", f"--node-name={bed.hosts[index].name}",
        "--num-cpus=1", f"--object-store-memory={_STORE_BYTES}", "--disable-usage-stats",
    ]  # fmt: skip
    # The user's variables for another cluster must not reach this one.
    own = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    done = subprocess.run(
        command, env=own, capture_output=True, text=True, timeout=_WITHIN_S, check=False
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise EngineError(f"testbed: Ray in {bed.hosts[index].name}: {' '.join(last)}")
