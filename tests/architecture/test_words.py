"""One thing has one name, and the name is a word of the field."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import house

NO_WORDS_OF_THE_FIELD = house.words(
    "agenda attic beaten book braid busybody choir crew desk farm fleet hands handout homes "
    "intake keeper keepers kitchen liquid mover muster news parcel seat seats shop strikes"
)
"""Metaphors that files and public classes were once named by; each had a term of the literature."""


def public_classes() -> Iterator[tuple[str, str]]:
    """Each public class at the top of a file, and the file's name."""
    for module in house.modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, module.name


def test_no_two_public_classes_have_one_name() -> None:
    files = defaultdict(list)
    for name, file in public_classes():
        files[name].append(file)
    assert not {name: found for name, found in files.items() if len(found) > 1}


def test_files_and_classes_are_named_as_the_literature_names_the_thing() -> None:
    names = [*(module.name.rpartition(".")[2] for module in house.modules())]
    names += [name for name, _ in public_classes()]
    parts = {name: re.findall(r"[A-Z]?[a-z]+", name) for name in names}
    metaphors = {
        name
        for name, words in parts.items()
        if any(word.lower() in NO_WORDS_OF_THE_FIELD for word in words)
    }
    assert not metaphors
