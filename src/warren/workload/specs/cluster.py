"""The allowed content of a cluster file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from warren.model.cluster import LOG_BYTES
from warren.model.decision import CLASSES
from warren.model.testbed import NAME_TEXT, is_name
from warren.workload.generators.cluster_shapes import HETEROGENEITY, SHAPES
from warren.workload.specs.measured import OverheadsSpec, SwitchingSpec
from warren.workload.specs.types import (
    DiskRate,
    FilePath,
    Format,
    Free,
    Name,
    PathTag,
    PositiveTimeNs,
    RateBps,
    Seed,
    Size,
    Spec,
    TimeS,
    choice,
    path_or,
)
from warren.workload.text import shown

MAX_HOSTS = 100_000
MAX_DEVICES = 1_000_000
MIN_MEMORY_BYTES = 64_000_000
"""A trainer's own memory, before its first app, is less than half of this."""
MIN_LEASE_NS = 10**9
MAX_LEASE_NS = 3600 * 10**9
_ENGINES = ("plain", "local")
HERE: Final = "local"
"""Hosts that are this machine."""
_RAY_ADDRESS = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}")
_ENGINE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "enum": list(_ENGINES)},
        {
            "type": "object",
            "properties": {"ray": {"type": "string", "pattern": _RAY_ADDRESS.pattern}},
            "required": ["ray"],
            "additionalProperties": False,
        },
    ]
}
# Which fields belong to which network model; a field of another model is refused.
_RATES = frozenset({"xi2", "outer", "inner"})
_NETWORK_FIELDS = {
    "contention": _RATES | {"xi1", "alpha", "reading"},
    "fluid": _RATES | {"latency", "classes"},
}
_WEIGHTS = CLASSES - 1
"""Class 0 has none: it goes before all others."""

Factor = Annotated[float, Field(ge=1, le=1000)]


def _engine(value: object) -> object:
    """Check an engine: a name, or ``{ray: HOST:PORT}``."""
    if not isinstance(value, dict):
        if value in _ENGINES:
            return value
        allowed = f"{', '.join(_ENGINES)}, {{ray: HOST:PORT}}"
        raise ValueError(f"{shown(value)} is unknown; allowed: {allowed}")
    if list(value) != ["ray"]:
        raise ValueError(f"{shown(list(value))} is no engine; allowed: {{ray: HOST:PORT}}")
    if not _RAY_ADDRESS.fullmatch(str(value["ray"])):
        raise ValueError(f"{shown(value['ray'])} is no address; allowed: like 10.0.0.1:6379")
    return value


def _enough(value: int) -> int:
    if value < MIN_MEMORY_BYTES:
        least = f"{MIN_MEMORY_BYTES // 10**6} MB"
        raise ValueError(f"must be at least {least}, got {value} bytes")
    return value


def _lease(value: int) -> int:
    if not MIN_LEASE_NS <= value <= MAX_LEASE_NS:
        raise ValueError(f"must be from 1 s to 1 h, got {value / 10**9:g} s")
    return value


def _bed_name(value: str) -> str:
    if not is_name(value):
        raise ValueError(f"{shown(value)} is no name of a testbed; allowed: {NAME_TEXT}")
    return value


def _hosts_kind(value: Any) -> str | None:
    """Return the tag of the schema that a value of ``hosts`` is checked with; None: none fits."""
    if isinstance(value, list):
        return "<inline>"
    if not isinstance(value, Mapping):
        return "<word>" if value == HERE else None
    return "<servers>" if value.get("generate") == "sjf-bco" else "<generated>"


def _classes_kind(value: Any) -> str | None:
    """Return the tag of the schema that a value of ``classes`` is checked with; None: none fits."""
    if isinstance(value, str):
        return "<word>"
    return "<inline>" if isinstance(value, Mapping) else None


def _some(value: list[HostSpec]) -> list[HostSpec]:
    """Refuse an empty list; pydantic's own message would name a length."""
    if not value:
        raise ValueError("needs at least one host")
    return value


class HostSpec(Spec):
    """One host, or ``count`` equal ones named ``NAME-0``, ``NAME-1``, ..."""

    name: Name = Field(
        description="Name of the host, unique in the cluster: 1 to 80 characters of A-Z a-z "
        "0-9 . _ -"
    )
    # None and 1 differ: with a count of 1 the host is called NAME-0.
    count: int | None = Field(
        None,
        ge=1,
        le=MAX_HOSTS,
        description="Number of equal hosts, called NAME-0, NAME-1, ...; default: one host, "
        "called NAME.",
    )
    devices: dict[Name, Annotated[int, Field(ge=1, le=MAX_DEVICES)]] = Field(
        default_factory=dict, description="Number of devices of each type, like {V100: 4}."
    )
    memory: Size | None = Field(
        None, description="Main memory of the host, which `local: {spill: true}` uses."
    )
    nic: RateBps | None = Field(
        None,
        description="Network rate of the host. It gives the time of rings, and of "
        "synchronization without a profile; default: 25 Gbps.",
    )
    intra: RateBps | None = Field(
        None, description="Rate between the devices of the host, which a ring within the host uses."
    )
    disk: DiskRate | None = Field(None, description="Rate of the host's disk. It is recorded only.")
    opportunistic: bool = Field(
        False,
        description="Whether the host may come and go during a run without notice. `shape: "
        "cruise` follows it.",
    )
    price: Annotated[float, Field(ge=0, le=1e9)] | None = Field(
        None,
        description="Price of an hour, in any currency, for the cost of a run. All hosts have "
        "a price, or none.",
    )


