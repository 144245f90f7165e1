"""The host of each process of a run: this machine for all, or the hosts of a testbed."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from warren.live.process.specs import Role, ServerRole
from warren.live.testbed.namespaces import HERE, HostNamespace, places
from warren.live.transport.host_identity import HostIdentity
from warren.live.transport.tls import SECRET_BYTES
from warren.model.cluster import Cluster

AnyRole = TypeVar("AnyRole", bound=Role)


class HostPlacement:
    """The hosts of a cluster, in its order, and which of them each role is on.

    Parameters
    ----------
    places_H : sequence of HostNamespace
        The namespaces of each host.
    host_of_device : sequence of int
        The host of each device; empty where there is one host.
    agents : bool
        Whether hosts are taken for machines of their own, each with an agent and a folder.
    """

    def __init__(
        self,
        places_H: Sequence[HostNamespace],
        host_of_device: Sequence[int] = (),
        *,
        agents: bool = False,
    ) -> None:
        self.places_H, self.agents = tuple(places_H), agents
        self._host_of_device = tuple(host_of_device)
        self._secret = secrets.token_bytes(SECRET_BYTES)

    def of(self, role: Role) -> int:
        """Return the host of a role: its device's, if it has one; a server's role names its own."""
        if len(self.places_H) == 1:
            return 0
        # Executors, trainers and ranks have a device; other roles, except servers, are on host 0.
        device: int | None = getattr(role, "device", None)
        if device is not None:
            return self._host_of_device[device]
        if isinstance(role, ServerRole):
            return role.homes[role.part]
        return 0

    def with_identity(self, role: AnyRole) -> AnyRole:
        """Return the role as its process gets it: with the identity of its host, if it has that
        field.

        With one host the role is unchanged.
        """
        if hasattr(role, "identity") and (len(self.places_H) > 1 or self.agents):
            role = msgspec.structs.replace(role, identity=self.identity(self.of(role)))
        return role

    def identity(self, host: int) -> HostIdentity:
        """Return the identity that the processes of a host show to others."""
        return HostIdentity(host, self.places_H[host].address, self._secret, self.agents)

    @property
    def quotas(self) -> tuple[str, ...]:
        """The cgroups that limit processors of hosts."""
        return tuple(place.cgroup for place in self.places_H if place.cgroup)


ALONE: Final = HostPlacement((HERE,))
"""One host, which is this machine."""


def _address_towards(other: str) -> str:
    """Return the address of this machine from which another one is reached; nothing is sent."""
    host, _, port = other.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.connect((host, int(port)))
        return str(end.getsockname()[0])


def placement_of(cluster: Cluster) -> HostPlacement:
    """Return the placement of processes on a cluster, whose file may name a testbed.

    Raises
    ------
    If that testbed is not up, or lacks a host of the cluster.
        If that testbed is not up, or lacks a host of the cluster.
    OSError
        If no network route leads to the Ray cluster.
    """
    if cluster.local.testbed is None and cluster.ray is None:
        return ALONE
    names = [host.name for host in cluster.hosts]
    of_device = [names.index(device.host) for device in cluster.devices]
    if cluster.local.testbed is not None:
        here = places(cluster.local.testbed, names)
    else:
        # Agents know the addresses of their hosts; here is where the controller is reached.
        assert cluster.ray is not None
        here = (HostNamespace(address=_address_towards(cluster.ray)), *[HERE] * (len(names) - 1))
    return HostPlacement(here, of_device, agents=cluster.lease_ns is not None)
