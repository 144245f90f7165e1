"""Whatever optimizers, schedules and hooks keep goes on after a loss and a move, or is refused."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn, optim
from training_bench import Points, a_job, drive, loaded_anew, serve, whole

from warren.live.oracle.determinism_check import _compare
from warren.live.oracle.determinism_probe import _compute
from warren.live.oracle.plain import train
from warren.live.process.specs import ProbeRole
from warren.live.server.restored_copy import RestoredCopy
from warren.live.training.app.app_loader import build_app, forget_apps
from warren.live.training.checkpoints.archive import Archive, unpack
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.model.errors import SpecError
from warren.model.job import Evaluate, Job

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
from _restored_base import Base
from _restored_data import DATA
from _restored_kinds import own_kinds
from _restored_run import Ended, Loss, alone, struck
from _restored_tasks import TASKS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*mutable default|.*lr_scheduler.step:UserWarning"),
]
EXPERIMENTS = Path(__file__).parents[2] / "experiments"
KINDS = own_kinds()
SEEN = TASKS | DATA
OPTIMISERS: dict[str, Any] = {
    "SGD": lambda ps: optim.SGD(ps, lr=0.05, momentum=0.9, nesterov=True),
    "Adam": lambda ps: optim.Adam(ps, lr=0.01, amsgrad=True),
    "AdamW": lambda ps: optim.AdamW(ps, lr=0.01),
    "Adamax": lambda ps: optim.Adamax(ps, lr=0.01),
    "NAdam": lambda ps: optim.NAdam(ps, lr=0.01, momentum_decay=0.1),
    "RAdam": lambda ps: optim.RAdam(ps, lr=0.01),
    "ASGD": lambda ps: optim.ASGD(ps, lr=0.05, t0=2),
    "Adagrad": lambda ps: optim.Adagrad(ps, lr=0.05, lr_decay=0.1),
    "Adadelta": lambda ps: optim.Adadelta(ps),
    "RMSprop": lambda ps: optim.RMSprop(ps, lr=0.01, momentum=0.5, centered=True),
    "Rprop": lambda ps: optim.Rprop(ps, lr=0.01),
    "Adafactor": lambda ps: optim.Adafactor(ps, lr=0.01),
    "Muon": lambda ps: optim.Muon([one for one in ps if one.dim() == 2], lr=0.01),
}


class Typed(Base):
    """The small perceptron in some type."""

    dtype: str = "float32"
    chosen: str = "SGD"

    def model(self) -> nn.Module:
        return super().model().to(getattr(torch, self.dtype))

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        found: optim.Optimizer = OPTIMISERS[self.chosen](parameters)
        return found


def test_every_optimizer_of_torch_that_needs_no_closure_is_tried() -> None:
    known = {name for name, one in vars(optim).items() if isinstance(one, type)}
    refused = {"LBFGS", "SparseAdam", "Optimizer"}
    assert known - refused == set(OPTIMISERS)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("chosen", OPTIMISERS)
def test_an_optimizer_of_torch_goes_on_with_its_bits_in_every_type(chosen: str, dtype: str) -> None:
    job = a_job(rounds=5, scale=1)

    def make() -> Typed:
        return Typed(chosen=chosen, dtype=dtype)

    expected = alone(make, job)
    assert not expected.line
    parts = 1 if chosen in ("Adafactor", "Muon") else 2
    losses = [Loss(1, 1, moved=False), Loss(2, parts, moved=True), Loss(4, 1, moved=False)]
    assert struck(make, job, losses) == expected


def fresh(job: Job) -> Any:
    """The app as a new process has it."""
    return loaded_anew(job, EXPERIMENTS)


@pytest.mark.parametrize("app", KINDS)
def test_what_barriers_change_goes_on_after_losses_and_moves_or_is_refused(app: str) -> None:
    job = a_job(rounds=9, scale=1, app=app, evaluate=Evaluate(every=3))
    expected = alone(lambda: fresh(job), job)
    # The same line in the plain loop, where nothing is lost.
    assert bool(expected.line) == bool(KINDS[app].refused)
    assert KINDS[app].refused in expected.line
    assert expected.line == "" or expected.line.startswith(f"SpecError: {app}")
    losses = [Loss(2, 1, moved=False), Loss(7, 1, moved=True)]
    assert struck(lambda: fresh(job), job, losses) == expected


@pytest.mark.parametrize(
    "kind", ["CountsSteps", "SlowByParameter", "OnParameters", "Masters", "OddKeys", "SetOrder"]
)
def test_several_servers_divide_what_belongs_to_parameters(kind: str) -> None:
    job = a_job(rounds=8, scale=1, app=f"_restored_optimisers.py:{kind}")
    expected = alone(lambda: fresh(job), job)
    losses = [Loss(0, 2, moved=False), Loss(3, 3, moved=False), Loss(5, 1, moved=True)]
    assert struck(lambda: fresh(job), job, losses) == expected
    assert not expected.line


def on_a_ring(make: Any, job: Job) -> Ended:
    """Train on one rank, which computes its tasks with the model of its barrier."""
    runner = TaskRunner(make(), job)
    store = ParameterStore(runner.built.app, job, runner=runner)
    try:
        while not store.finished:
            store.add(0, runner.run(whole(store), store.version, 0))
            store.step()
            store.conclude()
    except SpecError as error:
        return Ended("", "", f"SpecError: {error}")
    return Ended(store.digest(), "{}")


@pytest.mark.parametrize("kind", SEEN)
def test_what_barriers_change_and_tasks_read_ends_the_same_in_every_engine(kind: str) -> None:
    made = SEEN[kind]
    job = a_job(rounds=6, scale=1, app=f"{made.__module__}.py:{kind}")
    ring = replace(job, sync="ring")
    expected = alone(lambda: fresh(job), job)
    parts = 2 if made.separable else 1
    assert struck(lambda: fresh(job), job, [Loss(0, parts, moved=False)]) == expected
    assert on_a_ring(lambda: fresh(job), ring) == alone(lambda: fresh(job), ring)


class Listed(Base):
    """Says that it is separable, and keeps a list by position."""

    separable = True

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Lists(optim.SGD):
            last: Any = None

            def step(self, closure: Any = None) -> Any:
                self.last = [one.detach().clone() for one in parameters]
                return super().step(closure)

        return Lists(parameters, lr=0.1, fused=False)


def test_tensors_that_no_server_owns_are_refused_by_name_with_several_servers() -> None:
    found = struck(Listed, a_job(), [Loss(0, 2, moved=False)])
    assert "optimizer.last holds tensors that belong to no single parameter" in found.line


class Odd(Points):
    """What its first step leaves in the state no checkpoint can keep."""

    value: ClassVar[Any] = object()

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        optimizer = optim.SGD([one for _, one in named_parameters], lr=0.1)
        optimizer.register_step_post_hook(self.odd)
        return optimizer

    def odd(self, optimizer: Any, *_: Any) -> None:
        optimizer.state["odd"] = self.value


def test_what_no_checkpoint_can_keep_is_refused_at_the_first_step_and_not_when_one_is_due() -> None:
    line = r"optimizer.state\['odd'\] holds a object, which a checkpoint cannot keep"
    with pytest.raises(SpecError, match=line):
        serve(Odd, a_job(rounds=1))
    with pytest.raises(SpecError, match=line):
        train(Odd(), a_job(rounds=1))


def test_a_checkpoint_of_another_format_is_refused_in_one_line() -> None:
    store, _ = serve(Points, a_job(), stop_at=2)
    found, tree = unpack(store.checkpoint_part())
    for change in ({"format": 1}, {"format": None}):
        old = Archive().pack(found, json.loads(json.dumps({**tree, **change})))
        with pytest.raises(SpecError, match="another version of Warren has made it") as raised:
            ParameterStore(Points(), a_job()).restore([old])
        assert "\n" not in str(raised.value)


def test_a_store_that_went_on_goes_back_to_what_a_checkpoint_holds() -> None:
    job = a_job(rounds=8, scale=1, app="_restored_hooks.py:AverageInApp")
    store, _ = serve(lambda: fresh(job), job, stop_at=3)
    saved = bytes(store.checkpoint_part())
    drive(store, lambda: fresh(job), job)
    ended = bytes(store.checkpoint_part())
    store.restore([saved])
    assert bytes(store.checkpoint_part()) == saved
    drive(store, lambda: fresh(job), job)
    assert bytes(store.checkpoint_part()) == ended


HIDDEN = """
from contextvars import ContextVar
from _restored_base import Base

