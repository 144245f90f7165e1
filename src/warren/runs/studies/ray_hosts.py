"""A cluster file of the nodes of a Ray cluster."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from warren.live.extras import need
from warren.live.gpu.discovery import ANY
from warren.live.process.agents.ray_discovery import RayNode, ray_nodes
from warren.live.testbed.namespaces import HERE, place_of
from warren.live.testbed.status import one_standing
from warren.model.cluster import PROCESSOR
from warren.model.errors import EngineError, Problem, SpecError

_TYPE: Final = re.compile(r"[A-Za-z0-9._-]{1,80}")
"""The form of a device type."""


def ray_hosts(address: str, testbed: str | None = None) -> str:
    """Return the text of a cluster file whose hosts are the nodes of a Ray cluster.

    Parameters
    ----------
    address
        Where its head is: ``HOST:PORT``.
    testbed
        The testbed that it is in; None: none.

    Raises
    ------
    SpecError
        If that is no address, Ray is not installed, or the testbed is not up.
    EngineError
        If Ray cannot be asked.
    """
    if not re.fullmatch(r"[^\s:]+:\d{1,5}", address):
        message = f"{address!r} is no HOST:PORT, such as 10.0.0.1:6379"
        raise SpecError(Problem(file="hosts", field="ADDRESS", message=message))
    need("ray")
    place = HERE if testbed is None else place_of(one_standing(testbed), 0)
    return cluster_yaml(address, ray_nodes(address, place), testbed)


def cluster_yaml(address: str, nodes: Sequence[RayNode], testbed: str | None = None) -> str:
    """Return a cluster file. A node whose devices are not listed is named in a comment.

    Where nodes have GPUs, these are the devices, by the name that Ray knows. Processors are then in
    comments alone: they compute other bits, so most jobs are kept to one of the two.

    Raises EngineError if no node has devices for tasks.
    """
    lines = ["format: 1", f"engine: {{ray: '{address}'}}"]
    lines += [f"local: {{testbed: {_quoted(testbed)}}}"] if testbed is not None else []
    lines += ["hosts:"]
    gpus = any(node.gpus for node in nodes)
    if not gpus and not any(node.cpus for node in nodes):
        raise EngineError(f"Ray at {address}: no node has processors or GPUs for tasks")
    names = Counter(node.name for node in nodes)
    for node in nodes:
        # Two nodes of one name are distinguished by their addresses.
        name = _quoted(node.name if names[node.name] == 1 else node.address)
        tenths = int(node.memory_bytes / 1e8)
        memory = f", memory: {tenths / 10} GB" if tenths else ""
        kind = _quoted(node.gpu_type) if _TYPE.fullmatch(node.gpu_type) else ANY
        devices = f"{kind}: {node.gpus}" if gpus else f"{PROCESSOR}: {node.cpus}"
        if node.gpus if gpus else node.cpus:
            lines.append(f"  - {{name: {name}, devices: {{{devices}}}{memory}}}")
        elif node.cpus:
            lines.append(
                f"  # {name} has no GPU; {{{PROCESSOR}: {node.cpus}}} would compute other bits"
            )
        else:
            lines.append(f"  # {name} has no {'GPU' if gpus else 'processors'} for tasks")
    return "\n".join([*lines, ""])


def _quoted(name: str) -> str:
    """Return a name quoted so that YAML always reads it as a text."""
    return name if re.fullmatch(r"[A-Za-z]+[-_]?\d+", name) else json.dumps(name)
