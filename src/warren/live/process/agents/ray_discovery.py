"""The nodes of a Ray cluster, their names and resources, as a separate process finds them.

It is started as ``python -m warren.live.process.agents.ray_discovery`` and reads a line of JSON
with the address and the network to look from. It prints one line: the nodes, or the error.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from warren.live.own_programs import own_program
from warren.live.testbed.namespaces import HERE, HostNamespace, enter_network
from warren.model.errors import EngineError

_WITHIN_S: Final = 60.0
_GPU_LABEL: Final = "ray.io/accelerator-type"
_GPU_RESOURCE: Final = "accelerator_type:"


class RayNode(msgspec.Struct, frozen=True):
    """A node that is alive.

    Attributes
    ----------
    name
        The node's name: ``ray start --node-name``, by default its address.
    cpus, gpus, memory_bytes
        The resources that Ray may use.
    gpu_type
        The type of its GPUs; empty: unknown.
    """

    name: str
    address: str
    cpus: int
    gpus: int
    gpu_type: str
    memory_bytes: int


class _Asked(msgspec.Struct):
    address: str
    place: HostNamespace = HERE


class _Found(msgspec.Struct):
    nodes: tuple[RayNode, ...] = ()
    problem: str = ""


def ray_nodes(address: str, place: HostNamespace = HERE) -> tuple[RayNode, ...]:
    """Return the living nodes of a Ray cluster, by name.

    Parameters
    ----------
    address
        Where its head is: ``HOST:PORT``.
    place
        The network from which it is reached.

    Raises
    ------
    EngineError
        If Ray cannot be asked; the message quotes Ray.
    """
    command = own_program("warren.live.process.agents.ray_discovery")
    asked = msgspec.json.encode(_Asked(address, place)) + b"\n"
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, timeout=_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"Ray at {address}: no answer in {_WITHIN_S:g} s") from None
    lines = done.stdout.splitlines()
    try:
        found = msgspec.json.decode(lines[-1] if lines else b"", type=_Found)
    except msgspec.DecodeError:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise EngineError(f"Ray at {address}: {' '.join(last) or 'it says nothing'}") from None
    if found.problem:
        raise EngineError(f"Ray at {address}: {found.problem}")
    return found.nodes


def node_of(row: Mapping[str, Any]) -> RayNode:
    """Return a node as Ray's table of nodes has it."""
    has, labels = row.get("Resources") or {}, row.get("Labels") or {}
    named = [key.removeprefix(_GPU_RESOURCE) for key in has if key.startswith(_GPU_RESOURCE)]
    return RayNode(
        name=str(row.get("NodeName") or row["NodeManagerAddress"]),
        address=str(row["NodeManagerAddress"]),
        cpus=int(has.get("CPU", 0)),
        gpus=int(has.get("GPU", 0)),
        gpu_type=str(labels.get(_GPU_LABEL) or next(iter(sorted(named)), "")),
        memory_bytes=int(has.get("memory", 0)),
    )


def main() -> None:
    """Look for the nodes, and print the result."""
    asked = msgspec.json.decode(sys.stdin.buffer.readline(), type=_Asked)
    os.chdir("/")  # Ray lets its workers import from the folder that this process is in
    enter_network(asked.place)
    try:
        ray: Any = importlib.import_module("ray")
        own = {"_node_ip_address": asked.place.address} if asked.place.address else {}
        ray.init(address=asked.address, log_to_driver=False, configure_logging=False, **own)
        rows = [node_of(row) for row in ray.nodes() if row["Alive"]]
        found = _Found(nodes=tuple(sorted(rows, key=lambda node: (node.name, node.address))))
    except Exception as error:
        found = _Found(problem=" ".join(f"{type(error).__name__}: {error}".split())[:500])
    print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    main()
