"""The home of a service: one daemon, for its account alone, and a clear line where it cannot be."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from warren.model.errors import SpecError
from warren.serve.daemon.home import home_of_service
from warren.serve.daemon.service import run_service


@pytest.mark.parametrize(("as_root", "mode"), [(False, 0o700), (True, 0o711)])
def test_only_the_socket_can_be_reached_by_others(tmp_path: Path, as_root: bool, mode: int) -> None:
    (tmp_path / "home").mkdir(mode=0o777)
    with home_of_service(tmp_path / "home", as_root=as_root) as home:
        assert stat.S_IMODE(home.stat().st_mode) == mode
        assert stat.S_IMODE((home / "lock").stat().st_mode) == 0o600


def test_a_home_has_one_daemon_at_a_time(tmp_path: Path) -> None:
    with (
        home_of_service(tmp_path, as_root=False),
        pytest.raises(
            SpecError, match=rf"another warren serve runs here \(process {os.getpid()}\)"
        ),
        home_of_service(tmp_path, as_root=False),
    ):
        pass
    with home_of_service(tmp_path, as_root=False):
        pass


def _file(home: Path) -> None:
    home.write_text("")


def _busy_socket(home: Path) -> None:
    home.mkdir()
    (home / "socket").write_text("not a socket")


def _earlier_attempts(home: Path) -> None:
    (home / "agent" / "attempts" / "1.1").mkdir(parents=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_file, "File exists"),
        (_busy_socket, "socket: is there and is no socket"),
        (_earlier_attempts, "is new, but .*attempts has jobs of an earlier one"),
    ],
)
def test_a_home_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    make(tmp_path / "home")
    with pytest.raises(SpecError, match=message) as refused:
        run_service(tmp_path / "home")
    assert "\n" not in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_a_path_too_long_for_a_socket_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 100)
    with pytest.raises(
        SpecError, match="the path is too long for a socket in it; at most 96 bytes"
    ):
        run_service(home)
    assert not home.exists()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    for option in ("listen", "agents_listen"):
        with pytest.raises(SpecError, match=f"{address}: is no HOST:PORT"):
            run_service(tmp_path / "home", **{option: address})  # type: ignore[arg-type]


def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(SpecError, match=f"{address}: Address already in use"):
            run_service(tmp_path / "home", listen=address)
