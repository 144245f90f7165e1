"""The four domains of Hare's Table 2: their models, and limits of their jobs' rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from warren.workload.generators.cluster_shapes import parts_of

_SHARE: Final = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Models of one domain, and the least and most rounds of its jobs."""

    models: tuple[str, ...]
    rounds: tuple[int, int]

    def drawn_rounds(self, part: int) -> int:
        """Rounds between the limits; ``part`` is drawn evenly below 2**31."""
        least, most = self.rounds
        return least + part * (most - least + 1) // 2**31


DOMAINS: Final[Mapping[str, Domain]] = {
    "cv": Domain(models=("vgg19", "resnet50", "inception-v3"), rounds=(300, 900)),
    "nlp": Domain(models=("bert-base", "transformer"), rounds=(500, 1500)),
    "speech": Domain(models=("deepspeech",), rounds=(300, 900)),
    "rec": Domain(models=("fastgcn", "graphsage"), rounds=(200, 600)),
}
"""By the names that shares go by."""


def places(count: int, shares: Mapping[str, float]) -> list[tuple[Domain, str]]:
    """Domain and model of so many jobs, domain by domain as the shares say; models take turns.

    Raises
    ------
    ValueError
        If the shares add up to nothing.
    """
    parts = parts_of(count, {name: shares.get(name, _SHARE) for name in DOMAINS})
    return [
        (domain, domain.models[turn % len(domain.models)])
        for domain, number in zip(DOMAINS.values(), parts.values(), strict=True)
        for turn in range(number)
    ]
