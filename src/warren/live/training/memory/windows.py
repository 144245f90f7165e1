"""Memory of other processes of this host, opened once and looked into as spots name it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Final

from warren.live.training.memory.shared_arena import Arena
from warren.live.transport.message import Spot

_FULL: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Windows:
    """Arenas that others made. What their makers have closed is let go of as others are opened.

    ``read_only`` and ``relay`` as for ``Arena.open``.
    """

    def __init__(self, *, read_only: bool = False, relay: bool = False) -> None:
        self._read_only, self._relay = read_only, relay
        self._arenas: dict[tuple[str, int], Arena] = {}

    def view(self, spot: Spot) -> memoryview:
        """The bytes of a slot, which may be written unless these windows are for reading.

        Raises
        ------
        OSError
            Who made it is gone, or has closed it.
        ValueError
            It is not as the spot says.
        """
        key = spot.path, spot.serial
        if key not in self._arenas:
            self._close(path for path, _ in self._arenas if not os.path.exists(path))
            self._close([spot.path])
            self._arenas[key] = Arena.open(spot, read_only=self._read_only, relay=self._relay)
        return self._arenas[key].slot(spot.slot)

    def relayed(self, spot: Spot) -> Spot:
        """How others find a slot, which has been looked at, through this process."""
        return self._arenas[spot.path, spot.serial].spot(spot.slot)

    def look(self, spot: Spot) -> memoryview | None:
        """As ``view``; None where who made it is gone.

        Raises
        ------
        OSError
            This process or its host can open no more.
        """
        try:
            return self.view(spot)
        except ValueError:
            return None
        except OSError as error:
            if error.errno in _FULL:
                raise
            return None

    def close(self) -> None:
        """Let go of all of them; see ``Arena.close``."""
        self._close([path for path, _ in self._arenas])

    def _close(self, paths: Iterable[str]) -> None:
        gone = set(paths)
        for key in [key for key in self._arenas if key[0] in gone]:
            self._arenas.pop(key).close()
