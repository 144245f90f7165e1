"""No file of the package needs itself, by way of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import house


def imported_files() -> dict[str, set[str]]:
    """Which files each one imports anywhere in it, at its top or in a function."""
    names = {module.name for module in house.modules()}

    def files_of(dotted: str) -> Iterator[str]:
        parent = dotted.rpartition(".")[0]
        yield from (one for one in (dotted, parent) if one in names)

    return {
        module.name: {
            next(files_of(one.module), "") for one in house.imports(module) if "." in one.module
        }
        - {"", module.name}
        for module in house.modules()
        if not module.is_package
    }


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The names along a way from a file back to itself; empty if there is none."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            found = walk(other, [*way, name])
            if found:
                return found
        done.add(name)
        return []

    return next((found for name in graph if (found := walk(name, []))), [])


def test_no_import_leads_back_to_its_file() -> None:
    assert not circle(imported_files())


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert not circle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
