"""The real learning curves with 20 or more points, out of the folder of public data.

One validation metric a file, and what else the file has by epoch or step of training. Files with
no such curve (BERT of Pollux, MLPerf) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import _common

from warren.predict.curve import Curve, first, part_of
from warren.predict.curve_kind import CurveKind
from warren.predict.reading.curve_files import log_curve, table_curve
from warren.store.files import read
from warren.workload.text import decoded, unpacked

FOLDER: Final = _common.DATA / "curves"
LEAST_POINTS: Final = 20
OBSERVED: Final = (0.1, 0.3, 0.5)
TASKS: Final = {
    "pollux cifar10": "cifar10", "gluon cifar10": "cifar10", "dawnbench cifar10": "cifar10",
    "pollux imagenet": "imagenet", "gluon imagenet": "imagenet", "dawnbench imagenet": "imagenet",
    "gluon detection": "detection", "gluon nlp": "text", "dawnbench squad": "text",
    "gluon ucf101": "video", "rubick": "language model",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """Files of one data set: ``how`` is two columns of a table, or a pattern for a log.

    ``unit`` turns values into fractions: 0.01 for percent; None for losses, which have no scale.
    """

    dataset: str
    files: str
    what: str
    how: tuple[str, str] | str
    unit: float | None = 1.0


@dataclass(frozen=True, slots=True)
class Real:
    """A curve and where it is from."""

    dataset: str
    name: str
    what: str
    unit: float | None
    curve: Curve
    cuts: tuple[float, ...] | None = None
    """Where its learning rate is cut, as the head of its own log states it."""

    @property
    def kind(self) -> CurveKind:
        """What is stated before the first step."""
        return CurveKind(self.what, self.cuts)

    def seen(self, share: float) -> Curve:
        """The first so many of its points, as ``warren predict --observe`` counts them."""
        return first(self.curve, part_of(len(self.curve), share))

    @property
    def end(self) -> float:
        """The value to predict: the last one."""
        return float(self.curve.values[-1])


_CUTS: Final = re.compile(r"lr_decay_epoch='([\d,]+)'")
_HEAD: Final = 8000
"""Characters of a log in which its options stand."""
_EPOCH: Final = r"\[Epoch (?P<step>\d+)\]"
_GLUON: Final = _EPOCH + r" train={} val={} loss={}"
_NUMBER: Final = r"(?P<value>[\d.]+)"

SOURCES: Final = (
    Source("pollux cifar10", "pollux/cifar10/*", "accuracy", ("progress", "metric")),
    Source("pollux imagenet", "pollux/imagenet/*", "accuracy", ("progress", "metric")),
    Source("gluon cifar10", "gluon/cifar10/*", "accuracy",
           _GLUON.format(r"\S+", _NUMBER, r"\S+")),
    Source("gluon cifar10", "gluon/cifar10/*[!p].log", "training accuracy",
           _GLUON.format(_NUMBER, r"\S+", r"\S+")),
    Source("gluon cifar10", "gluon/cifar10/*mixup.log", "training RMSE",  # what `train=` is there
           _GLUON.format(_NUMBER, r"\S+", r"\S+"), None),
    Source("gluon cifar10", "gluon/cifar10/*", "training loss",
           _GLUON.format(r"\S+", r"\S+", _NUMBER), None),
    Source("gluon imagenet", "gluon/imagenet/*", "error",
           _EPOCH + r" validation: err-top1=" + _NUMBER),
    Source("gluon detection", "gluon/detection/*", "mAP", r"^mAP=" + _NUMBER),
    Source("gluon detection", "gluon/detection/*", "training loss",
           _EPOCH + r" Training cost: [\d.]+, (?:CrossEntropy|ObjLoss)=" + _NUMBER, None),
    Source("gluon nlp", "gluon/nlp/awd*", "perplexity",
           _EPOCH + r" time cost .* valid ppl " + _NUMBER, None),
    Source("gluon nlp", "gluon/nlp/finetune_MNLI*", "training loss",
           r"Batch \d+/\d+\] loss=" + _NUMBER, None),
    Source("gluon nlp", "gluon/nlp/finetune_SST*", "training loss",
           r"Batch \d+/\d+\] loss=" + _NUMBER, None),
    Source("gluon nlp", "gluon/nlp/finetune_squad*", "training loss",
           r"Batch: \d+/\d+, Loss=" + _NUMBER, None),
    Source("gluon ucf101", "gluon/ucf101/*", "accuracy",
           _EPOCH + r" validation: acc-top1=" + _NUMBER, 0.01),
    Source("dawnbench cifar10", "dawnbench/CIFAR10*", "accuracy", ("epoch", "top1Accuracy"), 0.01),
    Source("dawnbench imagenet", "dawnbench/ImageNet*", "accuracy", ("epoch", "top1Accuracy"),
           0.01),
    Source("dawnbench squad", "dawnbench/SQuAD*", "F1", ("epoch", "f1Score")),
    Source("rubick", "rubick_llama7b/*", "training loss",
           r'"iteration": +(?P<step>\d+) .*"lm_loss": (?P<value>[\d.E+-]+)', None),
)  # fmt: skip


def real_curves() -> Iterator[Real]:
    """All of them, in the order of ``SOURCES``; stops with a clear line if there are none."""
    if not FOLDER.is_dir():
        raise SystemExit(f"{FOLDER} is not here; WARREN_DATA=FOLDER names the public data")
    for source in SOURCES:
        for path in sorted(FOLDER.glob(source.files)):
            text = decoded(path.name, unpacked(path.name, read(str(path))))
            found = (
                log_curve(path.name, text, source.how).curve
                if isinstance(source.how, str)
                else table_curve(path.name, text, source.how).curve
            )
            if len(found) >= LEAST_POINTS:
                yield Real(
                    source.dataset, path.name, source.what, source.unit, found, cuts_of(text)
                )


def cuts_of(text: str) -> tuple[float, ...] | None:
    """The epochs at which a log says that it cuts its rate; None: it says nothing, or cosine."""
    found = _CUTS.search(text[:_HEAD])
    if found is None or "lr_mode='cosine'" in text[:_HEAD]:
        return None
    return tuple(float(epoch) for epoch in found[1].split(","))
