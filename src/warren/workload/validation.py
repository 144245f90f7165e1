"""Turn pydantic's findings into one line each: file, line, field, what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, Tag, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from warren.model.errors import Problem
from warren.workload.text import hint, shown
from warren.workload.yaml_document import Document, Path

GIVEN: Final = " (given on the command line)"
"""Addition to a problem of a value that is in no file."""
MAX_PROBLEMS: Final = 200
"""More problems than this in one file are counted, not listed."""

_TAGS: Final = (
    "<path>",
    "<inline>",
    "<word>",
    "<workload>",
    "<hare-mix>",
    "<gavel-mix>",
    "<sjf-bco>",
    "<generate>",
    "<generated>",
    "<servers>",
    "[key]",
)
"""Parts that pydantic adds to a path for its unions, which users do not know."""

T = TypeVar("T")
Kind = type[BaseModel] | Any


def check(
    kind: type[T] | Any, document: Document, problems: list[Problem], at: Path = ()
) -> T | None:
    """Validate the value at ``at`` of a document; on failure add problems and return None."""
    value = document.data
    # The caller has found a value there before.
    for key in at:
        value = value[key]
    try:
        result: T = _adapter(kind).validate_python(value)  # type: ignore[arg-type]  # all are hashable
    except ValidationError as error:
        found = error.errors(include_url=False)
        problems += limited(document, [_problem(kind, document, at, one) for one in found])
        return None
    return result


@cache
def _adapter(kind: Kind) -> TypeAdapter[Any]:
    """Return the validator of a kind of value; it is built at the first check, which is slow."""
    return TypeAdapter(kind)


def limited(document: Document, problems: Sequence[Problem]) -> list[Problem]:
    """Return the first ``MAX_PROBLEMS`` problems, with a line that counts the rest."""
    rest = len(problems) - MAX_PROBLEMS
    if rest <= 0:
        return list(problems)
    more = Problem(file=document.file, message=f"and {rest} more problems")
    return [*problems[:MAX_PROBLEMS], more]


def _problem(kind: Kind, document: Document, at: Path, error: Mapping[str, Any]) -> Problem:
    """Return one finding as a problem of the document, in the users' words and paths."""
    # A tag inside the path is pydantic's own; as the last part it may be a key of the user's.
    *around, last = error["loc"] or ("",)
    inside = tuple(part for part in around if part not in _TAGS)
    unknown = error["type"] == "extra_forbidden"
    if unknown or last not in ("", *_TAGS):
        inside = (*inside, last)
    describe = _MESSAGES.get(error["type"])
    if unknown:
        message = _unknown(kind, (*around, last))
    elif describe is not None:
        message = describe(error)
    else:
        message = str(error["msg"])
    # A value of the command line stands in no file; say where it came from.
    if any(_same_way(known, (*at, *inside)) for known in document.overridden):
        message += GIVEN
    return document.problem((*at, *inside), message)


def _same_way(one: Path, other: Path) -> bool:
    """Tell whether one path is the beginning of the other."""
    return all(a == b for a, b in zip(one, other, strict=False))


def _unknown(kind: Kind, path: Path) -> str:
    """Return the message about an unknown field: the intended one, and the allowed ones."""
    models, name = _models_at(kind, path[:-1]), str(path[-1])
    for model in models:
        if instead := getattr(model, "INSTEAD", {}).get(name):
            return f"unknown field; {instead}"
    # Keys that would make the value another schema are allowed there too.
    also = {key for model in models for key in getattr(model, "ALSO", ())}
    allowed = sorted(also.union(*(_fields(model) for model in models)))
    meant = _one_deeper(models, name) or hint(name, allowed)
    return f"unknown field; {meant}allowed: {', '.join(allowed)}"


def _one_deeper(models: Sequence[type[BaseModel]], name: str) -> str:
    """Return a hint if the name is a field inside one of the fields that are allowed here."""
    for model in models:
        for field, info in _fields(model).items():
            if any(name in _fields(inner) for inner in _models(info.annotation, lists=False)):
                return f"did you mean {field}: {{{name}: ...}}? "
    return ""


def _models_at(kind: Kind, path: Path) -> list[type[BaseModel]]:
    """Return the schemas that may stand at a path; list positions and map keys pass through."""
    kinds: list[Kind] = [kind]
    for key in path:
        # A tag picks an alternative of a union, a field goes one schema deeper, all else stays.
        tagged = [one for kind in kinds for one in _tagged(kind, key)]
        fields = [
            _fields(model)[str(key)].annotation
            for kind in kinds
            for model in _models(kind)
            if key in _fields(model)
        ]
        kinds = tagged or fields or kinds
    return [model for kind in kinds for model in _models(kind)]


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a schema by the names that files have: a word of Python's is no name."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _models(annotation: Any, lists: bool = True) -> Iterator[type[BaseModel]]:
    """Yield the schemas in an annotation; without ``lists`` not those inside lists and dicts."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    if not lists and get_origin(annotation) in (list, dict):
        return
    for inner in get_args(annotation):
        if not isinstance(inner, str):
            yield from _models(inner, lists)


def _tagged(annotation: Any, tag: object) -> Iterator[Kind]:
    """Yield the alternatives of an annotation that have this tag."""
    inside = get_args(annotation)
    if any(isinstance(one, Tag) and one.tag == tag for one in inside):
        yield inside[0]
    for inner in inside:
        if not isinstance(inner, str):
            yield from _tagged(inner, tag)


def _got(expected: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a message about a value of the wrong type."""
    return lambda error: f"expected {expected}, got {shown(error['input'])}"


def _bound(words: str, name: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a message about a number beyond the bound that pydantic calls ``name``."""
    return lambda error: f"must be {words} {error['ctx'][name]}, got {shown(error['input'])}"


def _said(error: Mapping[str, Any]) -> str:
    return str(error["ctx"]["error"])


# By pydantic's type of error; types that are not listed keep pydantic's own text.
_MESSAGES: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "missing": lambda _: "is required",
    "value_error": _said,
    "path_or": lambda error: f"{error['msg']}, got {shown(error['input'])}",
    "literal_error": lambda error: (
        f"allowed: {error['ctx']['expected']}, got {shown(error['input'])}"
    ),
    "greater_than": _bound("more than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("less than", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "too_short": lambda error: f"needs at least {error['ctx']['min_length']} item",
    "finite_number": _got("a finite number"),
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), _got("a whole number")),
    **dict.fromkeys(("float_type", "float_parsing"), _got("a number")),
    **dict.fromkeys(("string_type", "string_unicode"), _got("text")),
    "bool_type": _got("true or false"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _got("a mapping")),
    "list_type": _got("a list"),
}
