from __future__ import annotations

from typing import Any

import pytest
import torch
from safetensors.torch import load
from torch.optim import SGD, Adam, AdamW, RMSprop, lr_scheduler
from training_bench import Points, a_job, drive, serve

from warren.live.training.parameter_store import ParameterStore
from warren.live.training.tensor_layout import digest
from warren.model.errors import WarrenError


def _sequence(optimizer: torch.optim.Optimizer) -> Any:
    warm = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
    return lr_scheduler.SequentialLR(optimizer, [warm, _milestones(optimizer)], milestones=[3])


def _milestones(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.MultiStepLR(optimizer, [2, 5], gamma=0.3)


CASES: dict[str, tuple[Any, Any]] = {
    "momentum": (lambda ps: SGD(ps, lr=0.05, momentum=0.9, nesterov=True), _milestones),
    "adam": (lambda ps: Adam(ps, lr=0.01, amsgrad=True), _sequence),
    "adamw": (lambda ps: AdamW(ps, lr=0.01), lambda o: lr_scheduler.OneCycleLR(o, 0.1, 20)),
    "rmsprop": (lambda ps: RMSprop(ps, lr=0.01, centered=True), lambda o: None),
    "lambda": (lambda ps: SGD(ps, lr=0.1), lambda o: lr_scheduler.LambdaLR(o, lambda r: 0.9**r)),
}


class Chosen(Points):
    case: str = "momentum"

    def optimizer(self, named_parameters: Any) -> torch.optim.Optimizer:
        return CASES[self.case][0](list(named_parameters))

    def schedule(self, optimizer: torch.optim.Optimizer) -> Any:
        return CASES[self.case][1](optimizer)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("at", [0, 4])
def test_a_job_restored_in_another_store_goes_on_with_the_same_bits(case: str, at: int) -> None:
    job = a_job(rounds=9, scale=2)

    def make() -> Chosen:
        return Chosen(case=case)

    whole, _ = serve(make, job)
    half, _ = serve(make, job, stop_at=at)
    saved = half.checkpoint_part()
    assert saved == half.checkpoint_part()
    other = ParameterStore(make(), job)
    other.restore([saved])
    assert other.version == at
    assert other.checkpoint_part() == saved
    drive(other, make, job)
    assert other.checkpoint_part() == whole.checkpoint_part()
    other.restore([saved])  # back in time, in a store that went on
    drive(other, make, job)
    assert other.digest() == whole.digest()


def test_the_saved_file_is_the_state_dict_and_its_hash_is_the_digest() -> None:
    store, _ = serve(Points, a_job())
    state = load(store.save())
    assert sorted(state) == sorted(store.state_dict())  # the library gives no order
    assert digest(state) == store.digest()


def test_the_digest_covers_name_type_shape_and_bytes() -> None:
    ones = torch.ones(2, 2)
    states = [
        {"a": ones},
        {"b": ones},
        {"a": ones.reshape(4)},
        {"a": ones.double()},
        {"a": ones.view(torch.int32)},
        {"a": ones * 2},
        {"a": ones, "b": ones},
    ]
    assert len({digest(state) for state in states}) == len(states)
    assert digest({"a": ones, "b": ones * 2}) == digest({"b": ones * 2, "a": ones})
    assert digest({"a": ones.bfloat16(), "c": torch.tensor(True), "e": torch.ones(0)})


class Odd(Points):
    def optimizer(self, named_parameters: Any) -> torch.optim.Optimizer:
        optimizer = SGD(named_parameters, lr=0.1)
        optimizer.param_groups[0]["odd"] = object()
        return optimizer


def test_a_state_that_would_need_pickle_is_refused() -> None:
    with pytest.raises(WarrenError, match=r"odd.* holds a object"):
        ParameterStore(Odd(), a_job()).checkpoint_part()
