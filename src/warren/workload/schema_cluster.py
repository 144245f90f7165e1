"""What a cluster file may say."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from warren.workload.schema_types import DiskRate, Format, Name, RateBps, Size, Spec, choice

MAX_HOSTS = 100_000
MAX_DEVICES = 1_000_000
_ENGINES = ("plain", "local")


def _engine(value: object) -> object:
    if isinstance(value, dict):
        raise ValueError(f"{{ray: ...}} is not available yet; allowed: {', '.join(_ENGINES)}")
    return value


def _some(value: list[HostSpec]) -> list[HostSpec]:
    if not value:
        raise ValueError("needs at least one host")
    return value


class HostSpec(Spec):
    """One host, or ``count`` equal ones named ``NAME-0``, ``NAME-1``, ..."""

    name: Name
    count: int | None = Field(None, ge=1, le=MAX_HOSTS)
    devices: dict[Name, Annotated[int, Field(ge=1, le=MAX_DEVICES)]] = Field(
        default_factory=dict, description="Devices of each type, like {V100: 4}."
    )
    memory: Size | None = None
    nic: RateBps | None = None
    intra: RateBps | None = None
    disk: DiskRate | None = None


class DeviceTypeSpec(Spec):
    """A kind of device."""

    memory: Size | None = None


class NetworkSpec(Spec):
    """Which model prices synchronisation."""

    model: Annotated[str, *choice("constant", "lane", later=("contention", "fluid"))] = "constant"


class EmulateSpec(Spec):
    """Live without the real devices."""

    time_scale: float = Field(1.0, gt=0, le=1e6)


class ClusterSpec(Spec):
    """Hosts, their devices and what connects them."""

    format: Format = 1
    hosts: Annotated[list[HostSpec], AfterValidator(_some)]
    device_types: dict[Name, DeviceTypeSpec] = Field(default_factory=dict)
    network: NetworkSpec = NetworkSpec()
    engine: Annotated[
        Any,
        AfterValidator(choice(*_ENGINES)[0].func),
        BeforeValidator(_engine),
        WithJsonSchema({"type": "string", "enum": list(_ENGINES)}),
    ] = "local"
    emulate: EmulateSpec | None = None
