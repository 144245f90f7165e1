from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from training_bench import Points, a_job

from warren.live.oracle.plain import train
from warren.live.process.preload import ALWAYS, MENTIONED
from warren.live.training.numerics import PINNED_ENV, clean_environment, numerics_class, pin
from warren.live.training.seeding import reseed, seed_dataset, seed_model

pytestmark = pytest.mark.slow

PROGRAM = """
import importlib, os, sys, warnings
for name in sys.argv[1:]:
    try: importlib.import_module(name)
    except ImportError: pass
print(len(os.listdir("/proc/self/task")), "pandas" in sys.modules)
warnings.simplefilter("error")
from warren.live.training.numerics import numerics_class, pin
pin()
from training_bench import Points, a_job
from warren.live.oracle.plain import train
print(numerics_class())
print(train(Points(), a_job()).digest)
"""


def test_only_essentials_and_the_pins_reach_user_code() -> None:
    current = {"PATH": "/bin", "HOME": "/h", "MKL_CBWR": "AVX2", "OMP_NUM_THREADS": "8", "A": "b"}
    assert clean_environment(current) == {"PATH": "/bin", "HOME": "/h", **PINNED_ENV}


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What ``PROGRAM`` prints in a clean environment."""
    loads = [*ALWAYS, *MENTIONED.values(), "pandas", "pyarrow.parquet"]
    here = clean_environment(os.environ) | {"PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", PROGRAM, *loads]
    run = subprocess.run(command, env=here, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_what_zygotes_load_starts_no_thread(said: list[str]) -> None:
    """Not with pandas there too, which scikit-learn loads, and Arrow with it."""
    assert said[0] == "1 True"


def test_a_process_with_a_clean_environment_computes_the_same_bits(said: list[str]) -> None:
    assert said[1:] == [numerics_class(), train(Points(), a_job()).digest]


def test_the_class_names_library_instructions_and_threads() -> None:
    pin()
    form = r"torch 2\.\d+\.\d+\S*; \w+ [A-Za-z0-9 ]+; 1 thread"
    assert re.fullmatch(form, numerics_class())
    assert torch.are_deterministic_algorithms_enabled()


def _draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(1))


def test_reseeding_sets_every_generator_and_each_task_has_its_own_numbers() -> None:
    seen = set()
    for seed in (0, 1, 2**63):
        for round_no, shard in [(0, 0), (0, 1), (1, 0), (0, -1), (1, -1)]:
            reseed(seed, round_no, shard)
            draws = _draws()
            reseed(seed, round_no, shard)
            assert _draws() == draws
            seen.add(draws)
        for start in (seed_model, seed_dataset):
            start(seed)
            seen.add(_draws())
    for column in zip(*seen, strict=True):
        assert len(set(column)) == 21
