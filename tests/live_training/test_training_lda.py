"""The example app of LDA: exact counts on any servers, the textbook's formula, planted topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import lgamma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from training_bench import APPS, a_job, gather, step_all, whole

from warren.live.oracle.plain import train
from warren.live.training.app.app_loader import build_app
from warren.live.training.data_order import Batches
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.seeding import reseed
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import flat_of
from warren.model.job import Evaluate, Job

SMALL = {"topics": 4, "vocabulary": 30, "documents": 61, "length": 12}


def lda(scale: int, batch: int, *, rounds: int = 4, job_scale: int = 0, **params: Any) -> Job:
    """A job whose app is told ``scale`` and ``batch``; its own scale may be another one."""
    return a_job(
        app="lda.py:Lda",
        scale=job_scale or scale,
        batch=batch,
        rounds=rounds,
        params={**SMALL, "scale": scale, "batch": batch, **params},
    )


def app_of(job: Job) -> Any:
    return build_app(job, str(APPS))


def joined(state: Mapping[str, Tensor], prefix: str) -> Tensor:
    """What lies in blocks, as one tensor."""
    return torch.cat([value for name, value in state.items() if name.startswith(prefix)])


def counted(app: Any, chosen: Tensor) -> Tensor:
    """Tokens by word and topic, counted one by one."""
    found = torch.zeros(app.vocabulary, app.topics)
    for word, topic in zip(app._corpus.tokens.tolist(), chosen.tolist(), strict=True):
        found[word, int(topic)] += 1
    return found


def check_counts(app: Any, state: Mapping[str, Tensor]) -> None:
    """All counts are those of the tokens' topics, to the bit."""
    chosen = joined(state, "chosen")
    assert torch.equal(chosen, chosen.round())
    assert chosen.min() >= 0
    assert chosen.max() < app.topics
    words = counted(app, chosen)
    assert torch.equal(joined(state, "words"), words)
    assert torch.equal(state["topics"], words.sum(dim=0))


@pytest.mark.parametrize(
    ("scale", "batch", "servers"),
    [(1, 61, 1), (1, 10, 2), (2, 20, 2), (3, 7, 5), (5, 5, 3), (7, 4, 2), (11, 3, 2), (16, 3, 4)],
)
def test_all_counts_are_those_of_the_topics_after_every_round(
    scale: int, batch: int, servers: int
) -> None:
    job = lda(scale, batch)
    stores = [ParameterStore(app_of(job), job, part=i, parts=servers) for i in range(servers)]
    app, runner = app_of(job), TaskRunner(app_of(job), job)
    app.model()
    seen = []
    for round_no in range(4):
        state = gather(stores)
        for shard in range(scale):
            result = runner.run(state, round_no, shard)
            for store in stores:
                pieces = tuple(memoryview(result.update[0])[a:b] for a, b in store.ranges)
                store.add(shard, replace(result, update=pieces))
        step_all(stores)
        for store in stores[1:]:
            stores[0].take(store.ranges, store.state())
        stores[0].conclude()
        tensors = stores[0].layout.views(flat_of(gather(stores)))
        check_counts(app, tensors)
        seen.append(joined(tensors, "chosen").clone())
    assert all((a != b).any() for a, b in pairwise(seen))


def test_a_ring_counts_as_exactly() -> None:
    job = replace(lda(3, 7), sync="ring")
    app = app_of(job)
    check_counts(app, train(app, job).state_dict)


def test_topics_are_drawn_by_the_textbooks_formula_and_the_tasks_own_changes_alone() -> None:
    job = lda(2, 9)
    app, store = app_of(job), ParameterStore(app_of(job), job)
    runner = TaskRunner(app, job)
    result = runner.run(whole(store), 0, 1)
    state = store.layout.views(flat_of(whole(store)))
    update = store.layout.views(flat_of(result.update[0]))

    batch = Batches(app.dataset(), job).of(0, 1)
    reseed(job.seed, 0, 1)
    documents = sorted(batch.tolist(), key=lambda d: -app._corpus.lengths[d])
    chance = torch.rand(len(documents), int(app._corpus.lengths[documents[0]])).double().numpy()
    chosen, loss = joined(state, "chosen").long().numpy().copy(), []
    for row, document in enumerate(documents):
        loss += _gibbs(app, joined(state, "words").numpy(), chosen, document, chance[row])
    moved = torch.from_numpy(chosen) - joined(state, "chosen")
    assert (moved != 0).sum() > 20
    # A task's gradient is -scale times its change.
    assert torch.equal(joined(update, "chosen"), -2 * moved)
    change = counted(app, torch.from_numpy(chosen)) - joined(state, "words")
    assert torch.equal(joined(update, "words"), -2 * change)
    assert torch.equal(update["topics"], -2 * change.sum(dim=0))
    assert result.loss == pytest.approx(np.mean(loss), rel=1e-5)


def _gibbs(
    app: Any, words: np.ndarray, chosen: np.ndarray, document: int, chance: np.ndarray
) -> list[float]:
    """Draw a document's topics token by token, from counts of one's own; minus log likelihoods.

    p(z = k) ~ (n_dk + alpha) (n_wk + beta) / (n_k + V beta), all counts without the token
    (Griffiths and Steyvers 2004, (5)).
    """
    words, loss = words.astype(np.float64), []
    begin, n = int(app._corpus.starts[document]), int(app._corpus.lengths[document])
    for at in range(begin, begin + n):
        word = int(app._corpus.tokens[at])
        words[word, chosen[at]] -= 1
        others = [chosen[i] for i in range(begin, begin + n) if i != at]
        p = [
            (others.count(k) + app.alpha)
            * (words[word, k] + app.beta)
            / (words[:, k].sum() + app.vocabulary * app.beta)
            for k in range(app.topics)
        ]
        loss.append(-np.log(sum(p) / (n - 1 + app.topics * app.alpha)))
        goal, topic = chance[at - begin] * sum(p), 0
        while goal >= sum(p[: topic + 1]):
            topic += 1
        chosen[at] = topic
        words[word, topic] += 1
    return loss


