"""Shares of a model on workers that serve, too, and on extra servers: BytePS's closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.cost.parameter_server import ServerLinks, transfer_s_W
from warren.solve.shapes.model_split import overlapped_shares


def load(workers: int, extra: int, share: float) -> float:
    """What the busiest direction of a link carries, in models, if each worker holds ``share``."""
    left = 1 - workers * share
    of_worker = (workers - 1) * share + 1 - share
    return max(of_worker, workers * left / extra if extra else 0.0)


@given(st.integers(2, 40), st.integers(0, 60))
def test_no_other_shares_leave_the_busiest_link_less(workers: int, extra: int) -> None:
    own, other = overlapped_shares(workers, extra)
    assert workers * own + extra * other == pytest.approx(1)
    best = load(workers, extra, own)
    most = 1 / workers
    tried = [most] if extra == 0 else [most * step / 400 for step in range(401)]
    assert best <= min(load(workers, extra, share) for share in tried) + 1e-9
    if 0 < extra < workers:
        # As BytePS has it: all extra machines together.
        whole = 2 * extra * (workers - 1) / (workers * (workers + extra) - 2 * extra)
        assert extra * other == pytest.approx(whole)


@given(st.integers(1, 12), st.integers(1, 30))
def test_with_as_many_extra_servers_it_is_the_reading_nic(workers: int, more: int) -> None:
    """Workers that hold nothing: a pull is n f' of a model, as the cost model says."""
    extra = workers + more
    own, other = overlapped_shares(workers, extra)
    links = ServerLinks(
        server_bytes_P=np.full(extra, other), server_rate_P=np.ones(extra),
        worker_rate_W=np.ones(workers),
    )  # fmt: skip
    assert own == 0
    assert transfer_s_W(links, "nic").max() == pytest.approx(max(workers * other, 1.0))


def test_a_machine_that_is_alone_serves_nobody() -> None:
    with pytest.raises(ValueError, match="needs another one"):
        overlapped_shares(1, 0)
