"""Rooms without a clock, without chance and without I/O give the same answer everywhere."""

from __future__ import annotations

import ast

import house
import pytest
from bans import CHANCE, CLOCK, FIXED, ORDER, OUTSIDE, SHOW, broken_bans


def test_pure_rooms_touch_nothing_outside() -> None:
    broken = [line for module in house.modules() for line in broken_bans(module)]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("source", "instead"),
    [
        ("import time", CLOCK),
        ("from time import perf_counter", CLOCK),
        ("from datetime import datetime\nstart = datetime.now()", CLOCK),
        ("import datetime as dt\nclock = dt.datetime.utcnow", CLOCK),
        ("import random\nrandom.shuffle([])", CHANCE),
        ("from random import choice\nchoice([1])", CHANCE),
        ("import random\nrandom.Random()", CHANCE),
        ("import numpy as np\nnp.random.seed(0)", CHANCE),
        ("import numpy as np\nnp.random.default_rng()", CHANCE),
        ("from numpy.random import normal\nnormal()", CHANCE),
        ("import uuid", CHANCE),
        ("open('x')", OUTSIDE),
        ("from pathlib import Path\nPath('x').read_text()", OUTSIDE),
        ("def f(path):\n    path.mkdir()", OUTSIDE),
        ("import os\nos.environ['X']", OUTSIDE),
        ("from os import getenv\ngetenv('X')", OUTSIDE),
        ("import socket", OUTSIDE),
        ("import importlib.resources as r\nr.files('warren').joinpath('x').read_bytes()", OUTSIDE),
        ("print('x')", SHOW),
        ("import sys\nsys.stderr.write('x')", SHOW),
        ("import logging", SHOW),
        ("hash('x')", FIXED),
        ("sorted([], key=id)", FIXED),
        ("for x in {1, 2}: pass", ORDER),
        ("for x in set('ab'): pass", ORDER),
        ("y = [x for x in set('ab')]", ORDER),
        ("y = {x: 1 for x in frozenset('ab')}", ORDER),
        ("y = sum(x for x in {0.1, 0.2})", ORDER),
        ("y = list({1, 2})", ORDER),
        ("y = next(iter({1, 2}))", ORDER),
        ("y = ','.join({'a', 'b'})", ORDER),
        ("y = [*{1, 2}]", ORDER),
        ("def f(x: set[int]):\n    for y in x - {1}: pass", ORDER),
        ("def f():\n    x = set()\n    x.add(1)\n    return x.pop()", ORDER),
        ("class A:\n    x: set[int]\n\ndef f(a):\n    return [y for y in a.x]", ORDER),
        ("def f(a, b):\n    return list(a.union(b))", ORDER),
    ],
)
def test_a_banned_thing_is_found_and_its_replacement_named(source: str, instead: str) -> None:
    for room in ("core", "policy.place", "report"):
        found = list(broken_bans(house.parse(source, f"warren.{room}.x")))
        assert found, source
        assert all(line.endswith(instead) for line in found)


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nrng = np.random.default_rng(7)\nrng.normal()",
        "import numpy as np\nrng = np.random.Generator(np.random.PCG64(7))",
        "import numpy as np\n\ndef f(rng: np.random.Generator): ...",
        "from datetime import datetime\ndatetime.fromisoformat('2017-10-01')",
        "for x in sorted({1, 2}): pass",
        "y = sorted(x for x in {1, 2})",
        "y = {x + 1 for x in {1, 2}}",
        "y = len(set('ab')) + max({1, 2})",
        "y = all(x > 0 for x in {1, 2})",
        "for x in {'a': 1}: pass",
        "def f(x: set[int], y: list[int]):\n    return [z for z in y if z in x]",
        "def f():\n    x = set()\n    x = [1]\n    return list(x)",
        "from pathlib import PurePosixPath\nname = PurePosixPath('a/b').name",
        "import os.path\nos.path.join('a', 'b')",
        "import io\nbuffer = io.BytesIO()\nbuffer.read()",
        "class A:\n    id: int\n\ndef f(a: A): return a.id",
        "def f(read):\n    return read('x')",
        "def f(random):\n    return random.integers(4)",
    ],
)
def test_an_allowed_thing_is_not_found(source: str) -> None:
    assert not list(broken_bans(house.parse(source, "warren.core.x")))


@pytest.mark.parametrize("room", ["live", "cli"])
def test_live_and_cli_may_do_all_of_it(room: str) -> None:
    source = "import time, subprocess\nprint(time.time(), open('x'))"
    assert not list(broken_bans(house.parse(source, f"warren.{room}.x")))


def test_a_record_s_tag_is_a_word_of_its_own_so_that_its_class_can_be_renamed() -> None:
    tags = [
        (module.name, keyword.value.lineno)
        for module in house.modules()
        for node in house.nodes(module.tree)
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg == "tag" and not isinstance(ast.literal_eval(keyword.value), str)
    ]
    assert not tags


def test_the_pure_folders_of_the_service_are_watched() -> None:
    clock = "import time\n"
    assert list(broken_bans(house.parse(clock, "warren.serve.queue.state")))
    assert not list(broken_bans(house.parse(clock, "warren.serve.daemon.daemon")))
    watched = [one.name for one in house.modules() if one.name.startswith("warren.serve.schedule.")]
    assert len(watched) > 4
