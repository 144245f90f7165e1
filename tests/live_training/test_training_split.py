"""Several servers of one job: who owns what, and the same bits as one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement, pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn, optim
from training_bench import (
    OPTIMIZERS,
    Mixed,
    MixedApp,
    Points,
    a_job,
    drive_split,
    gather,
    mixed_job,
    serve,
    serve_split,
)

from warren.live.oracle.plain import PlainResult, train
from warren.live.training.block_ownership import owners_of, ranges_of, static_owners, views_in
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.tensor_layout import Layout, TensorEntry
from warren.model.errors import SpecError
from warren.model.job import Stop

pytestmark = pytest.mark.slow

MANY = 14
"""More servers than the model has tensors, which are twelve: some of them own nothing."""


def a_layout(sizes: Sequence[int]) -> Layout:
    """A layout of byte tensors with these sizes, each at its aligned place."""
    entries, offset = [], 0
    for index, size in enumerate(sizes):
        name = f"t{index}"
        entry = TensorEntry(
            name=name, kind="param", dtype="uint8", shape=(size,), offset=offset, nbytes=size
        )
        entries.append(entry)
        offset += -(-size // 64) * 64
    return Layout(entries=tuple(entries), total_bytes=offset)


SIZES = st.lists(st.sampled_from([0, 1, 64, 65, 500, 4096]), min_size=1, max_size=6)


@given(SIZES, st.integers(1, 4))
def test_the_largest_part_is_as_small_as_runs_allow(sizes: list[int], parts: int) -> None:
    layout = a_layout(sizes)
    owners = static_owners(layout, parts)
    assert list(owners) == sorted(owners)
    assert set(owners) <= set(range(parts))
    starts = [entry.offset for entry in layout.entries] + [layout.total_bytes]

    def largest(cuts: Sequence[int]) -> int:
        edges = [0, *cuts, len(sizes)]
        return max(starts[b] - starts[a] for a, b in pairwise(edges))

    every = combinations_with_replacement(range(len(sizes) + 1), parts - 1)
    mine = [owners.index(part) if part in owners else None for part in range(1, parts)]
    cuts = sorted(len(sizes) if cut is None else cut for cut in mine)
    assert largest(cuts) == min(largest(other) for other in every)


@given(SIZES, st.integers(1, 4))
def test_ranges_cover_every_byte_once_and_views_find_every_tensor(
    sizes: list[int], parts: int
) -> None:
    layout = a_layout(sizes)
    owners = static_owners(layout, parts)
    flat = bytearray(index % 251 for index in range(layout.total_bytes))
    covered, found = bytearray(layout.total_bytes), {}
    for part in range(parts):
        ranges = ranges_of(layout, owners, part)
        for begin, end in ranges:
            assert begin < end
            covered[begin:end] = bytes(c + 1 for c in covered[begin:end])
        pieces = [bytes(flat[begin:end]) for begin, end in ranges]
        found |= {e.name: bytes(view.numpy()) for _, e, view in views_in(layout, ranges, pieces)}
    assert covered == b"\1" * layout.total_bytes
    assert found == {
        e.name: bytes(flat[e.offset : e.offset + e.nbytes]) for e in layout.entries if e.nbytes
    }


@given(SIZES, st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_parts_of_stated_bytes_are_as_near_to_them_as_runs_come(
    sizes: list[int], stated: list[int]
) -> None:
    layout, parts = a_layout(sizes), len(stated)
    owners = owners_of(layout, parts, stated)
    if not sum(stated):
        assert owners == static_owners(layout, parts)
        return
    assert list(owners) == sorted(owners)
    starts = [entry.offset for entry in layout.entries] + [layout.total_bytes]
    for part in range(1, parts):
        # Where the parts before this one end, against where they were to end.
        wanted = layout.total_bytes * sum(stated[:part]) / sum(stated)
        cut = starts[sum(owner < part for owner in owners)]
        assert abs(cut - wanted) <= min(abs(start - wanted) for start in starts) + 1e-6


def test_one_part_is_one_range_and_parts_that_touch_are_merged() -> None:
    layout = a_layout([3, 64, 70, 5])
    assert ranges_of(layout, static_owners(layout, 1), 0) == ((0, 320),)
    assert ranges_of(layout, (0, 1, 1, 0), 0) == ((0, 64), (256, 320))
    assert ranges_of(layout, (0, 1, 1, 0), 1) == ((64, 256),)
    assert ranges_of(layout, (0, 0, 0, 0), 1) == ()


@cache
def plain_of(chosen: str) -> PlainResult:
    """What ``mixed_job`` comes to with an optimizer."""
    return train(MixedApp(chosen=chosen), mixed_job())


@pytest.mark.parametrize("parts", [1, 2, 3, 5, MANY])
@pytest.mark.parametrize("chosen", OPTIMIZERS)
def test_any_number_of_servers_gives_the_bits_of_the_plain_loop(chosen: str, parts: int) -> None:
    job = mixed_job()
    plain = plain_of(chosen)
    store, outcomes = serve_split(lambda: MixedApp(chosen=chosen), job, parts)
    assert store.digest() == plain.digest
    assert tuple(outcome.loss for outcome in outcomes) == plain.losses
    assert {o.round + 1: o.metrics for o in outcomes if o.metrics} == plain.metrics


def test_a_stop_rule_holds_at_the_same_round_with_several_servers() -> None:
    plain = train(MixedApp(), mixed_job(rounds=20))
    target = sorted(metrics["noise"] for metrics in plain.metrics.values())[-2]
    job = mixed_job(rounds=None, stop=Stop(metric="noise", reaches=target))
    store, outcomes = serve_split(MixedApp, job, 3)
    alone, expected = serve(MixedApp, job)
    assert [o.finished for o in outcomes] == [o.finished for o in expected]
    assert store.digest() == alone.digest()


class Own(optim.SGD):
    pass


def test_several_servers_need_an_optimizer_that_steps_each_tensor_alone() -> None:
    class OwnApp(MixedApp):
        def optimizer(self, named_parameters: Any) -> optim.Optimizer:
            return Own(named_parameters, lr=0.1)

    class Hooked(MixedApp):
        def optimizer(self, named_parameters: Any) -> optim.Optimizer:
            optimizer = optim.SGD(named_parameters, lr=0.1)
            optimizer.register_step_pre_hook(lambda *_: None)
            return optimizer

    class Says(OwnApp):
        separable = True

    for app in (OwnApp(), Hooked()):
        with pytest.raises(
            SpecError, match=r"not known to step.*servers: 1, or ASGD, Ada"
        ) as found:
            ParameterStore(app, mixed_job(), part=0, parts=2)
        assert "\n" not in str(found.value)
        ParameterStore(app, mixed_job())
    assert serve_split(Says, mixed_job(), 2)[0].digest() == train(Says(), mixed_job()).digest


class Adding(optim.Optimizer):
    """Adds each gradient to its state, and does not expect that there is none."""

    def __init__(self, params: Any, *, skips: bool) -> None:
        super().__init__(params, {"lr": 0.1})
        self.skips = skips

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for one in self.param_groups[0]["params"]:
            if not (one.grad is None and self.skips):
                self.state.setdefault(one, {1: torch.zeros_like(one)})[1].add_(one.grad)
                one.sub_(0.1 * self.state[one][1])


def test_an_optimiser_that_cannot_do_without_a_gradient_is_refused_as_not_to_be_split() -> None:
    class Adds(Points):
        separable = True
        skips: bool = False

        def optimizer(self, named_parameters: Any) -> optim.Optimizer:
            return Adding([one for _, one in named_parameters], skips=self.skips)

    expected = train(Adds(), a_job()).digest
    assert serve_split(Adds, a_job(), 1)[0].digest() == expected
    with pytest.raises(
        SpecError,
        match=r"optimizer\(\): Adding cannot be split over 2 servers: .* step\(\) raised "
        "TypeError: .*; use servers: 1, or skip",
    ) as found:
        serve_split(Adds, a_job(), 2)
    assert "\n" not in str(found.value)
    assert serve_split(lambda: Adds(skips=True), a_job(), 2)[0].digest() == expected


class Meddling(MixedApp):
    """Its evaluation changes a buffer, as one that forgets ``no_grad`` and ``eval`` would."""

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Mixed)
        model.norm.train()
        model(torch.arange(7))
        return {"a": 1.0}


def test_an_evaluation_that_changes_the_model_counts_with_one_server_and_is_refused_with_two() -> (
    None
):
    job = mixed_job()
    assert serve(Meddling, job)[0].digest() == train(Meddling(), job).digest
    with pytest.raises(SpecError, match=r"evaluate\(\): changes 'norm.running_mean'"):
        serve_split(Meddling, job, 2)


def test_blocks_of_other_parts_must_be_taken_before_they_are_used() -> None:
    job = mixed_job(rounds=4)
    stores = [ParameterStore(MixedApp(), job, part=part, parts=2) for part in range(2)]
    drive_split(stores, MixedApp, job, stop_at=1)
    with pytest.raises(ValueError, match="blocks of other parts of version 1 were not taken"):
        stores[0].digest()
    stores[0].take(stores[1].ranges, stores[1].state())
    one, _ = serve(MixedApp, job, stop_at=1)
    assert stores[0].digest() == one.digest()
    assert bytes(gather(stores)) == b"".join(one.state())


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (3, 2), (2, MANY)])
@pytest.mark.parametrize("chosen", ["adam", "sgd"])
def test_a_checkpoint_of_any_number_of_servers_restores_any_other(
    chosen: str, before: int, after: int
) -> None:
    job = mixed_job(rounds=7)

    def make() -> MixedApp:
        return MixedApp(chosen=chosen)

    plain = train(make(), job)
    old = [ParameterStore(make(), job, part=part, parts=before) for part in range(before)]
    drive_split(old, make, job, stop_at=4)
    saved = [bytes(store.checkpoint_part()) for store in old]
    new = [ParameterStore(make(), job, part=part, parts=after) for part in range(after)]
    assert all(store.ranges for store in new) == (after < MANY)
    for store in new:
        store.restore(saved[::-1])
        assert store.version == 4
    assert gather(new) == gather(old)
    assert bytes(new[0].checkpoint_part()) == saved[0] or before != after
    drive_split(new, make, job)
    assert new[0].digest() == plain.digest
    for store in new:  # back in time, in stores that went on
        store.restore(saved)
    drive_split(new, make, job)
    assert new[0].digest() == plain.digest


def test_a_part_of_a_checkpoint_holds_what_its_server_owns_and_no_more() -> None:
    job = mixed_job(rounds=2)
    stores = [ParameterStore(MixedApp(chosen="adam"), job, part=part, parts=3) for part in range(3)]
    drive_split(stores, lambda: MixedApp(chosen="adam"), job)
    sizes = [store.checkpoint_part().nbytes for store in stores]
    (one,) = [serve(lambda: MixedApp(chosen="adam"), job)[0]]
    owned = [sum(end - begin for begin, end in store.ranges) for store in stores]
    assert all(0 < size < 3 * own + 6000 for size, own in zip(sizes, owned, strict=True))
    assert sum(sizes) < one.checkpoint_part().nbytes + 12000


def test_parts_that_do_not_belong_together_are_refused_in_one_line() -> None:
    job = mixed_job()
    stores = [ParameterStore(MixedApp(), job, part=part, parts=2) for part in range(2)]
    early = [bytes(store.checkpoint_part()) for store in stores]
    drive_split(stores, MixedApp, job, stop_at=1)
    late = [bytes(store.checkpoint_part()) for store in stores]
    three = ParameterStore(MixedApp(), job, part=1, parts=3).checkpoint_part()
    other, _ = serve(Points, a_job(), stop_at=1)
    store = ParameterStore(MixedApp(), job)
    wrong = {
        "do not belong together": [early[0], late[1]],
        "or some are missing": [late[0]],
        "together, or": [late[0], three],
        "belong": [late[0], late[0]],
        "another model: model/": [other.checkpoint_part()],
        "not a checkpoint": [b"abc"],
        "MessyHeader|not a checkpoint": [late[0][:-1], late[1]],
    }
    for message, parts in wrong.items():
        with pytest.raises(SpecError, match=message) as found:
            store.restore(parts)
        assert "\n" not in str(found.value)
    store.restore(late)
    assert store.version == 1
