"""The input of an agent."""

from __future__ import annotations

import msgspec

from warren.live.process.leases.timing import LeaseTiming
from warren.live.testbed.namespaces import HERE, HostNamespace
from warren.model.cluster import Device


class WantedGpus(msgspec.Struct, frozen=True):
    """The devices of a host that are to be GPUs of its machine.

    Attributes
    ----------
    devices
        The devices, as the cluster numbers and names them.
    run
        The run's folder, which claims show to other runs.
    claims
        The folder of claims on the machine; empty: nothing is claimed.
    share
        Whether the run goes on although other runs have some of its GPUs.
    """

    devices: tuple[Device, ...] = ()
    run: str = ""
    claims: str = ""
    share: bool = False


class AgentSpec(msgspec.Struct, frozen=True):
    """The input of an agent.

    Attributes
    ----------
    host
        Its host's number among the cluster's.
    controller, port
        The address and port at which the controller listens.
    secret
        The secret of the run, in hexadecimal digits.
    folder
        The agent's private folder.
    lock
        The name of the host's lock, in the temporary folder of its machine.
    place
        The network and the quota of the host, if it is one of a testbed.
    timing
        The times of the run's leases.
    gpus
        The devices that are to be GPUs.
    memory_bytes
        Most memory of one process that runs user code; None: not limited.
    """

    host: int
    controller: str
    port: int
    secret: str
    folder: str
    lock: str
    timing: LeaseTiming
    place: HostNamespace = HERE
    gpus: WantedGpus = WantedGpus()
    memory_bytes: int | None = None
