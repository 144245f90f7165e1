"""The moving average of the weights (``ema``): PyTorch's numbers, and the same bits everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from training_bench import (
    MixedApp,
    Points,
    a_job,
    drive,
    drive_split,
    mixed_job,
    serve,
    serve_split,
)

from warren.apps.protocol import make_app
from warren.live.oracle.plain import train
from warren.live.training.app.app_contract import check_job, stated_ema
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.tensor_layout import digest
from warren.live.training.weight_average import average_path
from warren.model.errors import SpecError
from warren.model.job import Evaluate
from warren.runs.api import JobResult


class Slow(MixedApp):
    """Adam makes its state at a parameter's first gradient, which some get late and one never."""

    chosen: str = "adam"
    ema = 0.8


def average_of(store: ParameterStore) -> str:
    found = store.averaged_state_dict()
    assert found is not None
    return digest(found)


def test_the_average_is_that_of_pytorch_to_rounding_and_buffers_are_the_models_own() -> None:
    class Watched(Slow):
        def optimizer(self, named_parameters: Any) -> torch.optim.Optimizer:
            optimizer = super().optimizer(named_parameters)
            optimizer.register_step_post_hook(lambda *_: theirs.update_parameters(models[0]))
            return optimizer

        def model(self) -> nn.Module:
            models.append(super().model())  # the first is the barrier's
            return models[-1]

    models: list[nn.Module] = []
    theirs = AveragedModel(
        MixedApp().model(), multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=False
    )
    found = train(Watched(scratch=("theirs", "models")), mixed_job()).averaged_state_dict
    assert found is not None
    expected = theirs.module.state_dict()
    assert found.keys() == expected.keys()
    for name, value in found.items():
        if "running" not in name:  # statistics of the round after PyTorch's copy of them
            torch.testing.assert_close(value, expected[name])


def test_an_average_changes_no_bit_of_the_weights() -> None:
    found = train(Slow(), mixed_job())
    assert found.digest == train(MixedApp(chosen="adam"), mixed_job()).digest
    assert found.averaged_state_dict is not None
    assert digest(found.averaged_state_dict) != found.digest


def test_evaluations_see_the_averaged_weights() -> None:
    class Averaged(Points):
        ema = 0.8

        def evaluate(self, model: nn.Module) -> dict[str, float]:
            with torch.no_grad():
                seen = {name: value.clone() for name, value in model.state_dict().items()}
                for value in model.parameters():
                    value.zero_()  # undone: the weights are put back
            return {"first": seen["weight"][0, 0].item()}

    job = a_job(evaluate=Evaluate(every=3))
    store, outcomes = serve(Averaged, job)
    average = store.averaged_state_dict()
    assert average is not None
    metrics = outcomes[-1].metrics
    assert metrics == {"first": average["weight"][0, 0].item()}
    plain = train(Averaged(), job)
    assert plain.metrics[6] == metrics
    assert store.digest() == plain.digest == train(Points(), a_job()).digest


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_an_average_goes_on_from_a_checkpoint_on_any_number_of_servers(parts: int) -> None:
    job = mixed_job()
    expected, outcomes = serve_split(Slow, job, 2)
    plain = train(Slow(), job)
    assert plain.averaged_state_dict is not None
    assert average_of(expected) == digest(plain.averaged_state_dict)
    stores = [ParameterStore(Slow(), job, part=part, parts=2) for part in range(2)]
    drive_split(stores, Slow, job, stop_at=2)
    saved = [bytes(store.checkpoint_part()) for store in stores]
    others = [ParameterStore(Slow(), job, part=part, parts=parts) for part in range(parts)]
    for store in others:
        store.restore(saved)
    assert drive_split(others, Slow, job) == outcomes[2:]
    assert average_of(others[0]) == average_of(expected)
    if parts == 1:  # back in time, in a store that went on
        others[0].restore(saved)
        assert drive(others[0], Slow, job) == outcomes[2:]
        assert average_of(others[0]) == average_of(expected)


def test_an_average_moves_with_its_blocks_to_other_servers() -> None:
    job = mixed_job()
    stores = [ParameterStore(Slow(), job, part=part, parts=2) for part in range(2)]
    outcomes = drive_split(stores, Slow, job, stop_at=2)
    heirs = [ParameterStore(Slow(), job, part=part, parts=3) for part in range(3)]
    for part, heir in enumerate(heirs):
        heir.inherit([bytes(store.piece_for(part, 3, ())) for store in stores])
    outcomes += drive_split(heirs, Slow, job)
    expected, known = serve(Slow, job)
    assert (outcomes, average_of(heirs[0])) == (known, average_of(expected))


def test_small_steps_of_16_bit_weights_are_not_lost_in_their_average() -> None:
    class Brief(Points):
        ema = 0.99

        def model(self) -> nn.Module:
            return nn.Linear(3, 1).to(torch.bfloat16)

        def dataset(self) -> Any:
            return tuple(part.to(torch.bfloat16) for part in super().dataset())

    store, _ = serve(Brief, a_job(rounds=60))
    average = store.averaged_state_dict()
    first, last = (train(Brief(), a_job(rounds=rounds)).state_dict for rounds in (1, 60))
    assert average is not None
    assert average["weight"].dtype == torch.bfloat16
    # Without float32 it would stay at the first weights: 1 % of a change is less than a bit there.
    moved = (average["weight"] - first["weight"]).abs() / (last["weight"] - first["weight"]).abs()
    assert float(moved.min()) > 0.2


@pytest.mark.parametrize("ema", [0, 1, 1.0, 0.0, -0.5, 999, True, "slow", float("nan")])
def test_an_average_that_is_no_number_between_0_and_1_is_refused(ema: object) -> None:
    app = type("Stating", (Points,), {"ema": ema})()
    with pytest.raises(SpecError, match="ema: must be a number between 0 and 1 such as"):
        check_job(app, a_job())


def test_the_average_of_a_finished_job_is_loaded_by_name(tmp_path: Path) -> None:
    store, _ = serve(Slow, mixed_job())
    (tmp_path / "params").mkdir()
    store.write_params(str(tmp_path / "params" / "j.safetensors"))
    job = JobResult(name="j", row={}, folder=tmp_path)
    assert digest(job.params()) == store.digest()
    assert digest(job.params(ema=True)) == average_of(store)
    average_path(tmp_path / "params" / "j.safetensors").unlink()
    with pytest.raises(SpecError, match="no averaged weights: its app sets no ema"):
        job.params(ema=True)


def test_an_app_without_an_average_keeps_and_writes_none(tmp_path: Path) -> None:
    store, _ = serve(Points, a_job())
    assert store.averaged_state_dict() is None
    store.write_params(str(tmp_path / "j.safetensors"))
    assert [path.name for path in tmp_path.iterdir()] == ["j.safetensors"]


class Typed(Points):
    ema: float = 0.9


def test_a_class_that_states_the_type_of_ema_has_it_as_a_parameter_of_the_job() -> None:
    made = make_app(Typed, {"ema": 0.5}, where="points.py:Typed")
    assert stated_ema(made) == 0.5
    assert stated_ema(Typed()) == 0.9
    assert stated_ema(Points()) is None


def test_what_an_app_keeps_in_self_ema_is_its_own() -> None:
    class Own(Points):
        def model(self) -> nn.Module:
            assert not hasattr(self, "ema")
            made = super().model()
            self.ema = {name: one.detach().clone() for name, one in made.named_parameters()}
            return made

    class Method(Points):
        def ema(self) -> float:
            return 0.5

    for app in (Own, Method):
        store, _ = serve(app, a_job())
        assert store.averaged_state_dict() is None
