"""What an agent has to know."""

from __future__ import annotations

import msgspec

from warren.live.process.leases.timing import LeaseTiming
from warren.live.testbed.namespaces import HERE, HostNamespace


class AgentSpec(msgspec.Struct, frozen=True):
    """What an agent has to know.

    Attributes
    ----------
    host
        Its host's number among the cluster's.
    controller, port
        Where the controller listens.
    secret
        The secret of the run, in hexadecimal digits.
    folder
        Its private folder, which nobody else has.
    lock
        The name of the host's lock, in the temporary folder of its machine.
    place
        The network and the quota of the host, where it is one of a testbed.
    timing
        The times of the run's leases.
    """

    host: int
    controller: str
    port: int
    secret: str
    folder: str
    lock: str
    timing: LeaseTiming
    place: HostNamespace = HERE
