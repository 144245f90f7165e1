"""How many devices more a user may hold, by the quotas of the user, of groups, and of everybody."""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.serve.queue.state import Queue

UNLIMITED: Final = 2**62
"""Room where no quota is set, in devices."""


class QuotaKey(NamedTuple):
    """A quota as it meets one user: ``each`` has become that user."""

    subject: str
    type: str


class QuotaRoom:
    """Room under all quotas, with the devices that a decision has given away so far.

    Parameters
    ----------
    queue
        The queue, which stays as it is meanwhile.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._used: dict[QuotaKey, int] = {}
        self._keys: dict[tuple[str, str], tuple[QuotaKey, ...]] = {}
        self._limits: dict[QuotaKey, int] = {}
        self._closed: dict[QuotaKey, str] = {}

    def keys(self, user: str, device_type: str) -> tuple[QuotaKey, ...]:
        """Return the quotas that a user's devices of a type count for.

        A quota of the user takes the place of one for each user on the same type.
        """
        if not self._queue.quotas:
            return ()
        keys = self._keys.get((user, device_type))
        if keys is None:
            keys = self._keys[user, device_type] = tuple(self._found(user, device_type))
        return keys

    def _found(self, user: str, device_type: str) -> list[QuotaKey]:
        quotas = self._queue.quotas
        found = []
        for kind in (device_type, self._queue.types[device_type].kind, "any"):
            own = quotas.get((f"user:{user}", kind)) or quotas.get(("each", kind))
            if own is not None:
                key = QuotaKey(f"user:{user}", kind)
                self._limits[key] = own.devices
                found.append(key)
            for group in self._queue.user(user).groups:
                quota = quotas.get((f"group:{group}", kind))
                if quota is not None:
                    key = QuotaKey(f"group:{group}", kind)
                    self._limits[key] = quota.devices
                    found.append(key)
        return found

    def limit(self, key: QuotaKey) -> int:
        """Return the devices that a quota allows."""
        return self._limits[key]

    def used(self, key: QuotaKey) -> int:
        """Return the devices that count for a quota now."""
        used = self._used.get(key)
        if used is None:
            users = self.members(key)
            used = sum(self._queue.holds.get(user, {}).get(key.type, 0) for user in users)
            self._used[key] = used
        return used

    def members(self, key: QuotaKey) -> list[str]:
        """Return the users that a quota counts."""
        kind, _, name = key.subject.partition(":")
        if kind == "user":
            return [name]
        return [user.name for user in self._queue.users.values() if name in user.groups]

    def full(self, user: str, device_type: str, devices: int) -> QuotaKey | None:
        """Return a quota under which a user may not have these devices more; None if all allow."""
        for key in self.keys(user, device_type):
            if key in self._closed or self.used(key) + devices > self._limits[key]:
                return key
        return None

    def take(self, user: str, device_type: str, devices: int) -> None:
        """Count devices that a job of a user is given."""
        for key in self.keys(user, device_type):
            self._used[key] = self.used(key) + devices

    def close(self, key: QuotaKey, job: str) -> None:
        """Keep what is left under a quota for a job."""
        self._closed.setdefault(key, job)

    def never(self, user: str, device_type: str, devices: int) -> QuotaKey | None:
        """Return a quota under which a user may never have these devices at once."""
        keys = self.keys(user, device_type)
        return next((key for key in keys if devices > self._limits[key]), None)

    def kept_for(self, key: QuotaKey) -> str | None:
        """Return the job for which the room of a quota is kept."""
        return self._closed.get(key)
