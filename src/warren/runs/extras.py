"""The packages that some commands need beside Warren's own, for rooms that know no live one."""

from __future__ import annotations

from warren.live.extras import need as need
