"""The example apps of classical machine learning, against scikit-learn and closed forms.

Of LDA only the bits are looked at here; ``test_training_lda.py`` has the rest.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_bench import APPS, a_job, drive, gather, serve, serve_split

from warren.apps.protocol import TorchApp
from warren.live.oracle.plain import PlainResult, train
from warren.live.training.app.app_loader import build_app
from warren.live.training.parameter_store import ParameterStore
from warren.model.job import Evaluate, Job

pytest.importorskip("sklearn", reason="scikit-learn (extra: examples) is not installed")

JOBS = {
    "mlr": ("mlr.py:Mlr", 3, 64, {}),
    "mlr-synthetic": ("mlr.py:Mlr", 2, 100, {"data": "synthetic", "decay": 0.5, "period": 4}),
    "lasso": ("lasso.py:Lasso", 2, 100, {"decay": 0.9, "period": 5}),
    "fista": ("lasso.py:Lasso", 4, 250, {"data": "synthetic", "accelerated": True, "l1": 0.2}),
    "nmf": ("nmf.py:Nmf", 3, 64, {}),
    "lda": ("lda.py:Lda", 3, 40, {"scale": 3, "batch": 40, "topics": 5, "length": 25}),
}


def job_of(name: str, **fields: Any) -> Job:
    app, scale, batch, params = JOBS[name]
    standard = {"rounds": 12, "seed": 11, "evaluate": Evaluate(every=5)}
    return a_job(name=name, app=app, scale=scale, batch=batch, params=params, **standard | fields)


def trained(app: str, **fields: Any) -> tuple[TorchApp, PlainResult]:
    """A job trained by the plain loop, and its app."""
    job = a_job(app=app, **{"scale": 1, "evaluate": Evaluate(every=1), **fields})
    return (made := build_app(job, str(APPS))), train(made, job)


def metrics(result: PlainResult, name: str) -> list[float]:
    return [found[name] for _, found in sorted(result.metrics.items())]


def joined(result: PlainResult, prefix: str, dim: int = 0) -> np.ndarray:
    """What lies in blocks, as one array."""
    parts = [value for name, value in result.state_dict.items() if name.startswith(prefix)]
    return torch.cat(parts, dim=dim).numpy()


@pytest.mark.parametrize("name", JOBS)
def test_any_order_and_any_number_of_servers_give_the_bits_of_the_plain_loop(name: str) -> None:
    job = job_of(name)
    make = partial(build_app, job, str(APPS))
    plain = train(make(), job)
    for store, outcomes in (serve(make, job), serve_split(make, job, 2), serve_split(make, job, 5)):
        assert store.digest() == plain.digest
        assert tuple(outcome.loss for outcome in outcomes) == plain.losses
        assert {o.round + 1: o.metrics for o in outcomes if o.metrics is not None} == plain.metrics
    assert plain.losses[-1] < plain.losses[0]


@pytest.mark.parametrize("name", ["fista", "nmf", "lda"])
def test_a_restored_checkpoint_goes_on_with_the_same_bits(name: str) -> None:
    job = job_of(name)
    make = partial(build_app, job, str(APPS))
    whole, _ = serve(make, job)
    first, _ = serve(make, job, stop_at=5)
    second = ParameterStore(make(), job)
    second.restore([first.checkpoint_part()])
    drive(second, make, job)
    assert second.digest() == whole.digest()


@pytest.mark.parametrize("name", JOBS)
def test_four_servers_hold_about_a_quarter_of_the_model_each(name: str) -> None:
    job = job_of(name)
    stores = [ParameterStore(build_app(job, str(APPS)), job, part=i, parts=4) for i in range(4)]
    held = [sum(end - begin for begin, end in store.ranges) for store in stores]
    assert len(gather(stores)) == sum(held)
    # A bias or the counts of topics go along, and what is counted comes in two kinds of blocks.
    assert max(held) < 0.35 * sum(held)


def test_mlr_comes_to_the_optimum_of_logistic_regression() -> None:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    x, y = load_digits(return_X_y=True)
    x, l2 = x / 16.0, 0.05
    params = {"l2": l2, "lr": 0.2}
    _, found = trained(
        "mlr.py:Mlr", batch=len(x), rounds=120, params=params, evaluate=Evaluate(every=120)
    )
    best = LogisticRegression(C=1 / (l2 * len(x)), solver="newton-cg").fit(x, y)
    likelihood = np.log(best.predict_proba(x)[np.arange(len(x)), y]).mean()
    objective = -likelihood + l2 / 2 * (best.coef_**2).sum()
    assert metrics(found, "objective")[-1] == pytest.approx(objective, rel=1e-3)
    assert metrics(found, "accuracy")[-1] == pytest.approx(best.score(x, y), abs=2e-3)
    assert np.abs(joined(found, "weights").T - best.coef_).max() < 0.02


def test_mlr_begins_at_the_logarithm_of_the_classes_and_learns_in_small_batches() -> None:
    params = {"data": "synthetic", "classes": 4}
    _, found = trained("mlr.py:Mlr", scale=2, batch=50, rounds=40, params=params)
    assert found.losses[0] == pytest.approx(np.log(4))
    assert metrics(found, "objective")[-1] < 0.9


@pytest.mark.parametrize(
    ("rows", "params"),
    [
        (442, {"l1": 0.05}),
        (442, {"l1": 0.3, "accelerated": True}),
        (1000, {"l1": 0.1, "data": "synthetic"}),
        (1000, {"l1": 0.02, "data": "synthetic", "accelerated": True, "blocks": 7}),
    ],
)
def test_lasso_comes_to_the_coefficients_of_scikit_learn(rows: int, params: dict[str, Any]) -> None:
    from sklearn.linear_model import Lasso

    l1, rounds = params["l1"], 60 if params.get("accelerated") else 250
    app, found = trained(
        "lasso.py:Lasso",
        scale=2,
        batch=rows // 2,
        rounds=rounds,
        params=params,
        evaluate=Evaluate(every=50),
    )
    x, y = (one.double().numpy() for one in app.dataset())
    best = Lasso(alpha=l1, fit_intercept=False, tol=1e-8, max_iter=10_000).fit(x, y)
    objective = ((y - x @ best.coef_) ** 2).mean() / 2 + l1 * np.abs(best.coef_).sum()
    coefficients = joined(found, "coefficients")
    assert np.abs(coefficients - best.coef_).max() < 1e-3
    assert metrics(found, "objective")[-1] == pytest.approx(objective, rel=1e-3)
    # Zeros are exact: that is what the threshold is for.
    assert ((coefficients == 0) == (best.coef_ == 0)).all()
    assert 0 < metrics(found, "nonzero")[-1] < len(coefficients)


def test_a_lasso_step_with_all_rows_never_raises_the_objective() -> None:
    params = {"data": "synthetic", "rows": 200, "features": 150, "l1": 0.01}
    app, found = trained("lasso.py:Lasso", batch=200, rounds=60, params=params)
    objectives = metrics(found, "objective")
    assert all(b <= a + 1e-6 for a, b in pairwise(objectives))
    x = app.dataset()[0]
    largest = torch.linalg.eigvalsh(x.T @ x / len(x))[-1]
    (group,) = app.optimizer(app.model().named_parameters()).param_groups
    assert 0.9 <= group["lr"] * largest <= 1.0


def test_lasso_finds_the_planted_coefficients_in_small_batches() -> None:
    params = {"data": "synthetic", "l1": 0.05, "lr": 0.2, "decay": 0.5, "period": 20}
    _, found = trained("lasso.py:Lasso", scale=2, batch=100, rounds=80, params=params)
    draw = torch.Generator().manual_seed(0)
    torch.randn(1000, 100, generator=draw)
    places = torch.randperm(100, generator=draw)[:10].tolist()
    strongest = np.argsort(-np.abs(joined(found, "coefficients")))[:6].tolist()
    assert set(strongest) <= set(places)


def test_nmf_fits_as_well_as_scikit_learn_and_stays_above_0() -> None:
    from sklearn.datasets import load_digits
    from sklearn.decomposition import NMF

    _, found = trained("nmf.py:Nmf", scale=2, batch=128, rounds=150, evaluate=Evaluate(every=10))
    x = load_digits().data
    best = NMF(8, init="nndsvda", max_iter=300).fit(x)
    error = metrics(found, "error")[-1] * np.linalg.norm(x)
    assert error < 1.02 * best.reconstruction_err_
    r = joined(found, "columns", dim=1)
    assert r.min() == 0.0
    assert (r > 0).mean() > 0.2


def test_an_nmf_step_with_all_rows_never_raises_the_error() -> None:
    params = {"data": "synthetic", "inner": 100, "lr": 1.9, "rows": 200}
    _, found = trained("nmf.py:Nmf", batch=200, rounds=60, params=params)
    errors = metrics(found, "error")
    assert all(b <= a + 1e-4 for a, b in pairwise(errors))
    # The matrix is a product of the same rank.
    assert errors[-1] < 0.1


def test_the_gradient_of_nmf_is_that_of_the_squares_divided_by_row() -> None:
    job = a_job(app="nmf.py:Nmf")
    app: Any = build_app(job, str(APPS))
    model, x = app.model(), app.dataset()[:20]
    app.loss(model, x).backward()
    given = torch.cat([block.grad for block in model.columns], dim=1)
    r = model.whole().detach().double().requires_grad_()
    left = app._left(x, model.whole().detach()).double()
    ((left @ r - x).square().sum() / (2 * len(x))).backward()
    sums = (left.T @ left / len(x)).sum(dim=1, keepdim=True)
    assert r.grad is not None
    assert torch.allclose(given.double(), r.grad / sums, rtol=1e-3, atol=1e-5)
    bound = torch.diag(sums[:, 0]) - left.T @ left / len(x)
    assert torch.linalg.eigvalsh(bound)[0] > -1e-9 * sums.max()


def test_mlr_reads_the_sample_of_cruise(data_dir: Path) -> None:
    params = {"data": str(data_dir / "ml/cruise/sample_mlr"), "lr": 0.1}
    app, found = trained("mlr.py:Mlr", batch=180, scale=3, rounds=40, params=params)
    assert app.dataset()[0].shape == (540, 776)
    assert metrics(found, "accuracy")[-1] > 0.9


def test_lasso_finds_what_the_sample_of_cruise_was_made_with(data_dir: Path) -> None:
    path = data_dir / "ml/cruise/sample_lasso"
    params = {"data": str(path), "l1": 1e-4, "accelerated": True}
    _, found = trained("lasso.py:Lasso", batch=225, scale=2, rounds=40, params=params)
    from sklearn.datasets import load_svmlight_file

    x, y = load_svmlight_file(str(path), zero_based=True)
    plain = joined(found, "coefficients") * y.std() / x.toarray().std(axis=0)
    assert plain == pytest.approx([1, 0, -2, 0, 3, 0, -4, 0, 5, 0], abs=0.01)


def test_nmf_reads_the_sample_of_cruise(data_dir: Path) -> None:
    params = {"data": str(data_dir / "ml/cruise/sample_nmf"), "rank": 10}
    app, found = trained("nmf.py:Nmf", batch=50, scale=2, rounds=30, params=params)
    x = app.dataset()
    assert x.shape == (100, 100)
    assert x[0, :4].tolist() == [3, 1, 4, 2]
    assert metrics(found, "error")[-1] < 0.5