def test_planted_topics_are_found_and_the_likelihood_rises() -> None:
    params = {"topics": 5, "vocabulary": 100, "documents": 200, "length": 60}
    job = replace(lda(2, 100, rounds=30, **params), seed=1, evaluate=Evaluate(every=3))
    app = app_of(job)
    found = train(app, job)
    words = joined(found.state_dict, "words").numpy().T + app.beta
    truth = app.planted()[0]
    cosines = (words / np.linalg.norm(words, axis=1, keepdims=True)) @ (
        truth / np.linalg.norm(truth, axis=1, keepdims=True)
    ).T
    assert cosines[linear_sum_assignment(-cosines)].mean() > 0.95
    rise = [metrics["log_likelihood"] for _, metrics in sorted(found.metrics.items())]
    assert rise[1] > rise[0] + 0.1
    # Once it is mixing it goes up and down a little.
    assert all(b > a - 0.02 for a, b in pairwise(rise))
    assert found.losses[-1] < 0.8 * found.losses[0]


def test_the_likelihood_is_that_of_two_polya_distributions() -> None:
    job = lda(1, 61)
    app = app_of(job)
    model = app.model()
    chosen = torch.cat(list(model.chosen)).long()
    total, words = 0.0, counted(app, chosen)
    for topic in words.T.tolist():
        total += _polya(topic, app.beta)
    for begin, n in zip(app._corpus.starts.tolist(), app._corpus.lengths.tolist(), strict=True):
        total += _polya(torch.bincount(chosen[begin : begin + n], minlength=4).tolist(), app.alpha)
    with torch.no_grad():
        found = app.evaluate(model)["log_likelihood"]
    assert found == pytest.approx(total / len(chosen), rel=1e-9)


def _polya(counts: list[float], prior: float) -> float:
    whole_prior = prior * len(counts)
    total = lgamma(whole_prior) - lgamma(sum(counts) + whole_prior)
    return total + sum(lgamma(n + prior) - lgamma(prior) for n in counts)


@pytest.mark.parametrize("job_scale", [1, 2, 4, 5, 6, 12])
@pytest.mark.parametrize("batch", [4, 20])
def test_a_scale_that_is_not_the_jobs_is_refused_in_the_second_round(
    job_scale: int, batch: int
) -> None:
    job = lda(3, batch, job_scale=job_scale, rounds=2)
    with pytest.raises(ValueError, match="scale and batch must be those of the job, not 3 and"):
        train(app_of(job), job)


def test_a_batch_that_is_not_the_jobs_is_refused_at_once() -> None:
    job = replace(lda(3, 4), batch=5)
    with pytest.raises(ValueError, match="the job's batch is 5, that of params is 4"):
        train(app_of(job), job)


def test_counts_that_float32_does_not_hold_are_refused() -> None:
    big = {"documents": 1, "length": 2**20 + 9_000, "topics": 2, "batch": 1}
    app_of(lda(8, **big)).model()
    with pytest.raises(ValueError, match="are not exact in float32"):
        app_of(lda(16, **big)).model()


def test_an_epoch_is_whole_rounds_so_that_no_round_has_a_document_twice() -> None:
    job = lda(3, 7)
    app = app_of(job)
    batches = Batches(app.dataset(), job)
    assert len(app.dataset()) == 63
    for round_no in range(9):
        drawn = torch.cat([batches.of(round_no, shard) for shard in range(3)])
        assert len(set(drawn.tolist())) == 21


def test_both_kinds_of_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("# by: nobody\n\n3 1 1\n2\n")
    (tmp_path / "ldac").write_text("2 1:2 3:1\n0\n1 2:1\n")
    by_ids = app_of(lda(1, 1, data=str(tmp_path / "ids")))._corpus
    by_counts = app_of(lda(1, 1, data=str(tmp_path / "ldac")))._corpus
    assert by_ids.tokens.tolist() == by_counts.tokens.tolist() == [1, 1, 3, 2]
    assert by_ids.lengths.tolist() == [3, 1]
    assert by_counts.lengths.tolist() == [3, 0, 1]
    assert by_ids.vocabulary == by_counts.vocabulary == 4


@pytest.mark.parametrize(
    ("file", "documents", "tokens", "vocabulary"),
    [("cruise/sample_lda", 500, 157_885, 17_935), ("reuters/reuters.ldac", 395, 84_010, 4_258)],
)
def test_the_samples_are_read_and_the_likelihood_rises(
    data_dir: Path, file: str, documents: int, tokens: int, vocabulary: int
) -> None:
    data = str(data_dir / "ml" / file)
    job = replace(lda(2, 50, data=data, topics=10, rounds=4), evaluate=Evaluate(every=2))
    app = app_of(job)
    found = train(app, job)
    corpus = app._corpus
    assert int((corpus.lengths > 0).sum()) == documents
    assert (len(corpus.tokens), corpus.vocabulary) == (tokens, vocabulary)
    assert found.metrics[4]["log_likelihood"] > found.metrics[2]["log_likelihood"]
