"""Job files: what ``warren submit`` takes, written down."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import yaml

from warren.cli.service.declare import Option
from warren.cli.service.needs import NEEDS
from warren.model.errors import Problem, SpecError

FIELDS: Final = {option.flags[0].lstrip("-"): option for option in NEEDS}
"""Fields of a job file beside ``command``, each with the option of the same name."""
_MAPPINGS: Final = ("sweep", "env")
_LISTS: Final = ("after",)
_WHOLE: Final = ("devices", "gpus", "priority", "retries")
_LARGEST: Final = 1_000_000
"""Largest job file, in characters."""


def read_job_file(path: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Read a job file: the command, and the values of the options that it holds.

    A command that is one text is a line for the shell. A run file, which has a workload, becomes
    the command that trains it on the devices of the job (``warren.serve.app_run``).

    Raises
    ------
    SpecError
        With file, line and field of each fault.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LARGEST)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except OSError as error:
        raise SpecError(Problem(file=path, message=f"{error.strerror}".lower())) from error
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or "not a text of UTF-8"
        line = None if mark is None else mark.line + 1
        raise SpecError(Problem(file=path, line=line, message=f"is no YAML: {said}")) from error
    if not isinstance(content, dict) or not isinstance(node, yaml.MappingNode):
        raise SpecError(Problem(file=path, message="expected fields, such as `command:`"))
    if "workload" in content and "command" not in content:
        return (sys.executable, "-P", "-m", "warren.serve.app_run", os.path.abspath(path)), {}
    lines = {key.value: key.start_mark.line + 1 for key, _ in node.value}
    problems: list[Problem] = []
    fields: dict[str, Any] = {}
    words: tuple[str, ...] = ()
    for key, value in content.items():
        try:
            if key == "command":
                words = _command(value)
            else:
                option = _field(key)
                fields[option.name] = _value(str(key), value, option)
        except ValueError as error:
            line = lines.get(str(key))
            problems.append(Problem(file=path, line=line, field=str(key), message=str(error)))
    if not words and "command" not in content:
        problems.append(Problem(file=path, message="`command:` is missing"))
    if problems:
        raise SpecError(problems)
    return words, fields


def _field(key: object) -> Option:
    """Return the option of a field, or refuse the field with a near one."""
    from difflib import get_close_matches

    if key in FIELDS:
        return FIELDS[str(key)]
    names = ["command", *FIELDS]
    near = get_close_matches(str(key)[:100], names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise ValueError(f"unknown field; {meant}allowed: {', '.join(names)}")


def _command(value: object) -> tuple[str, ...]:
    """Return the words of a command; a text is given to the shell."""
    if isinstance(value, str) and value.strip():
        return ("sh", "-c", value)
    if (
        isinstance(value, list)
        and value
        and all(isinstance(one, str | int | float) for one in value)
    ):
        return tuple(str(one) for one in value)
    raise ValueError("expected a line for the shell, or a list of words")


def _value(key: str, value: object, option: Option) -> Any:
    """Return the value of a field, read as its option reads it."""
    if option.read is None:
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false, got {value!r}")
        return value
    if option.many:
        return tuple(option.read(one) for one in _texts(key, value))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"expected one value, got {value!r}")
    return option.read(str(value))


def _texts(key: str, value: object) -> list[str]:
    """Return what a repeatable option would be given: ``lr: [1, 2]`` becomes ``lr=1,2``."""
    if key in _MAPPINGS:
        if not isinstance(value, dict):
            raise ValueError("expected names with values")
        lists = {name: one if isinstance(one, list) else [one] for name, one in value.items()}
        if key == "env" and any(len(ones) != 1 for ones in lists.values()):
            raise ValueError("expected one value for each name")
        return [f"{name}={','.join(map(str, ones))}" for name, ones in lists.items()]
    found = value if isinstance(value, list) else [value]
    return [str(one) for one in found]


def job_file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a job file of the service."""
    words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    command = {
        "anyOf": [{"type": "string"}, words],
        "description": "Command: a line for the shell, or a list of words that no shell reads.",
    }
    return {
        "title": "SubmitFile",
        "description": "A job for `warren submit`; the fields are its options.",
        "type": "object",
        "additionalProperties": False,
        "required": ["command"],
        "properties": {"command": command}
        | {name: _schema(name, option) for name, option in FIELDS.items()},
    }


def _schema(name: str, option: Option) -> dict[str, Any]:
    """Return the schema of a field, with the help of its option."""
    kind: dict[str, Any] = {"type": "string"}
    if option.read is None:
        kind = {"type": "boolean"}
    elif name in _WHOLE:
        kind = {"type": "integer"}
    elif name in _MAPPINGS:
        kind = {"type": "object"}
    elif name in _LISTS:
        kind = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    return {**kind, "description": option.help}
