"""Latent Dirichlet allocation by collapsed Gibbs sampling, as Cruise and Harmony train it.

*Source.* Newman, Asuncion, Smyth and Welling, "Distributed Algorithms for Topic Models", JMLR 10
(2009): AD-LDA, approximately distributed sampling, with each document as a processor of its own. A
document sees the counts of its round's beginning and its own changes since, no others'.

*Differs.* Cruise keeps each token's topic at the workers, with the documents. A task of Warren's
keeps nothing, so they are part of the model here. Sampling is dense over topics, not sparse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from warren.apps.protocol import TorchApp

Words = NDArray[np.int64]
_EXACT = 2**24
"""Whole numbers below this are exact in float32."""


@dataclass(frozen=True)
class Corpus:
    """Tokens of all documents end to end, each document's sorted by word: their order is no matter.

    Document d has ``tokens[starts[d] : starts[d] + lengths[d]]``; documents at the end are empty.
    """

    tokens: Tensor
    starts: Tensor
    lengths: Tensor
    vocabulary: int


class Counts(nn.Module):
    """What is counted, in float32, and whole numbers always; blocks are for servers to share.

    ``words``: tokens of each word and topic, in blocks of words; ``topics``: tokens of each topic;
    ``chosen``: the topic of each token, in blocks of tokens.
    """

    def __init__(self, corpus: Corpus, topics: int, blocks: int) -> None:
        super().__init__()
        chosen = torch.randint(topics, corpus.tokens.shape)
        words = histogram(corpus.tokens, chosen, corpus.vocabulary, topics)
        self.words = nn.ParameterList(one.clone() for one in words.tensor_split(blocks))
        self.topics = nn.Parameter(words.sum(dim=0))
        self.chosen = nn.ParameterList(one.clone() for one in chosen.float().tensor_split(blocks))

    def whole(self) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens by word and topic, tokens by topic, and the topic of each token."""
        return torch.cat(list(self.words)), self.topics, torch.cat(list(self.chosen))


def histogram(row: Tensor, column: Tensor, rows: int, columns: int) -> Tensor:
    """How often each pair occurs, shape (rows, columns)."""
    flat = torch.bincount(row * columns + column, minlength=rows * columns)
    return flat.view(rows, columns).float()


