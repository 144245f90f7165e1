import pytest

from warren.live.training.numerics import pin


@pytest.fixture(autouse=True, scope="session")
def _pinned() -> None:
    pin()
