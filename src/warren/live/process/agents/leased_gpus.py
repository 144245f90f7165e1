"""The controller's record of the GPUs that agents have found for the devices of their hosts. Pure.

All GPUs that a device ever is are of one numerics class, and so are those of hosts that may come
later and those of hosts that are there, type by type.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from warren.live.gpu.discovery import Gpu
from warren.model.cluster import Device
from warren.model.errors import EngineError, Problem, SpecError


class LeasedGpus:
    """The GPUs of a run on hosts with leases.

    Parameters
    ----------
    names_H
        The names of the hosts.
    devices
        The devices that are to be GPUs.
    optional
        The hosts that need not be there.
    """

    def __init__(
        self, names_H: Sequence[str], devices: Sequence[Device], optional: Collection[int]
    ) -> None:
        self._names_H, self._devices, self._optional = names_H, devices, optional
        self._gpus: dict[int, Gpu] = {}
        # Hosts whose GPUs must not compute, and why.
        self._unfit: dict[int, str] = {}

    def found(self, host: int, gpus: Mapping[int, Gpu], problem: str) -> bool:
        """Note the GPUs that a host's agent has found; True: it had them before, and lacks them.

        Raises
        ------
        SpecError
            A host that has to be there lacks GPUs that it never had.
        """
        mine = [one for one in self._devices if one.host == self._names_H[host]]
        if not problem and {one.index for one in mine} != gpus.keys():
            problem = "its agent speaks of other devices"
        if problem:
            if host not in self._optional and not all(one.index in self._gpus for one in mine):
                message = f"host {self._names_H[host]}: {problem}"
                raise SpecError(Problem(file="cluster", field="devices", message=message))
            self._unfit[host] = problem
            return True
        self._unfit.pop(host, None)
        for one in mine:
            known = self._classes(one, host)
            if known and gpus[one.index].numerics not in known:
                self._unfit[host] = (
                    f"device {one.name} computes on '{gpus[one.index].numerics}', not on "
                    f"'{' or '.join(known)}'"
                )
                return False
        self._gpus |= gpus
        return False

    def fits(self, host: int) -> bool:
        """Tell whether processes may be forked on a host.

        Raises
        ------
        EngineError
            Its GPUs are of another class than before, and it has to be there.
        """
        if host in self._unfit and host not in self._optional:
            raise EngineError(f"host {self._names_H[host]}: {self._unfit[host]}")
        return host not in self._unfit

    def of(self, device: int) -> Gpu:
        """Return the GPU that a device is at present; its host is there."""
        return self._gpus[device]

    def of_devices(self) -> dict[int, Gpu]:
        """Return the GPU of each device; one whose host is not there yet has one of its type.

        Raises
        ------
        SpecError
            No host that is there has a GPU of such a type.
        """
        found = dict(self._gpus)
        for one in self._devices:
            if one.index not in found:
                found[one.index] = self._alike(one)
        return found

    def _classes(self, device: Device, host: int) -> list[str]:
        """Return the numerics classes that the GPU of a device may have; empty: any."""
        if device.index in self._gpus:
            return [self._gpus[device.index].numerics]
        if host not in self._optional:
            return []
        same = [one.index for one in self._devices if one.type == device.type]
        return sorted({self._gpus[index].numerics for index in same if index in self._gpus})

    def _alike(self, device: Device) -> Gpu:
        for one in self._devices:
            if one.type == device.type and one.index in self._gpus:
                return self._gpus[one.index]
        message = (
            f"host {device.host} may be away, and no host that is there has a GPU of type "
            f"{device.type}, so its numerics class is not known; allowed: such a GPU on a host "
            "that stays, or start the run when this host is there"
        )
        raise SpecError(Problem(file="cluster", field="devices", message=message))
