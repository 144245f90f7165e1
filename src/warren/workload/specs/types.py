"""Define the kinds of values in user files, each with its check and its line of help."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)

from warren.model.units import (
    NEVER_NS,
    parse_bytes,
    parse_rate_bps,
    parse_time_s,
    seconds_to_ns,
)
from warren.workload.text import shown

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,80}")
_EXACT_NS: Final = re.compile(r"\s*([0-9]{1,19})\s*ns\s*")
MAX_SEED: Final = 2**63 - 1
MAX_LINE: Final = 200
MAX_PATH: Final = 1000
_FREE_DEPTH: Final = 20

T = TypeVar("T", int, float)


class Spec(BaseModel):
    """Base of all schemas: unknown keys refused, types strict, values finite.

    Only the schema that a file is checked with is built, with those inside it, and only then.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        defer_build=True,
    )
    ALSO: ClassVar[tuple[str, ...]] = ()
    """Keys that make it another schema: allowed in its place."""
    INSTEAD: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Keys of other programs that people try, with the right ones."""


def _time_ns(value: object) -> int:
    # The output of ``write``: whole nanoseconds, read without a float in between.
    exact = _EXACT_NS.fullmatch(value) if isinstance(value, str) and len(value) < 100 else None
    if exact is None:
        return seconds_to_ns(_quantity(parse_time_s, value))
    if int(exact[1]) >= NEVER_NS:
        raise ValueError(f"{shown(value)} is outside the range of times")
    return int(exact[1])


def _time_s(value: object) -> float:
    """Parse seconds; they must be within the range of times."""
    seconds: float = _quantity(parse_time_s, value)
    # Called for its check alone: the value stays in seconds.
    seconds_to_ns(seconds)
    return seconds


def _size(value: object) -> int:
    """Parse a size in bytes; a number that is whole already stays exact."""
    size: int = _quantity(parse_bytes, value)
    return value if isinstance(value, int) else size


def _rate_bps(value: object) -> float:
    bps: float = _quantity(parse_rate_bps, value)
    return bps


def _disk_bytes_per_s(value: object) -> float:
    """Parse a rate in bytes/s; a bare number is refused, since bits and bytes are both usual."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f'{value!r} needs a unit, like "1 GB/s"')
    # The parser gives bits.
    return _rate_bps(value) / 8.0


def _quantity(parse: Callable[[object], Any], value: object) -> Any:
    """Call a parser of ``units`` on a suitable value; it may only answer or raise ValueError."""
    # Bounds the input of the parsers' patterns and of a message.
    if isinstance(value, str) and len(value) > 100:
        raise ValueError(f"{shown(value)} is too long")
    if isinstance(value, int) and abs(value) > 10**30:
        raise ValueError(f"{shown(value)} is too large")
    return parse(value)


def _share(value: object) -> float:
    """Parse a share, as ``1 %`` or as a number of 0 to 1."""
    parts = isinstance(value, str) and re.fullmatch(r"\s*([0-9]{1,3}(\.[0-9]{1,9})?)\s*%\s*", value)
    number = float(parts[1]) / 100 if parts else value
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number <= 1:
        raise ValueError(f"{shown(value)} is not a share; allowed: 0 % to 100 %, or 0 to 1")
    return float(number)


def _positive(value: T) -> T:
    if value <= 0:
        raise ValueError("must be more than 0")
    return value


def is_name(text: str) -> bool:
    """Tell whether a text can name a job or a type: it becomes the name of files and folders."""
    # The two names of dots mean folders.
    return _NAME.fullmatch(text) is not None and text not in (".", "..")


def _name(value: str) -> str:
    if not is_name(value):
        allowed = "1 to 80 of A-Z a-z 0-9 . _ - (it becomes a file name)"
        raise ValueError(f"{shown(value)} is not a name; allowed: {allowed}")
    return value


