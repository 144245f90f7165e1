"""Every policy by its question and its published name, imported only when chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from inspect import Parameter, signature
from typing import Final

from warren.model.decision import Question
from warren.model.errors import Problem, SpecError, short_line, text_of
from warren.policy.protocol import AnyPolicy, keeps_to_shapes, plans_rings

POLICIES: Final[Mapping[str, str]] = {
    "braid": "warren.policy.place.rings.order_search:RingOrderSearch",
    "braid-online": "warren.policy.place.rings.backfilling:RingBackfilling",
    "fifo": "warren.policy.place.hlas.fifo:Fifo",
    "first-fit": "warren.policy.place.rings.sjf_bco_baselines:FirstFit",
    "gavel-fifo": "warren.policy.place.hare.gavel_fifo:GavelFifo",
    "gittins": "warren.policy.place.gittins.policy:Gittins",
    "hare": "warren.policy.place.hare.policy:Hare",
    "hare-published": "warren.policy.place.hare.published:HarePublished",
    "hlas": "warren.policy.place.hlas.policy:Hlas",
    "hlas-l": "warren.policy.place.hlas.hlas_l:HlasL",
    "hlas-p": "warren.policy.place.hlas.hlas_p:HlasP",
    "hlas-published": "warren.policy.place.hlas.policy:HlasPublished",
    "las-2d": "warren.policy.place.hlas.las_2d:Las2d",
    "list-scheduling": "warren.policy.place.rings.sjf_bco_baselines:ListScheduling",
    "naive": "warren.policy.group.naive:Naive",
    "plain": "warren.policy.place.serial:Serial",
    "random": "warren.policy.place.rings.sjf_bco_baselines:RandomGpus",
    "sched-allox": "warren.policy.place.hare.sched_allox:SchedAllox",
    "sched-allox-unit": "warren.policy.place.hare.unit_sizes:SchedAlloxUnit",
    "sched-homo": "warren.policy.place.hare.sched_homo:SchedHomo",
    "sched-homo-unit": "warren.policy.place.hare.unit_sizes:SchedHomoUnit",
    "sjf-bco": "warren.policy.place.rings.sjf_bco:SjfBco",
    "srtf": "warren.policy.place.hare.srtf:Srtf",
}
"""Those that answer place."""
SHAPE_POLICIES: Final = {
    "all": "warren.policy.shape.all_hosts:AllHosts",
    "cruise": "warren.policy.shape.cruise:Cruise",
    "cruise-published": "warren.policy.shape.cruise:CruisePublished",
    "fixed": "warren.policy.shape.fixed:FixedShapes",
    "optimus": "warren.policy.shape.optimus:Optimus",
}
GROUP_POLICIES: Final = {"fixed": "warren.policy.group.fixed:FixedGroups"}
FLOW_POLICIES: Final = {
    "baraat": "warren.policy.flow.baraat:Baraat",
    "fixed": "warren.policy.flow.fixed:FixedClasses",
    "intensity": "warren.policy.flow.intensity:Intensity",
    "maif": "warren.policy.flow.maif:Maif",
    "shift": "warren.policy.flow.shift:Shift",
    "sincronia": "warren.policy.flow.sincronia:Sincronia",
    "turns": "warren.policy.flow.turns:Turns",
}
JOINT_POLICIES: Final[Mapping[str, str]] = {
    "harmony": "warren.policy.joint.harmony:Harmony",
    "harmony-published": "warren.policy.joint.harmony_published:HarmonyPublished",
    "isolated": "warren.policy.joint.isolated:Isolated",
}
"""Those that answer several questions at once."""
JOINT: Final = "joint"
BY_QUESTION: Final[Mapping[str, Mapping[str, str]]] = {
    Question.SHAPE.value: SHAPE_POLICIES,
    Question.GROUP.value: GROUP_POLICIES,
    Question.PLACE.value: POLICIES,
    Question.FLOW.value: FLOW_POLICIES,
    JOINT: JOINT_POLICIES,
}
"""All policies, by what a run file names them for."""
BASELINES: Final[Mapping[str, tuple[str, str]]] = {
    Question.SHAPE.value: ("static", "Each job keeps the servers that the run file states"),
    Question.GROUP.value: ("isolated", "Jobs share hosts as their tasks are placed"),
    Question.FLOW.value: ("fair", "Bytes of all jobs share a link alike"),
}
"""The name and the effect of the default for a question that no policy of the run answers."""


_BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_TYPES: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    "bool": (bool, "true or false"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "str": (str, "text"),
    "None": (type(None), "nothing"),
}


def place_policy(name: str, options: Mapping[str, object] | None = None) -> AnyPolicy:
    """Make the place policy of this name, with its own options.

    Raises SpecError if the name is unknown or the policy does not know an option.
    """
    return policy_of("place", name, options)


def policy_of(question: str, name: str, options: Mapping[str, object] | None = None) -> AnyPolicy:
    """Make the policy of this name for a question, or for ``joint``, with its own options.

    Raises SpecError if the name is unknown or the policy does not know an option.
    """
    known = BY_QUESTION[question]
    if name not in known:
        baseline = [BASELINES[question][0]] if question in BASELINES else []
        names = sorted([*known, *baseline])
        allowed = f"{', '.join(names)}, or " if names else ""
        message = f"unknown policy {name!r}; {_hint(name, names)}allowed: {allowed}FILE.py:Class"
        if "," in name:
            message = f"{name!r} is several policies; use `warren compare RUN.yaml --place A,B`"
        raise SpecError(Problem(file="scheduler", field=question, message=message))
    # Options of other questions stand under the name of theirs.
    section = "" if question == "place" else f"{question}."
    return build(_class_of(known[name]), name, options or {}, section)


def ring_policies() -> tuple[str, ...]:
    """Return the names of the policies that place rings as a whole, sorted; imports them all."""
    return tuple(sorted(name for name, place in POLICIES.items() if plans_rings(_class_of(place))))


def shaped_policies() -> tuple[str, ...]:
    """Return the names of the policies that keep to the hosts of shapes; imports them all."""
    found = (name for name, place in POLICIES.items() if keeps_to_shapes(_class_of(place)))
    return tuple(sorted(found))


def _class_of(place: str) -> type[AnyPolicy]:
    """Import a class of the tables, ``module:Class``."""
    module, _, attribute = place.partition(":")
    cls: type[AnyPolicy] = getattr(import_module(module), attribute)
    return cls


def build(
    cls: type[AnyPolicy], name: str, options: Mapping[str, object], section: str = ""
) -> AnyPolicy:
    """Make a policy from its class and options, refusing options that do not suit it.

    ``section`` stands before an option in a message: ``flow.`` for one under ``policy: {flow:``.
    Raises SpecError for each option that the class does not know, that is missing, whose value
    is not of the plain type (``int``, ``bool``, ``float``, ``str``) that the class states for it,
    or whose value the class refuses.
    """
    problems = [
        Problem(file="policy", field=f"{section}{option}", message=message)
        for option, message in _what_is_wrong(cls, name, options)
    ]
    if problems:
        raise SpecError(problems)
    try:
        return cls(**options)
    except (TypeError, ValueError) as error:
        refused = _refused_alone(cls, options) or [(tuple(options), text_of(error))]
    raise SpecError(
        Problem(
            file="policy",
            field=", ".join(f"{section}{option}" for option in some),
            message=f"{name} {_rejects(options, some)}: {text}",
        )
        for some, text in refused
    )


def _rejects(options: Mapping[str, object], some: Iterable[str]) -> str:
    """Say which values a class does not accept, each cut where it is long."""
    values = ", ".join(short_line(ascii(options[option]), 60) for option in some)
    return f"does not accept {values}" if values else "cannot be made"


def _refused_alone(
    cls: type[AnyPolicy], options: Mapping[str, object]
) -> list[tuple[tuple[str, ...], str]]:
    """Return each option whose value the class refuses beside defaults, with the error's text.

    Empty if it refuses none of them alone, or if its signature cannot be read.
    """
    try:
        stated = signature(cls).parameters
    except (TypeError, ValueError):
        return []
    required = [one for one in options if one in stated and stated[one].default is Parameter.empty]
    refused: list[tuple[tuple[str, ...], str]] = []
    for some in [(), *((one,) for one in options if one not in required)]:
        try:
            cls(**{one: options[one] for one in (*required, *some)})
        except (TypeError, ValueError) as error:
            if not some:
                return [(tuple(required), text_of(error))]
            refused.append((some, text_of(error)))
    return refused


def _what_is_wrong(
    cls: type[AnyPolicy], name: str, options: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Yield each option that does not suit the class, with what is wrong with it."""
    try:
        stated = list(signature(cls).parameters.values())
    except (TypeError, ValueError):
        # A class of the user's may have no signature that can be read: calling it will tell.
        return
    # Options are given by name alone, so positional-only parameters are none.
    known = {one.name: one for one in stated if one.kind in _BY_NAME}
    allowed = ", ".join(known) or "none"
    for option in options:
        if option not in known and not any(one.kind is one.VAR_KEYWORD for one in stated):
            message = f"{name} does not accept this option; {_hint(option, known)}"
            yield option, f"{message}allowed: {allowed}"
    for option, one in known.items():
        if option not in options and one.default is one.empty:
            yield option, f"is required by {name}"
        elif option in options and not _suits(options[option], one.annotation):
            value = ascii(options[option])[:60]
            yield option, f"{name} expects {_told(one.annotation)}, got {value}"


def _suits(value: object, annotation: object) -> bool:
    """Tell whether a value is what a plain annotation says; other annotations allow anything."""
    # A type that is not in the table says nothing here; the class itself may still refuse.
    parts = _parts(annotation)
    return not set(parts) <= _TYPES.keys() or any(_is(value, part) for part in parts)


def _is(value: object, part: str) -> bool:
    """Tell whether a value is of one plain type."""
    # A bool is an int in Python, but `budget: true` in a run file is a mistake.
    if isinstance(value, bool):
        return part == "bool"
    return isinstance(value, _TYPES[part][0])


def _parts(annotation: object) -> list[str]:
    """Split an annotation such as ``int | None`` into the names of its types."""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return [part.strip() for part in text.split("|")]


def _told(annotation: object) -> str:
    """Say what values an annotation allows."""
    return " or ".join(_TYPES[part][1] for part in _parts(annotation))


def _hint(name: str, allowed: Iterable[str]) -> str:
    """Suggest the allowed name that is nearest to a wrong one; empty if none is near."""
    near = get_close_matches(name[:100], list(allowed), n=1)
    return f"did you mean {near[0]}? " if near else ""