steps = ContextVar("steps", default=0)

class Hidden(Base):
    def steps(self, parameters):
        optimizer = super().steps(parameters)

        def hook(*_):
            steps.set(steps.get() + 1)
            if steps.get() > 4:
                optimizer.param_groups[0]["lr"] = 0.1 / steps.get()

        optimizer.register_step_post_hook(hook)
        return optimizer
"""


COUNTS = """
import counter
from _restored_base import Base

class Counts(Base):
    def steps(self, parameters):
        optimizer = super().steps(parameters)

        def hook(*_):
            counter.calls += 1
            optimizer.param_groups[0]["lr"] = 0.1 / counter.calls

        optimizer.register_step_post_hook(hook)
        return optimizer
"""


def test_a_global_of_a_file_beside_the_app_is_kept(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(COUNTS)
    (tmp_path / "counter.py").write_text("calls = 0\n")
    job = a_job(rounds=9, scale=1, app="app.py:Counts")

    def make() -> Any:
        forget_apps()
        return build_app(job, str(tmp_path))

    expected = alone(make, job)
    assert struck(make, job, [Loss(4, 1, moved=False), Loss(7, 1, moved=True)]) == expected
    assert not expected.line


CACHED = """
import functools
from _restored_base import Base

@functools.lru_cache
def table(n):
    return [n * i for i in range(3)]

