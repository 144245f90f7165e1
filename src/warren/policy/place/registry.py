"""Every place policy by its published name, imported only when chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.policy.protocol import AnyPolicy

POLICIES: Final[Mapping[str, str]] = {
    "gavel-fifo": "warren.policy.place.gavel_fifo:GavelFifo",
    "hare": "warren.policy.place.hare:Hare",
    "hare-published": "warren.policy.place.hare_published:HarePublished",
    "plain": "warren.policy.place.plain:Plain",
    "srtf": "warren.policy.place.srtf:Srtf",
}


def place_policy(name: str, options: Mapping[str, object] | None = None) -> AnyPolicy:
    """The place policy of this name, with its own options.

    Raises
    ------
    SpecError
        If the name is unknown or the policy does not know an option.
    """
    if name not in POLICIES:
        allowed = ", ".join(sorted(POLICIES))
        raise SpecError(
            Problem(
                file="scheduler",
                field="place",
                message=f"unknown policy {name!r}; allowed: {allowed}, or FILE.py:Class",
            )
        )
    module, _, attribute = POLICIES[name].partition(":")
    return build(getattr(import_module(module), attribute), name, options or {})


def build(cls: type[AnyPolicy], name: str, options: Mapping[str, object]) -> AnyPolicy:
    """Make a policy from its class and options, refusing options that it does not know."""
    known = [field.name for field in fields(cls)] if is_dataclass(cls) else None
    unknown = [option for option in options if known is not None and option not in known]
    if unknown:
        allowed = ", ".join(known or ()) or "none"
        message = f"{name} does not accept this option; allowed: {allowed}"
        raise SpecError(Problem(file="policy", field=", ".join(unknown), message=message))
    try:
        return cls(**options)
    except (TypeError, ValueError) as error:
        message = f"{name} does not accept these options: {error}"
        raise SpecError(Problem(file="policy", field=", ".join(options), message=message)) from None
