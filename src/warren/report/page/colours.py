"""Colors of jobs: ten hues that stay apart for color-blind eyes, in three depths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from warren.model.job import Job

_HUES: Final = (
    (0x33, 0x78, 0xB8),
    (0xEE, 0x88, 0x33),
    (0x2A, 0x9D, 0x6F),
    (0xCC, 0x55, 0x6B),
    (0x6C, 0xC4, 0xEA),
    (0xD9, 0xB9, 0x2F),
    (0x7A, 0x5A, 0xB0),
    (0x8C, 0x6D, 0x3A),
    (0xC9, 0x7F, 0xC0),
    (0x7F, 0xA8, 0x3B),
)
_DEPTHS: Final = (1.0, 0.66, 1.42)
"""Lightness of a hue: unchanged, darker, and mixed with white; see ``_shade``."""
_BRIGHTER: Final = "brightness(1.15)"
"""CSS filter of dark shades on a dark page."""
COLOURS: Final = len(_HUES) * len(_DEPTHS)
"""Most jobs that have a color each."""
MODELS: Final = len(_HUES)
"""Most models that have a hue each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Colouring:
    """The color class of each job, and the legend: (class, key, label).

    Up to ``COLOURS`` jobs have one each; more are colored by model if there are few models, but
    more than one, else in turn. Jobs of one ``key_J`` are highlighted together.
    """

    class_J: tuple[str, ...]
    key_J: tuple[str, ...]
    legend: tuple[tuple[str, str, str], ...]
    by: str

    def groups(self) -> dict[str, tuple[str, list[int]]]:
        """Return for each key its color class and its jobs, in order of first appearance."""
        found: dict[str, tuple[str, list[int]]] = {}
        for job, key in enumerate(self.key_J):
            found.setdefault(key, (self.class_J[job], []))[1].append(job)
        return found

    def group_J(self) -> list[int]:
        """Return for each job a number, the same for jobs of one key."""
        numbers = {key: number for number, key in enumerate(self.groups())}
        return [numbers[key] for key in self.key_J]


def colouring(jobs: Sequence[Job]) -> Colouring:
    """Choose colors for these jobs."""
    if len(jobs) <= COLOURS:
        classes = tuple(f"c{job.index}" for job in jobs)
        keys = tuple(f"j{job.index}" for job in jobs)
        chips = zip(classes, keys, (job.name for job in jobs), strict=True)
        return Colouring(class_J=classes, key_J=keys, legend=tuple(chips), by="job")
    # Jobs without a model, whose times were measured, count as one model.
    models = list(dict.fromkeys(job.model or "measured" for job in jobs))
    # One model would paint all jobs alike, which shows less than colors in turn.
    if 1 < len(models) <= MODELS:
        place = {model: index for index, model in enumerate(models)}
        number_J = [place[job.model or "measured"] for job in jobs]
        return Colouring(
            class_J=tuple(f"c{number}" for number in number_J),
            key_J=tuple(f"m{number}" for number in number_J),
            legend=tuple((f"c{k}", f"m{k}", model) for k, model in enumerate(models)),
            by="model",
        )
    return Colouring(
        class_J=tuple(f"c{job.index % COLOURS}" for job in jobs),
        key_J=tuple(f"j{job.index}" for job in jobs),
        legend=(),
        by="job, in turn",
    )


def legend_of(
    colours: Colouring, jobs: Sequence[int], names: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Return the legend of a chart that shows these jobs; ``names`` are those of all jobs.

    Empty where colors do not tell the jobs apart.
    """
    if colours.legend:
        keys = {colours.key_J[job] for job in jobs}
        return [chip for chip in colours.legend if chip[1] in keys]
    if len({colours.class_J[job] for job in jobs}) < len(jobs):
        return []
    return [(colours.class_J[job], colours.key_J[job], names[job]) for job in jobs]


def colour_css() -> str:
    """Return the CSS rules of all color classes: ``.c0`` fills, ``.l0`` draws lines."""
    rules = []
    for number in range(COLOURS):
        colour = _shade(_HUES[number % len(_HUES)], _DEPTHS[number // len(_HUES)])
        rules.append(
            f".c{number}{{fill:{colour};background:{colour}}}.l{number}{{stroke:{colour}}}"
        )
    # On a dark page the dark shades would hardly be seen.
    dark = ",".join(
        f".c{number},.l{number}" for number in range(COLOURS) if _DEPTHS[number // len(_HUES)] < 1
    )
    rules.append(f"@media screen and (prefers-color-scheme:dark){{{dark}{{filter:{_BRIGHTER}}}}}")
    return "".join(rules)


def _shade(hue: tuple[int, int, int], depth: float) -> str:
    """Return a hue as a CSS color: darker below one, mixed with white above."""
    if depth <= 1:
        mixed = [part * depth for part in hue]
    else:
        # Depth 1.42 is half way to white: 0.42 x 1.2 = 0.504.
        mixed = [part + (255 - part) * (depth - 1) * 1.2 for part in hue]
    return "#" + "".join(f"{min(255, round(part)):02x}" for part in mixed)