def _line(value: str) -> str:
    if not value.isprintable() or not 0 < len(value) <= MAX_LINE:
        raise ValueError(f"{shown(value)} is not one line of 1 to {MAX_LINE} printable characters")
    return value


def is_path(value: str) -> bool:
    """Tell whether a text can be the path of a file: one printable line."""
    return value.isprintable() and 0 < len(value) <= MAX_PATH


def _path(value: str) -> str:
    if not is_path(value):
        raise ValueError(f"{shown(value)} is not a file path")
    return value


def _free(value: dict[str, Any]) -> dict[str, Any]:
    """Check values that only an app or a policy understands: they must be fit to be written."""
    _check_free(value, _FREE_DEPTH)
    return value


def _check_free(value: object, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"is nested deeper than {_FREE_DEPTH} levels")
    if isinstance(value, dict):
        for key in value:
            if len(key) > MAX_LINE:
                raise ValueError(f"{shown(key)} is too long for a name")
            _check_free(key, depth)
    # Half of a surrogate pair is no character, and cannot be encoded as UTF-8.
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError(f"{shown(value)} is not text")
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_free(inner, depth - 1)


def choice(*now: str) -> tuple[Any, Any]:
    """Return the annotations of a closed set of words: its check and its JSON Schema."""
    allowed = ", ".join(now)

    def check(value: str) -> str:
        if value not in now:
            raise ValueError(f"{shown(value)} is unknown; allowed: {allowed}")
        return value

    return AfterValidator(check), WithJsonSchema({"type": "string", "enum": list(now)})


def _help(text: str, *types: str) -> WithJsonSchema:
    return WithJsonSchema({"type": list(types), "description": text})


_TIME: Final = _help('A time: "10 s", "152 ms", "2 h", or a number of seconds.', "string", "number")
_BYTES: Final = _help(
    'A size: "16 GB", "98 MB", "16 GiB", or a number of bytes.', "string", "integer"
)
_RATE: Final = _help('A rate: "25 Gbps", "1 GB/s", or a number of bits/s.', "string", "number")

_SHARE: Final = _help('A share: "1 %", or a number of 0 to 1.', "string", "number")

Format = Annotated[Literal[1], Field(description="Version of this file format.")]
TimeNs = Annotated[int, BeforeValidator(_time_ns), _TIME]
TimeS = Annotated[float, BeforeValidator(_time_s), _TIME]
PositiveTimeNs = Annotated[int, BeforeValidator(_time_ns), AfterValidator(_positive), _TIME]
PositiveTimeS = Annotated[float, BeforeValidator(_time_s), AfterValidator(_positive), _TIME]
Size = Annotated[int, BeforeValidator(_size), _BYTES]
RateBps = Annotated[float, BeforeValidator(_rate_bps), AfterValidator(_positive), _RATE]
DiskRate = Annotated[
    float,
    BeforeValidator(_disk_bytes_per_s),
    AfterValidator(_positive),
    _help('A disk rate: "1 GB/s".', "string"),
]
Share = Annotated[float, BeforeValidator(_share), _SHARE]
Name = Annotated[str, AfterValidator(_name)]
Line = Annotated[str, AfterValidator(_line)]
FilePath = Annotated[str, AfterValidator(_path)]
Free = Annotated[dict[str, Any], AfterValidator(_free)]
Count = Annotated[int, Field(ge=1, le=10**12)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


def path_or(inline: str) -> Discriminator:
    """Return the discriminator of a path and an inline value; ``inline``: mapping or list."""
    kind = {"mapping": Mapping, "list": list}[inline]

    def tag(value: Any) -> str | None:
        if isinstance(value, str):
            return "<path>"
        return "<inline>" if isinstance(value, kind) else None

    return Discriminator(
        tag,
        custom_error_type="path_or",
        custom_error_message=f"expected a file path or a {inline}",
    )


PathTag = Annotated[FilePath, Tag("<path>")]
