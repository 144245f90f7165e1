"""The tasks that a server's own process computes, on the device where the server's store lies.

Their states and updates never leave the device. A round whose tasks are all of this process is
stepped as soon as they are on their way. Their losses and hashes come later, with the pushes that
the device's executor sends for them as for any other task.
"""

from __future__ import annotations

from warren.live.training.memory.device_bytes import DeviceBytes, DevicePlaces
from warren.live.training.parameter_store import ParameterStore
from warren.live.transport.server_messages import Push


class LocalTasks:
    """Places for states and updates of a store on a device, and updates that wait for their push.

    ``device``: the number of the device in its cluster. ``early``: pushes that came before their
    round began, with their senders.
    """

    def __init__(self, store: ParameterStore, device: int) -> None:
        assert store.device is not None
        self.device = device
        self.early: list[tuple[bytes, Push]] = []
        self._store = store
        self._places = DevicePlaces(store.layout, store.device)
        self._waiting: dict[tuple[int, int], tuple[bytes, DeviceBytes]] = {}

    def state(self, round_no: int) -> DeviceBytes:
        """Return the state that a round begins with."""
        return self._store.there(round_no)

    def lend(self) -> DeviceBytes:
        """Return a place for an update."""
        return self._places.lend()

    def leave(self) -> None:
        """Bring all of the job out of the device, until it is needed there again."""
        self._places.forget()
        self._store.leave(self._places.lent())

    def come_back(self) -> None:
        """Begin to bring the job back to the device, if it has left that."""
        self._store.come_back()

    def computed(self, round_no: int, shard: int, present: bytes, update: DeviceBytes) -> None:
        """Note that a task is on its way on the device."""
        self._waiting[round_no, shard] = present, update

    def add_all(self) -> None:
        """Add the tasks of the round in progress to the store."""
        store = self._store
        for (round_no, shard), (present, update) in list(self._waiting.items()):
            if round_no == store.version and not store.finished:
                store.results.add_ahead(shard, present, update)
            if round_no <= store.version:
                del self._waiting[round_no, shard]

    def confirm(self, push: Push) -> bool:
        """Take loss and hashes of a task whose update is added already.

        False: its round is over, or has not begun.
        """
        self.add_all()
        if push.round not in (self._store.version, self._store.version - 1):
            return False
        self._store.results.confirm(push.round, push.shard, push.loss, push.marks)
        return True

    def take_early(self) -> list[tuple[bytes, Push]]:
        """Remove the pushes that came before their round began, and return them."""
        early, self.early = self.early, []
        return early

    def waits(self, round_no: int, shard: int) -> bool:
        """Tell whether a task that was computed here is still to be confirmed by its push."""
        return (round_no, shard) in self._waiting or self._store.results.waits(round_no, shard)

    def open(self, round_no: int) -> bool:
        """Tell whether tasks of a round may be computed before they are asked for.

        Its state must be there, and no evaluation before it may change that or end the job.
        """
        store = self._store
        return round_no == store.version and store.goes_on