class Cached(Base):
    def steps(self, parameters):
        optimizer = super().steps(parameters)

        def hook(*_):
            optimizer.param_groups[0]["lr"] = 0.1 * table(1)[1]

        optimizer.register_step_post_hook(hook)
        return optimizer
"""


def test_a_cached_function_is_the_same_in_a_restored_copy(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CACHED)
    job = a_job(rounds=9, scale=1, app="app.py:Cached")

    def make() -> Any:
        forget_apps()
        return build_app(job, str(tmp_path))

    store = watched(make, job)
    store.repeated.verify(make(), store.version)


def test_a_check_finds_what_neither_a_search_nor_the_first_rounds_show(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HIDDEN)
    job = a_job(rounds=20, app="app.py:Hidden")
    files = []
    for disturbed in (False, True):
        forget_apps()
        header, parts = _compute(ProbeRole(str(tmp_path), job, "", "", 3, disturbed))
        head = json.dumps(header).encode()
        files.append(len(head).to_bytes(8, "little") + head + b"".join(parts))
    report = _compare(job, *files)
    assert (report.same, report.where) == (False, "the state after more steps by the last updates")


def watched(make: Any, job: Job) -> ParameterStore:
    """A store that has noted three steps."""
    store, _ = serve(make, job, trainers=1, stop_at=2)
    store.repeated.watch(store.checkpoint_part())
    drive(store, make, job, trainers=1, stop_at=5)
    return store


@pytest.mark.parametrize(
    "app",
    ["_restored_optimisers.py:SlowList", "_restored_hooks.py:AverageInApp",
     "_restored_hooks.py:HookGlobal", "_restored_hooks.py:Teacher"],
)  # fmt: skip
def test_a_restored_copy_makes_the_same_steps_again(app: str) -> None:
    job = a_job(rounds=9, scale=1, app=app, evaluate=Evaluate(every=1))
    store = watched(lambda: fresh(job), job)
    assert store.repeated.useful
    store.repeated.verify(fresh(job), store.version)


def test_a_copy_that_goes_on_otherwise_is_refused_by_the_name_of_what_differs(
    tmp_path: Path,
) -> None:
    (tmp_path / "app.py").write_text(HIDDEN)
    job = a_job(rounds=9, scale=1, app="app.py:Hidden")

    def make() -> Any:
        forget_apps()
        return build_app(job, str(tmp_path))

    store = watched(make, job)
    with pytest.raises(SpecError, match=r"goes on with another .*hook keeps what no checkpoint"):
        store.repeated.verify(make(), store.version)


def test_metrics_that_depend_on_what_is_lost_are_refused() -> None:
    class Reads(Base):
        kept = iter(range(99))

        def evaluate(self, model: nn.Module) -> dict[str, float]:
            return {"seen": float(self.seen)}

        def dataset(self) -> Any:
            self.seen = next(self.kept)
            return super().dataset()

    store = watched(Reads, a_job(rounds=9, scale=1, evaluate=Evaluate(every=1)))
    with pytest.raises(SpecError, match="gives other metrics once the job was restored"):
        store.repeated.verify(Reads(), store.version)


@pytest.mark.live
def test_a_server_lets_a_child_compare_and_goes_on_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HIDDEN)
    job = a_job(rounds=400, scale=1, app="app.py:Hidden")
    forget_apps()
    store = ParameterStore(build_app(job, str(tmp_path)), job)
    runner = TaskRunner(build_app(job, str(tmp_path)), job)
    copy = RestoredCopy(store, job, str(tmp_path))

    def train_on() -> None:
        while not store.finished:
            store.add(0, runner.run(whole(store), store.version, 0))
            store.step()
            store.conclude()
            copy.after_round()
            if store.version > 5:
                time.sleep(0.05)

    with pytest.raises(SpecError, match="hook keeps what no checkpoint sees"):
        train_on()


class Clears(Base):
    """Clears gradients at the barrier, where torch keeps something on its own function."""

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)
        vars(optim.Optimizer.zero_grad.__wrapped__).pop("__dynamo_disable", None)
        optimizer.register_step_post_hook(lambda *_: optimizer.zero_grad())
        return optimizer


def test_an_optimizer_that_clears_gradients_at_the_barrier_is_not_refused() -> None:
    expected = alone(Clears, a_job(scale=1))
    assert not expected.line
    assert struck(Clears, a_job(scale=1), [Loss(2, 1, moved=False)]) == expected
