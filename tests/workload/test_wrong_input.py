"""2,000 seeded mutations of valid files: each loads or is refused in one clear line a problem."""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Final

import pytest
import yaml
from workload_files import FILES, reader

from warren.model.errors import SpecError
from warren.workload.run_file import load_cluster, load_jobs, load_run, run_from_dict
from warren.workload.specs.write import dump_run

pytestmark = pytest.mark.slow

MUTATIONS: Final = 2_000
BLOCKS: Final = 10
KEYS: Final = (
    "name",
    "jobs",
    "format",
    "<path>",
    "<<",
    "[key]",
    "",
    "\u2028",
    "é",
    "x" * 2000,
    "0",
)
VALUES: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1.5, 10**18, 10**40, 10**350, -(10**400), 1e308, float("nan"),
    float("inf"), "", " ", "nan", "-5 s", "1e999 s", "9" * 500, "10 GB", "a\nb", "\0", "\ud800",
    "\U0001f600", "..", "../../x", "/dev/null", "x" * 5000, [], {}, [[]], [None], {"a": {"b": 1}},
    {"": 1}, [{}], {"ray": "x"}, "run.yaml", "jobs.csv", "cluster.yaml", "=", "*", "&a", "!!x y",
)  # fmt: skip
SNIPPETS: Final = (
    "\t", "\0", "\x1b[2J", "- ", ": ", "{", "}", "[", "]", "'", '"', "&a ", "*a", "!!python/none ",
    "---\n", "...\n", "%YAML 9.9\n", "# ", ",", "\r", "\n\n", "\ufeff", "\u2028", "é", "? ", "|\n",
    "{" * 300, "9" * 5000, ".inf", ".nan", "<<: {a: b}\n", '""""', "~", "1_000", "0x1F", "1:30",
)  # fmt: skip


def load(files: dict[str, str | bytes], changed: str) -> None:
    read = reader(files)
    load_run("d/run.yaml", read)
    if changed.endswith("cluster.yaml"):
        load_cluster(changed, read)
    if "job" in changed:
        load_jobs(changed, read, batches={"vgg19": 128})


def spots(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a value."""
    if isinstance(data, dict | list):
        for key in list(data) if isinstance(data, dict) else range(len(data)):
            yield data, key
            yield from spots(data[key])


def change_values(text: str, rng: random.Random) -> str:
    """Delete, rename, repeat or replace values of a YAML file, then write it out again."""
    data = yaml.safe_load(text)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(spots(data))
        if not places:
            break
        inside, key = rng.choice(places)
        match rng.randrange(4):
            case 0:
                del inside[key]
            case 1 if isinstance(inside, dict):
                new = rng.choice((*KEYS, f"{key}x", str(key)[1:], str(key).upper()))
                inside[new] = inside.pop(key)
            case 2 if isinstance(inside, list):
                inside.append(inside[key])
            case _:
                inside[key] = deepcopy(rng.choice(VALUES))
    write = rng.choice((lambda value: yaml.safe_dump(value, allow_unicode=True), json.dumps))
    return str(write(data))


def change_text(text: str, rng: random.Random) -> str:
    """Cut, swap or repeat lines, or put odd text anywhere."""
    lines = text.splitlines(keepends=True)
    match rng.randrange(6):
        case 0:
            return text[: rng.randrange(len(text))]
        case 1:
            rng.shuffle(lines)
        case 2:
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
        case 3:
            del lines[rng.randrange(len(lines))]
        case _:
            for _ in range(rng.choice((1, 1, 3))):
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice(SNIPPETS) + text[at + rng.choice((0, 0, 1, 5)) :]
            return text
    return "".join(lines)


def change_cells(text: str, rng: random.Random) -> str:
    """Replace, drop or add cells of a CSV file."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(rng.choice((1, 1, 2, 5))):
        row = rng.choice(rows)
        if row:
            at = rng.randrange(len(row))
            row[at : at + rng.choice((0, 1, 1, 1, 2))] = [str(rng.choice(VALUES))]
    return rng.choice(("\n", "\n", "\r\n", "\r")).join(",".join(row) for row in rows)


def change_bytes(text: str, rng: random.Random) -> bytes:
    """Random bytes in place of some or all of the file."""
    data = bytearray(text.encode())
    if rng.random() < 0.2:
        return rng.randbytes(rng.randrange(400))
    for _ in range(rng.choice((1, 3, 20))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def mutation(seed: int) -> tuple[dict[str, str | bytes], str]:
    """All files, one of them changed, and the name of that one."""
    rng = random.Random(seed)
    name = rng.choice(sorted(FILES))
    structured: Callable[[str, random.Random], str]
    structured = change_cells if name.endswith(".csv") else change_values
    change = rng.choice(
        (structured, structured, structured, change_text, change_text, change_bytes)
    )
    changed = change(FILES[name], rng)
    if isinstance(changed, str):
        changed = changed.encode("utf-8", "surrogatepass")
    return {**FILES, name: changed}, name


def complaint(error: SpecError) -> str:
    """What is wrong with the form of an error; empty if nothing."""
    lines = str(error).splitlines()
    if len(lines) != len(error.problems) or not lines:
        return f"{len(error.problems)} problems in {len(lines)} lines"
    for line in lines:
        named = line.startswith("d/") or "(named in d/" in line
        if not named or not line.isprintable() or len(line) > 600:
            return f"not one clear line: {line!r}"
    return ""


def outcome(call: Callable[[], object]) -> str:
    """ "loaded", "refused", or what is wrong with the way it was refused."""
    try:
        call()
    except SpecError as error:
        return complaint(error) or "refused"
    except Exception as error:
        return f"raised {error!r}\n{traceback.format_exc()}"
    return "loaded"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_mutated_file_loads_or_is_refused_in_clear_lines(block: int) -> None:
    outcomes = []
    for seed in range(block, MUTATIONS, BLOCKS):
        files, name = mutation(seed)
        outcomes.append(outcome(partial(load, files, name)))
        assert outcomes[-1] in ("loaded", "refused"), f"seed {seed}, {name}: {files[name]!r}"
    assert 0.3 < outcomes.count("refused") / len(outcomes) < 0.99


def test_what_loads_after_a_mutation_can_be_written_down_and_read_again() -> None:
    loaded = 0
    for seed in range(0, MUTATIONS, 3):
        files, _ = mutation(seed)
        try:
            run = load_run("d/run.yaml", reader(files))
        except SpecError:
            continue
        loaded += 1
        again = load_run("x/run.yaml", reader({"x/run.yaml": dump_run(run)}))
        assert again == run, f"seed {seed}"
    assert loaded > 50


def test_mutated_python_objects_and_overrides_are_refused_in_clear_lines() -> None:
    data = yaml.safe_load(FILES["d/run.yaml"])
    keys = [f"{key}.{inner}" for key in data for inner in ("", "x", "seed", "model")]
    for seed in range(400):
        rng = random.Random(seed)
        copy = json.loads(json.dumps(data))
        inside, key = rng.choice(list(spots(copy)))
        inside[key] = deepcopy(rng.choice(VALUES))
        overrides = {rng.choice([*data, *keys, *KEYS]): rng.choice(VALUES)}
        texts = {key: str(value) for key, value in overrides.items()}
        for call in (
            partial(run_from_dict, copy, "d", reader(), name="d/x"),
            partial(run_from_dict, data, "d", reader(), name="d/x", overrides=overrides),
            partial(load_run, "d/run.yaml", reader(), texts),
        ):
            assert outcome(call) in ("loaded", "refused"), f"seed {seed}"
