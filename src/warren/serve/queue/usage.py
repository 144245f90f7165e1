"""Device time that users have had, by type of device; it fades with a half-life."""

from __future__ import annotations

from copy import copy
from typing import Final

from warren.model.units import NS_PER_S

HALF_LIFE_S: Final = 7 * 86400.0
"""Time after which a device second counts half, in seconds of the clock."""


class _Meter:
    """Device seconds of one user on one type of device up to ``time_ns``."""

    __slots__ = ("devices", "seconds", "time_ns")

    def __init__(self, time_ns: int) -> None:
        self.devices = 0
        self.seconds = 0.0
        self.time_ns = time_ns


class DeviceUsage:
    """Device seconds by user and type, each of which counts half after a half-life.

    Parameters
    ----------
    half_life_s
        Seconds after which a device second counts half.
    """

    def __init__(self, half_life_s: float = HALF_LIFE_S) -> None:
        self._half_life_s = half_life_s
        self._meters: dict[str, dict[str, _Meter]] = {}

    def change(self, user: str, device_type: str, devices: int, time_ns: int) -> None:
        """Note that a user has ``devices`` of a type more from now on; below 0: fewer."""
        meters = self._meters.setdefault(user, {})
        meter = meters.get(device_type)
        if meter is None:
            meter = meters[device_type] = _Meter(time_ns)
        meter.seconds = self._seconds(meter, time_ns)
        meter.time_ns = max(time_ns, meter.time_ns)
        meter.devices += devices

    def copied(self) -> DeviceUsage:
        """Return the same device time, which changes apart from this one."""
        other = DeviceUsage(self._half_life_s)
        other._meters = {
            user: {kind: copy(meter) for kind, meter in meters.items()}
            for user, meters in self._meters.items()
        }
        return other

    def of(self, user: str, time_ns: int) -> dict[str, float]:
        """Return what a user's device seconds count at a time, by type of device."""
        meters = self._meters.get(user, {})
        return {kind: self._seconds(meter, time_ns) for kind, meter in meters.items()}

    def _seconds(self, meter: _Meter, time_ns: int) -> float:
        """Count what the devices held since the last change have added, each moment faded."""
        halves = max(0, time_ns - meter.time_ns) / NS_PER_S / self._half_life_s
        left: float = 2.0**-halves
        held = meter.devices * (1 - left) * self._half_life_s / _LN2
        return meter.seconds * left + held


_LN2: Final = 0.6931471805599453