class Lda(TorchApp):
    """Draw a topic for every token, by documents; ``alpha`` and ``beta`` are symmetric priors.

    ``scale`` and ``batch`` must be those of the job. A task gives ``-scale`` times what its
    documents change as its gradient: whole numbers, whose sum over the tasks is exact and a
    multiple of ``scale``, so that the mean is exact too, and a step of SGD with a learning rate of
    1 adds the changes. Empty documents make an epoch a number of whole rounds, since no round may
    have a document twice. Each task looks whether topics are whole numbers and add up, and says so
    where ``scale`` or ``batch`` must be wrong.

    ``data`` is "synthetic", or the path of a file (from where Warren was started) with a document a
    line: ``N WORD:COUNT ...`` (LDA-C) or a number for each token. Synthetic documents are drawn
    from the model itself: ``documents`` of Poisson(``length``) tokens, topics of each from
    Dirichlet(``alpha``), words of each of ``topics`` topics from Dirichlet(0.05). ``seed`` is that
    of the drawing.
    """

    data: str = "synthetic"
    topics: int = 10
    vocabulary: int = 200
    documents: int = 300
    length: int = 60
    seed: int = 0
    alpha: float = 0.1
    beta: float = 0.05
    scale: int = 1
    batch: int = 50
    blocks: int = 4

    @cached_property
    def _corpus(self) -> Corpus:
        if self.data == "synthetic":
            documents = self.planted()[1]
        else:
            documents = _read(Path(self.data).read_text())
        lengths = torch.tensor([len(one) for one in documents])
        tokens = torch.from_numpy(np.concatenate([np.sort(one) for one in documents]))
        a_round = self.scale * self.batch
        most = int(lengths.sort(descending=True)[0][:a_round].sum()) * self.scale
        if max(most, len(tokens)) >= _EXACT:
            raise ValueError(f"counts to {max(most, len(tokens))} are not exact in float32")
        empty = torch.zeros(-len(documents) % a_round, dtype=torch.int64)
        lengths = torch.cat([lengths, empty])
        vocabulary = self.vocabulary if self.data == "synthetic" else int(tokens.max()) + 1
        return Corpus(tokens, lengths.cumsum(dim=0) - lengths, lengths, vocabulary)

    def planted(self) -> tuple[NDArray[np.float64], list[Words]]:
        """The topics that synthetic documents are drawn from, and the words of each document."""
        draw = np.random.default_rng(self.seed)
        topics = draw.dirichlet(np.full(self.vocabulary, 0.05), self.topics)
        mixes = draw.dirichlet(np.full(self.topics, self.alpha), self.documents) @ topics
        lengths = draw.poisson(self.length, self.documents)
        drawn = [draw.multinomial(n, mix) for n, mix in zip(lengths, mixes, strict=True)]
        return topics, [np.repeat(np.arange(self.vocabulary), counts) for counts in drawn]

    def model(self) -> nn.Module:
        """Counts of topics drawn evenly."""
        return Counts(self._corpus, self.topics, self.blocks)

    def dataset(self) -> Tensor:
        """The number of each document; the documents themselves stay in the app."""
        return torch.arange(len(self._corpus.starts))

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Minus the log likelihood of a token given all others as it is drawn, in nats."""
        assert isinstance(model, Counts)
        if len(batch) != self.batch:
            raise ValueError(f"the job's batch is {len(batch)}, that of params is {self.batch}")
        with torch.no_grad():
            words, topics, chosen = model.whole()
            self._check(topics, chosen)
            changes, value = self._sweep(batch, words, topics, chosen.long())
        # A sum of products has its other factors as gradient, to the bit.
        parts = zip(model.whole(), changes, strict=True)
        moved = torch.stack([(now * (-self.scale * change)).sum() for now, change in parts]).sum()
        return value + (moved - moved.detach())

    def _sweep(
        self, batch: Tensor, words: Tensor, topics: Tensor, chosen: Tensor
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        """Draw the topics of a batch's tokens: what changes in the model, and the loss."""
        corpus = self._corpus
        # The longest first: those that have a token at a position are then the first so many.
        order = torch.argsort(corpus.lengths[batch], descending=True, stable=True)
        starts, lengths = corpus.starts[batch][order], corpus.lengths[batch][order]
        place = torch.arange(int(lengths[0]))
        real = place < lengths[:, None]
        at = (starts[:, None] + place)[real]
        old, token = torch.zeros(2, *real.shape, dtype=torch.int64)
        old[real], token[real] = chosen[at], corpus.tokens[at]
        new, value = self._draw(token, old, real, words, topics)
        new, old, token = new[real], old[real], token[real]
        ones, change = torch.ones(len(token)), torch.zeros(words.numel())
        change.index_add_(0, token * words.shape[1] + new, ones)
        change.index_add_(0, token * words.shape[1] + old, -ones)
        change = change.view(words.shape)
        turned = torch.zeros(chosen.shape).index_copy_(0, at, (new - old).float())
        return (change, change.sum(dim=0), turned), value

    def _draw(
        self, token: Tensor, old: Tensor, real: Tensor, words: Tensor, topics: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Draw topics position by position, all documents at once: they, and the mean loss.

        All arguments but the last two have the shape (documents, positions).
        """
        chance, new = torch.rand(old.shape), old.clone()
        # Of each document: tokens by topic, of its word at the position and of all words.
        mine = torch.zeros(len(old), len(topics)).scatter_add_(1, old, real.float())
        seen = torch.stack([mine, torch.zeros_like(mine), topics.expand_as(mine)])
        prior = torch.tensor([self.alpha, self.beta, self.beta * len(words)])[:, None, None]
        tokens = real.sum(dim=1)
        loss = torch.zeros(len(old))
        for t, count in enumerate(real.sum(dim=0).tolist()):
            now, word = seen[:, :count], token[:count, t]
            # Equal words are neighbors, so that a word's own changes are in the row before.
            before = token[:count, t - 1] if t > 0 else torch.full_like(word, -1)
            now[1] = torch.where((word != before)[:, None], words[word], now[1])
            left = old[:count, t, None].expand(3, -1, 1)
            now.scatter_add_(2, left, torch.full(left.shape, -1.0))
            of_document, of_word, of_topic = now + prior
            total = (of_document * of_word / of_topic).cumsum(dim=1)
            goal = chance[:count, t, None] * total[:, -1:]
            # Rounding can make the goal the whole total.
            drawn = (total <= goal).sum(dim=1, keepdim=True).clamp(max=len(topics) - 1)
            now.scatter_add_(2, drawn.expand(3, -1, 1), torch.ones(left.shape))
            new[:count, t] = drawn[:, 0]
            loss[:count] -= total[:, -1].log()
        loss += tokens * (tokens - 1 + self.alpha * len(topics)).clamp(min=1e-30).log()
        return new, loss.sum() / max(1, int(tokens.sum()))

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """What a step adds is minus the gradient."""
        return torch.optim.SGD(named_parameters, lr=1.0)

    def _check(self, topics: Tensor, chosen: Tensor) -> None:
        """Refuse topics of tokens that are none, or that are not those that were counted."""
        known = torch.equal(chosen, chosen.clamp(0, self.topics - 1).floor())
        found = torch.bincount(chosen.long(), minlength=self.topics) if known else None
        if found is None or not torch.equal(found.float(), topics):
            raise ValueError(
                f"topics do not add up; params.scale and batch must be those of the job, "
                f"not {self.scale} and {self.batch}"
            )

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """The log likelihood of all words and topics, in nats a token."""
        assert isinstance(model, Counts)
        words, topics, chosen = model.whole()
        self._check(topics, chosen)
        corpus = self._corpus
        of = torch.repeat_interleave(torch.arange(len(corpus.starts)), corpus.lengths)
        mine = histogram(of, chosen.long(), len(corpus.starts), self.topics)
        total = _log_likelihood(words.T, self.beta) + _log_likelihood(mine, self.alpha)
        return {"log_likelihood": total / len(corpus.tokens)}


def _log_likelihood(counts: Tensor, prior: float) -> float:
    """Of the counts of each row, given a symmetric Dirichlet prior: a Polya distribution."""
    sums, cells = counts.sum(dim=1).double(), counts[counts > 0].double()
    one = torch.tensor(prior, dtype=torch.float64)
    whole = one * counts.shape[1]
    return float(
        (torch.lgamma(whole) - torch.lgamma(sums + whole)).sum()
        + (torch.lgamma(cells + one) - torch.lgamma(one)).sum()
    )


def _read(text: str) -> list[Words]:
    """The words of each document; lines that are empty or begin with # are none."""
    lines = [line.split() for line in text.splitlines() if line.strip() and line[0] != "#"]
    if not any(":" in cell for line in lines for cell in line[-1:]):
        return [np.array(line, dtype=np.int64) for line in lines]
    cells = [[cell.split(":") for cell in line[1:]] for line in lines]
    pairs = [np.array(one, dtype=np.int64).reshape(-1, 2) for one in cells]
    return [np.repeat(one[:, 0], one[:, 1]) for one in pairs]