class GeneratedHostsSpec(Spec):
    """Hosts in the shape of a paper's simulations, in place of a list."""

    generate: Annotated[str, *choice(*SHAPES)] = Field(description="Name of the shape.")
    devices: int = Field(ge=1, le=MAX_DEVICES, description="Number of devices in the cluster.")
    heterogeneity: Annotated[str, *choice(*HETEROGENEITY)] = Field(
        "high",
        description="Device types, in equal parts. low: V100; mid: V100 and K80; high: V100, "
        "T4, K80 and M60.",
    )
    mix: dict[Name, Annotated[int, Field(ge=0, le=MAX_DEVICES)]] | None = Field(
        None,
        description="Number of devices of each type, in place of heterogeneity: {V100: 8, T4: 4}.",
    )
    per_host: int = Field(
        4, ge=1, le=1024, description="Number of devices of a host. All are of one type."
    )
    nic: RateBps = Field(25e9, description="Network rate of every host.")

    @model_validator(mode="after")
    def _some_part(self) -> GeneratedHostsSpec:
        # Parts that add up to 0 cannot be divided.
        if self.mix is not None and not any(self.mix.values()):
            raise ValueError("mix needs at least one type above 0")
        return self


class ServersSpec(Spec):
    """Servers of 4, 8, 16 or 32 GPUs, drawn evenly, as SJF-BCO simulates them."""

    generate: Annotated[str, *choice("sjf-bco")] = Field(description="Name of the shape.")
    servers: int = Field(20, ge=1, le=MAX_DEVICES // 32, description="Number of hosts.")
    # Not the run's seed: the same cluster stands in runs of other seeds.
    seed: Seed = Field(0, description="Seed of the draws.")
    nic: RateBps = Field(10e9, description="Network rate of every host.")
    intra: RateBps = Field(100e9, description="Rate between the devices of every host.")


class DeviceTypeSpec(Spec):
    """A kind of device."""

    memory: Size | None = Field(None, description="Memory of one device; default: not limited.")


class ClassWeightsSpec(Spec):
    """Shares of a link that classes of bytes get beside each other."""

    weights: Annotated[
        list[Annotated[float, Field(gt=0, le=1e6)]],
        Field(min_length=_WEIGHTS, max_length=_WEIGHTS),
    ] = Field(
        description="Weights of classes 1 to 7, each more than 0. Class 0 goes before all of them."
    )


class NetworkSpec(Spec):
    """The model that gives the time of synchronization."""

    model: Annotated[str, *choice("constant", "lane", "contention", "fluid")] = Field(
        default="constant",
        description="constant: synchronizations never wait. lane: synchronizations of a "
        "device follow each other, as in live runs. contention: rings slow each "
        "other down on the links of hosts. fluid: all that send at one time share "
        "each link max-min fair.",
    )
    xi1: float = Field(
        default=1.0, ge=0, le=1, description="Strength with which other rings slow a ring down."
    )
    xi2: TimeS = Field(default=0.0, description="Time that each host of a ring adds to a round.")
    alpha: float = Field(
        default=0.0, ge=0, le=100, description="Extra loss of a link that rings share."
    )
    reading: Annotated[str, *choice("ours", "published")] = Field(
        default="ours",
        description="Effect of p rings on a link. ours: 1 + xi1 (p - 1); published: xi1 p, at "
        "least 1.",
    )

    outer: RateBps | None = Field(
        default=None, description="Measured rate between hosts; default: nic of the hosts."
    )
    inner: RateBps | None = Field(
        default=None, description="Measured rate within a host; default: intra of the host."
    )

    latency: TimeS = Field(
        default=0.0,
        ge=0,
        description="Time before the first byte between a server and another host.",
    )
    classes: Annotated[
        Annotated[str, *choice("strict"), Tag("<word>")]
        | Annotated[ClassWeightsSpec, Tag("<inline>")],
        Discriminator(
            _classes_kind,
            custom_error_type="word_or",
            custom_error_message="expected strict, or {weights: [of classes 1 to 7]}",
        ),
    ] = Field(
        default="strict",
        description="strict: each class of bytes goes before the next one. {weights: [...]}: "
        "classes 1 to 7 share a link by weight.",
    )

    @model_validator(mode="after")
    def _of_its_model(self) -> NetworkSpec:
        stated = frozenset().union(*_NETWORK_FIELDS.values()) & self.model_fields_set
        wrong = sorted(stated - _NETWORK_FIELDS.get(self.model, frozenset()))
        if wrong:
            models = [model for model, fields in _NETWORK_FIELDS.items() if wrong[0] in fields]
            raise ValueError(f"{wrong[0]} belongs to model: {' or '.join(models)}")
        return self


class NetworkFileSpec(NetworkSpec):
    """The file that ``warren calibrate --rings`` writes."""

    format: Format = 1
    machine: Free = Field(
        default_factory=dict, description="Description of the machine, for people."
    )
    fit: Free = Field(default_factory=dict, description="Quality of the fit, for people.")
    measured: list[Free] = Field(
        default_factory=list, description="The measured rounds, for people."
    )


class EmulateSpec(Spec):
    """Live training without the real devices."""

    time_scale: float = Field(
        1.0, gt=0, le=1e6, description="Real seconds for each second of the cluster."
    )
    jitter: FilePath | None = Field(
        None, description="A .npy file of measured times. COMP times are drawn from it."
    )
    slower: dict[Name, Factor] = Field(
        default_factory=dict, description="Factor on all times of a device type: {T4: 1.2}."
    )


class LocalSpec(Spec):
    """How the engine local works on this machine."""

    look_ahead: int = Field(
        default=2,
        ge=0,
        le=64,
        description="Number of tasks whose bytes a device fetches before their turn.",
    )
    pin: bool = Field(
        default=False, description="Whether device i runs on core i, modulo the number of cores."
    )
    memory: Annotated[Size, AfterValidator(_enough)] | None = Field(
        default=None, description="Most memory of one trainer or server; default: not limited."
    )
    log_limit: Size = Field(
        default=LOG_BYTES, gt=0, description="Most bytes that the user code of one job may print."
    )
    testbed: Annotated[str, AfterValidator(_bed_name)] | None = Field(
        default=None,
        description="Name of the testbed whose hosts run the processes (`warren testbed`); "
        "default: this machine runs them.",
    )
    lease: Annotated[PositiveTimeNs, AfterValidator(_lease)] | None = Field(
        default=None,
        description="Time without contact after which the agent of a host ends all its "
        "processes; default: no agents, or 10 s with Ray.",
    )
    spill: bool = Field(
        default=False,
        description="Whether input data go to disk when a host has too little memory.",
    )
    disk_ratio: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Share of the input data on disk; default: as the memory of the hosts demands.",
    )
    model_on_disk: bool | None = Field(
        default=None,
        description="Whether models go to disk, too; default: when all input data on disk are "
        "not enough.",
    )


