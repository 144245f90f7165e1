"""Measured costs survive as text; a key changes with everything a measurement depends on."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.model.errors import SpecError
from warren.model.job import Job
from warren.profile.cache import Measured, cache_key, decode_cache, encode_cache, measured_row

JOB = Job(index=0, name="j", scale=1, rounds=1, app="a.py:A", batch=8, params={"lr": 0.1})
SIZES = st.integers(0, 2**62)
ENTRIES = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.builds(
        Measured,
        comp_s=st.floats(1e-9, 1e9),
        sync_s=st.none() | st.floats(0, 1e9),
        model_bytes=SIZES,
        memory_bytes=SIZES,
    ),
)


@given(ENTRIES)
def test_decode_of_encode_is_the_cache_itself(entries: dict[str, Measured]) -> None:
    assert decode_cache(encode_cache(entries).encode(), "cache.json") == entries


def test_a_key_changes_with_source_class_params_batch_type_and_numerics_alone() -> None:
    base = cache_key(b"code", JOB, "V100", "n")
    others = [
        cache_key(b"code2", JOB, "V100", "n"),
        cache_key(b"code", replace(JOB, app="a.py:B"), "V100", "n"),
        cache_key(b"code", replace(JOB, params={"lr": 0.2}), "V100", "n"),
        cache_key(b"code", replace(JOB, batch=9), "V100", "n"),
        cache_key(b"code", JOB, "T4", "n"),
        cache_key(b"code", JOB, "V100", "m"),
    ]
    assert len({base, *others}) == 7
    same = replace(JOB, name="k", app="elsewhere/a.py:A", seed=5, scale=9, index=3)
    assert cache_key(b"code", same, "V100", "n") == base


def test_a_measured_row_holds_the_largest_sizes_and_all_times() -> None:
    row = measured_row(
        JOB,
        {
            "V100": Measured(comp_s=0.1, sync_s=0.01, model_bytes=10, memory_bytes=7),
            "T4": Measured(comp_s=0.2, model_bytes=10, memory_bytes=9),
        },
    )
    assert (row.model, row.batch, row.model_bytes, row.memory_bytes) == ("measured:j", 8, 10, 9)
    assert row.comp_s == {"V100": 0.1, "T4": 0.2}
    assert row.sync_s == {"V100": 0.01}


def test_a_damaged_cache_is_refused_in_one_line() -> None:
    text = encode_cache(
        {"k": Measured(comp_s=0.5, model_bytes=3), "l": Measured(comp_s=1.0, model_bytes=4)}
    )
    rng = random.Random(1)
    refused = 0
    for _ in range(500):
        data = bytearray(text.encode())
        data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            decode_cache(bytes(data[: rng.randrange(len(data))] or data), "c.json")
        except SpecError as error:
            refused += 1
            (line,) = str(error).splitlines()
            assert line.startswith("c.json: is not a cache"), line
    assert refused > 400


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"comp_s": 1},
        5,
        None,
        [1],
        {"comp_s": 0, "sync_s": None, "model_bytes": 1, "memory_bytes": 1},
        {"comp_s": 1, "sync_s": None, "model_bytes": True, "memory_bytes": 1},
        {"comp_s": 1, "sync_s": -1, "model_bytes": 1, "memory_bytes": 1},
    ],
)
def test_an_entry_that_is_no_measurement_is_refused(entry: object) -> None:
    content = json.dumps({"format": 1, "measured": {"k": entry}}).encode()
    with pytest.raises(SpecError, match="delete the file"):
        decode_cache(content, "c.json")
