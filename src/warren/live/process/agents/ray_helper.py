"""The one process of a run that talks to Ray: it keeps an actor running on each node.

It is started as ``python -m warren.live.process.agents.ray_helper`` and reads a ``RayPlan`` as a
line of JSON from its standard input. The end of that input ends the helper and the actors. It
prints a line of JSON for each fact that the controller needs. The controller itself stays away from
Ray, which aborts drivers that have lost it for a minute.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from warren.live.process.agents.ray_node_agent import NodeAgent
from warren.live.process.linux import set_name
from warren.live.testbed.namespaces import HERE, HostNamespace, enter_network

_LOOK_S: Final = 0.5
_STOP_S: Final = 10.0
_NAMESPACE: Final = "warren"
"""The namespace of actors in Ray."""


class RayPlan(msgspec.Struct, frozen=True):
    """The input of the helper.

    Attributes
    ----------
    address
        The address of the Ray cluster.
    nodes_H
        The names of the hosts.
    specs_H
        The specifications of their agents; see ``AgentSpec``.
    log
        The file that agents print to.
    gpus_H
        The numbers of GPUs that the devices of the hosts need.
    place
        The network from which Ray is reached, and this process's address there, if hosts are those
        of a testbed.
    """

    address: str
    nodes_H: tuple[str, ...]
    specs_H: tuple[str, ...]
    log: str
    gpus_H: tuple[int, ...]
    place: HostNamespace = HERE


def main() -> None:
    """Serve until standard input ends."""
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=RayPlan)
    set_name("warren-ray")
    os.chdir("/")  # Ray lets its workers import from the folder that this process is in
    enter_network(plan.place)
    try:
        ray: Any = importlib.import_module("ray")
        own = {"_node_ip_address": plan.place.address} if plan.place.address else {}
        ray.init(
            address=plan.address,
            namespace=_NAMESPACE,
            log_to_driver=False,
            configure_logging=False,
            **own,
        )
    except Exception as error:
        say("problem", f"Ray at {plan.address}: {type(error).__name__}: {error}")
        sys.exit(1)
    actors = NodeActors(plan, ray)
    try:
        while not select.select([sys.stdin], [], [], _LOOK_S)[0]:
            actors.look()
    finally:
        actors.stop()


def say(what: str, text: str) -> None:
    """Print a line for the controller; text of others has line breaks."""
    print(json.dumps({"what": what, "text": " ".join(text.split())[:500]}), flush=True)


def nodes_of(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> dict[str, str]:
    """Return the id of the living node that each host is.

    A node is called by its name (``ray start --node-name``), its label ``warren/host``, its host
    name or its address, whichever says so first.
    """
    found: dict[str, str] = {}
    alive = [row for row in rows if row["Alive"]]
    for name in names:
        for key in ("NodeName", "label", "NodeManagerHostname", "NodeManagerAddress"):
            ids = [str(row["NodeID"]) for row in alive if _called(row, key) == name]
            if len(ids) == 1:
                found.setdefault(name, ids[0])
    return found


def lacking(
    rows: Iterable[Mapping[str, Any]], nodes: Mapping[str, str], plan: RayPlan
) -> list[str]:
    """Name the hosts whose node has fewer GPUs in Ray than their devices need."""
    has = {str(row["NodeID"]): int((row.get("Resources") or {}).get("GPU", 0)) for row in rows}
    return [
        f"the node of {name} has {has[nodes[name]]} GPUs in Ray, and its devices need {gpus}"
        for name, gpus in zip(plan.nodes_H, plan.gpus_H, strict=True)
        if name in nodes and has[nodes[name]] < gpus
    ]


def _called(row: Mapping[str, Any], key: str) -> object:
    return (row.get("Labels") or {}).get("warren/host") if key == "label" else row.get(key)


class NodeActors:
    """The actors, one a host: made on the host's node, and made again when the node comes back."""

    def __init__(self, plan: RayPlan, ray: Any) -> None:
        self._plan, self._ray = plan, ray
        self._actor_type = ray.remote(num_cpus=0, max_restarts=-1)(NodeAgent)
        # By host: its node, the actor there, and the last request to it.
        self._at: dict[int, tuple[str, Any, Any]] = {}
        # Of the last look: hosts without a node, and what nodes lack.
        self._missing: tuple[set[str], list[str]] = set(), []

    def look(self) -> None:
        """Make sure that each host whose node is alive has its agent."""
        try:
            rows = self._ray.nodes()
            nodes = nodes_of(rows, self._plan.nodes_H)
        except Exception as error:  # Ray is away; running processes go on without it
            say("problem", f"Ray: {error}")
            return
        missing = {name for name in self._plan.nodes_H if name not in nodes}
        few = lacking(rows, nodes, self._plan)
        if (missing, few) != self._missing:
            self._missing = missing, few
            unknown = f"no node of Ray is called {', '.join(sorted(missing))}" if missing else ""
            say("problem", "; ".join(filter(None, (unknown, *few))))
        for host, name in enumerate(self._plan.nodes_H):
            if name in nodes:
                try:
                    self._see_to(host, nodes[name])
                except Exception as error:  # of this host alone; it is tried again
                    say("problem", f"{name}: {error}")

    def stop(self) -> None:
        """End all agents, and the actors."""
        with contextlib.suppress(Exception):
            asked = [actor.stop.remote() for _, actor, _ in self._at.values()]
            if asked:
                self._ray.wait(asked, num_returns=len(asked), timeout=_STOP_S)
        for _, actor, _ in self._at.values():
            with contextlib.suppress(Exception):
                self._ray.kill(actor, no_restart=True)

    def _see_to(self, host: int, node: str) -> None:
        at, actor, asked = self._at.get(host, ("", None, None))
        if at == node and self._ray.wait([asked], timeout=0)[0]:
            try:
                pid = self._ray.get(asked)
            except Exception as error:
                say("problem", f"{self._plan.nodes_H[host]}: {error}")
                at = ""
            else:
                say("agent", f"{host} {pid}")
                # An actor that Ray has started again knows nothing.
                asked = self._run(host, actor) if pid < 0 else actor.look.remote()
                self._at[host] = at, actor, asked
                return
        if at != node:
            if actor is not None:
                self._ray.kill(actor, no_restart=True)
            actor = self._made(host, node)
            self._at[host] = node, actor, self._run(host, actor)

    def _run(self, host: int, actor: Any) -> Any:
        return actor.run.remote(self._plan.specs_H[host], self._plan.log)

    def _made(self, host: int, node: str) -> Any:
        """Make an actor on a node, and nowhere else. It has the GPUs of its host's devices in Ray.

        It has no name and ends with this process: then no other controller finds it in its way.
        """
        if gpus := self._plan.gpus_H[host]:
            # Until then Ray says nothing: the agent's start is the answer.
            say("problem", f"{self._plan.nodes_H[host]} waits for {gpus} free GPUs of Ray's")
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        strategy = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        return self._actor_type.options(num_gpus=gpus, scheduling_strategy=strategy).remote()


if __name__ == "__main__":
    main()