class ClusterSpec(Spec):
    """Hosts, their devices and the network between them."""

    format: Format = 1
    hosts: Annotated[
        Annotated[list[HostSpec], AfterValidator(_some), Tag("<inline>")]
        | Annotated[GeneratedHostsSpec, Tag("<generated>")]
        | Annotated[ServersSpec, Tag("<servers>")]
        | Annotated[Literal["local"], Tag("<word>")],
        Discriminator(
            _hosts_kind,
            custom_error_type="path_or",
            custom_error_message="expected a list of hosts, local or {generate: hare, devices: N}",
        ),
    ] = Field(
        description="A list of hosts with at least one device, or a shape, or `local` for "
        "this machine."
    )
    device_types: dict[Name, DeviceTypeSpec] = Field(
        default_factory=dict,
        description="Properties of the device types. If it is given, it names every type in use.",
    )
    network: Annotated[PathTag | Annotated[NetworkSpec, Tag("<inline>")], path_or("mapping")] = (
        Field(
            NetworkSpec(),
            description="How a simulation computes synchronization times; or a file of `warren "
            "calibrate --rings`.",
        )
    )
    engine: Annotated[Any, BeforeValidator(_engine), WithJsonSchema(_ENGINE_SCHEMA)] = Field(
        "local",
        description="local: one process for each device of this machine. plain: jobs one "
        "after the other, without a schedule. {ray: HOST:PORT}: as local, on the "
        "nodes of a Ray cluster with the names of the hosts.",
    )
    emulate: EmulateSpec | None = Field(
        None,
        description="Live tasks take the times of the profile; default: tasks take their own time.",
    )
    local: LocalSpec = Field(LocalSpec(), description="Settings of the engine local.")
    overheads: (
        Annotated[PathTag | Annotated[OverheadsSpec, Tag("<inline>")], path_or("mapping")] | None
    ) = Field(
        None,
        description="Measured costs of the engine: a file of `warren calibrate --local`, or "
        "its content.",
    )
    switching: SwitchingSpec | None = Field(
        None,
        description="Cost of a device's change from job to job, in simulations; default: none.",
    )
