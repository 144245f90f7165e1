"""Compiled code stays inside its arrays, and no clock or network is needed to see it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CASES = """
import sys
sys.path[:0] = [{sim!r}, {solve!r}]
from sim_worlds import random_plan, random_world
from test_solve_dispatch import random_problem
from test_solve_rules import random_instance
from warren.sim.compiled import run_plan
from warren.solve.algorithm1 import algorithm1
from warren.solve.branch import new_branch, search
from warren.solve.dispatch import dispatch
from warren.solve.guided import guided
from warren.solve.insertion import insertion
import numpy as np
for seed in range(6):
    world = random_world(seed, "lane", seed % 2 == 0)
    run_plan(random_plan(world, seed, 1 + seed % 3), world.run, world.costs)
    p = random_problem(seed, 1 + seed % 2)
    dispatch(p)
    pi = np.repeat(np.arange(len(p.scale_J)), p.scale_J)
    algorithm1(pi, np.zeros_like(pi), p.arrival_ns_J, p.scale_J, p.rounds_J, p.comp_ns_JT,
               p.sync_ns_JT, p.fits_JT, p.type_D, False)
    for stretch in (1, 3):
        instance, rule = random_instance(seed, stretch)
        insertion(instance, np.argsort(rule.priority_J), 1e-8 * instance.comp_ns_JT)
        guided(instance, rule)
        branch = new_branch(instance, np.inf, makespan=False)
        if branch is not None:
            search(branch, 500)
"""


def test_kernels_pass_with_bounds_checks(tmp_path: Path) -> None:
    here = Path(__file__).parent
    code = CASES.format(sim=str(here), solve=str(here.parent / "solve"))
    environment = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "NUMBA_OPT": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
