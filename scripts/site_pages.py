"""Pages of the site that are made and not written, and links that fit them; a hook of MkDocs.

The README becomes the first page. Schemas, help texts and docstrings become reference pages. Links
from a page to a file outside of ``docs`` name that file and lead nowhere.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from warren.cli.app import app
from warren.cli.service.job_file import job_file_schema
from warren.workload.specs.json_schema import json_schema

ROOT: Final = Path(__file__).resolve().parents[1]
ROOT_PAGES: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the site made of files outside of ``docs``."""
DECISIONS: Final = "background/decisions/README.md"
PYTHON: Final = {
    "Runs": ["warren.runs.api"],
    "Figures": ["warren.runs.comparison.plots"],
    "The service": ["warren.serve.client.client.Client"],
    "Apps": ["warren.apps.protocol.TorchApp"],
    "Policies": [
        "warren.policy.order.JobOrder",
        "warren.policy.protocol.Policy",
        "warren.model.view.View",
        "warren.model.decision",
    ],
}
"""What users import, by heading."""
SEARCH_WEIGHTS: Final = {"guides/": 4.0, "tutorials/": 2.0, "background/": 0.1}
"""Weight of a page in the search, by the beginning of its name; 1 if none fits."""
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    made = {name: (ROOT / file).read_text() for file, name in ROOT_PAGES.items()}
    made |= {
        f"reference/{kind}.md": schema_page(kind, json_schema(kind))
        for kind in ("run", "job", "cluster", "testbed")
    }
    made["reference/submit.md"] = schema_page("submit", job_file_schema())
    made |= {"reference/cli.md": cli_page(), "reference/python.md": python_page()}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of a page lead to pages of the site."""
    name = page.file.src_uri
    for folder, weight in SEARCH_WEIGHTS.items():
        if name.startswith(folder):
            page.meta["search"] = {"boost": weight}
    source = next((file for file, made in ROOT_PAGES.items() if made == name), f"docs/{name}")
    # Code is left alone: `nets["g"](noise)` is no link.
    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(lambda found: _link(found, source, name), part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], source: str, name: str) -> str:
    """Return a link of the file ``source`` as it stands on the page ``name``."""
    image, text, target = found.groups()
    if "://" in target or target.startswith(("#", "mailto:")):
        return found[0]
    file, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), file))
    if path == "docs/background/decisions":
        path = f"docs/{DECISIONS}"
    if path in ROOT_PAGES:
        path = f"docs/{ROOT_PAGES[path]}"
    if not path.startswith("docs/"):
        return f"{text} (`{path}`)"
    here = posixpath.relpath(path[len("docs/") :], posixpath.dirname(name) or ".")
    return f"{image}[{text}]({here}{'#' + anchor if anchor else ''})"


def python_page() -> str:
    """Return the page of what users import, from its docstrings."""
    lines = ["# Python", ""]
    for heading, names in PYTHON.items():
        lines += [f"## {heading}", "", *(f"::: {name}\n" for name in names)]
    return "\n".join(lines)


def cli_page() -> str:
    """Return the help text of every command."""
    lines = ["# Options of commands", ""]
    for path, text in _helps(typer.main.get_command(app), "warren"):
        lines += [f"## {path}", "", "```text", text, "```", ""]
    return "\n".join(lines)


def _helps(command: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and help of a command and of those below it."""
    context = command.context_class(command, info_name=path, terminal_width=100)
    yield path, command.get_help(context).rstrip()
    for name in getattr(command, "commands", ()):
        yield from _helps(command.get_command(context, name), f"{path} {name}")


def schema_page(kind: str, schema: Mapping[str, Any]) -> str:
    """Return the fields of a file that users write, from its JSON Schema."""
    defs = schema.get("$defs", {})
    lines = [f"# Fields of a {kind} file", "", schema.get("description", ""), ""]
    lines += _table(schema, defs)
    for name in sorted(defs):
        if "properties" in defs[name]:
            lines += [f"## {_title(name)}", "", defs[name].get("description", ""), ""]
            lines += _table(defs[name], defs)
    return "\n".join(lines)


def _title(name: str) -> str:
    return name.removesuffix("Spec")


def _table(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> list[str]:
    """Return a table with a row for each field of an object."""
    rows = ["| Field | Type | Default | Means |", "|---|---|---|---|"]
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        default = "required" if name in required else _default(field)
        means = field.get("description", "")
        cells = (f"`{name}`", _type(field, defs), default, means)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return [*rows, ""]


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    return "" if value is None or isinstance(value, dict) else f"`{value}`"


def _type(field: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """Return the type of a field in words; a type of its own links to its table."""
    if ref := field.get("$ref"):
        name = ref.rpartition("/")[2]
        if "properties" in defs.get(name, {}):
            return f"[{_title(name)}](#{_title(name).lower()})"
        return _type(defs.get(name, {}), defs)
    if several := field.get("oneOf") or field.get("anyOf"):
        kinds = [_type(one, defs) for one in several if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    kind = field.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(_type({**field, "type": one}, defs) for one in kind if one != "null")
    if kind == "array":
        return f"list of {_type(field.get('items', {}), defs)}"
    names = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    return str({"object": "mapping"}.get(kind, names.get(kind, kind)))
