"""The shipped profile: eight models on five device types, each figure with where it comes from.

*Source.* Hare (HPDC'22): batch sizes from Table 2; the time of one mini-batch on a V100 from the
row "Hare" of Table 3, which prints a switching time and its share of the task's time:
T^c = switching / share - switching. The rows of Table 3 disagree with each other by up to 3.6
times, and the device type is not printed (taken to be the V100, the testbed's majority).

*Other types.* The paper's section 2.2.1 gives two models: ResNet50 runs 2 times as fast on a T4
and 7 times as fast on a V100 as on a K80; GraphSAGE gains about 2 times on a V100. Where no
figure is printed, the V100 gain over the K80 is that of the nearest job type in Gavel's measured
throughputs, and the gains of the other types follow from it: gain = (V100 gain) ** e, where e is
fitted to ResNet50 (T4: 2 = 7 ** e; P100: Gavel measures 4.23 where the V100 has 7.08). The M60
is assumed at 1.1 for every model, the ratio of peak single-precision rates (4.8 / 4.4 TFLOP/s).

*Sizes.* Parameters times 4 bytes, with the head that the data set needs. ``memory_bytes`` is
assumed: 1 GB for the runtime, 4 copies of the parameters (weights, gradients, two moments) and the
stated activations per item. It is at most 7.5 GB, because the paper runs every model on its M60 (8
GB).

*Check.* Section 5.1 assumes T^c > T^s. With T^s = 2 * 8 * model_bytes / 25 Gbit/s that holds for
all rows but one: ResNet50 on the V100 (T^c 52.9 ms, T^s 60.7 ms).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from warren.model.costs import ProfileRow

DEVICE_TYPES: Final = ("K80", "M60", "T4", "P100", "V100")

# The exponents e of gain = (V100 gain) ** e, fitted to ResNet50: for the T4 by the paper's 2 : 7,
# for the P100 by Gavel's throughputs (K80 0.62, P100 2.62, V100 4.39: gains of 4.23 and 7.08).
_GAIN_EXPONENT: Final[Mapping[str, float]] = {
    "T4": math.log(2.0) / math.log(7.0),
    "P100": math.log(2.62 / 0.62) / math.log(4.39 / 0.62),
}
# Assumed: the ratio of peak single-precision rates, 4.8 / 4.4 TFLOP/s.
_M60_GAIN: Final = 1.1
# Assumed: the paper runs every model on its M60, which has 8 GB.
_MEMORY_MAX_BYTES: Final = 7_500_000_000
_RUNTIME_BYTES: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """The figures of one model: those of the paper, sizes, and where each comes from.

    ``share``: switching time as a part of the task's time; ``item_bytes``: activations of one item
    of the batch; ``gain``: a V100's speed over a K80's.
    """

    batch: int
    switching_ms: float
    share: float
    parameters: int
    parameters_source: str
    item_bytes: int
    gain: float
    gain_source: str


# Origin of the gain of a V100 over a K80, for models of which the paper gives none.
_CONVOLUTION: Final = "as ResNet50, section 2.2.1 (7 : 1); assumed: also convolutions throughout"
_TRANSFORMER: Final = "assumed: Gavel's Transformer at batch 128, 5.45 : 0.98 steps/s"
_RECURRENT: Final = "assumed: Gavel's LSTM language model at batch 10, 81.65 : 23.79 steps/s"

_MODELS: Final[Mapping[str, _Figures]] = {
    "vgg19": _Figures(
        batch=128,
        switching_ms=2.77,
        share=0.0182,
        parameters=20_029_514,
        parameters_source="VGG-19 with the CIFAR head, one layer 512 to 10 (assumed: with the "
        "ImageNet head of 124M, T^s would be 2.5 T^c at 25 Gbit/s, against section 5.1)",
        item_bytes=30_000_000,
        gain=7.0,
        gain_source=_CONVOLUTION,
    ),
    "resnet50": _Figures(
        batch=64,
        switching_ms=2.04,
        share=0.0371,
        parameters=23_712_932,
        parameters_source="ResNet-50 with 100 classes",
        item_bytes=60_000_000,
        gain=7.0,
        gain_source="section 2.2.1: 7 times a K80",
    ),
    "inception-v3": _Figures(
        batch=32,
        switching_ms=2.46,
        share=0.0143,
        parameters=21_990_468,
        parameters_source="Inception V3 with 100 classes, without the auxiliary head",
        item_bytes=130_000_000,
        gain=7.0,
        gain_source=_CONVOLUTION,
    ),
    "bert-base": _Figures(
        batch=32,
        switching_ms=5.03,
        share=0.0113,
        parameters=108_893_186,
        parameters_source="BERT base, uncased, with the SQuAD head",
        item_bytes=250_000_000,
        gain=5.45 / 0.98,
        gain_source=_TRANSFORMER,
    ),
    "transformer": _Figures(
        batch=128,
        switching_ms=5.79,
        share=0.0136,
        parameters=65_000_000,
        parameters_source="Transformer base as its paper states it (65M)",
        item_bytes=30_000_000,
        gain=5.45 / 0.98,
        gain_source=_TRANSFORMER,
    ),
    "deepspeech": _Figures(
        batch=8,
        switching_ms=4.27,
        share=0.0125,
        parameters=47_224_861,
        parameters_source="assumed: five layers of 2048 units, the fourth an LSTM, 494 inputs, "
        "29 characters",
        item_bytes=300_000_000,
        gain=81.65 / 23.79,
        gain_source=_RECURRENT,
    ),
    "fastgcn": _Figures(
        batch=128,
        switching_ms=1.83,
        share=0.0453,
        parameters=23_063,
        parameters_source="two graph convolutions, 1433 features, 16 hidden, 7 classes (Cora)",
        item_bytes=1_000_000,
        gain=2.0,
        gain_source="assumed: as GraphSAGE, the other graph network on Cora",
    ),
    "graphsage": _Figures(
        batch=16,
        switching_ms=0.96,
        share=0.0336,
        parameters=400_512,
        parameters_source="two mean aggregators of 128 units, 1433 features, 7 classes (Cora)",
        item_bytes=1_000_000,
        gain=2.0,
        gain_source="section 2.2.1: about 2 times a K80",
    ),
}


def _gain(device_type: str, v100_gain: float) -> float:
    """Return the speed of a device type over a K80's, for a model whose V100 has ``v100_gain``."""
    if device_type == "K80":
        return 1.0
    if device_type == "M60":
        return _M60_GAIN
    return float(v100_gain ** _GAIN_EXPONENT.get(device_type, 1.0))


def _row(name: str, figures: _Figures) -> ProfileRow:
    """Derive the profile row of a model from its figures."""
    # T^c = switching / share - switching (Table 3, row "Hare"), in ms; other types by their gains.
    v100_s = (figures.switching_ms / figures.share - figures.switching_ms) / 1000.0
    k80_s = v100_s * figures.gain
    # Single precision; in memory weights, gradients and two moments, and each item's activations.
    model_bytes = 4 * figures.parameters
    memory_bytes = _RUNTIME_BYTES + 4 * model_bytes + figures.batch * figures.item_bytes
    return ProfileRow(
        model=name,
        batch=figures.batch,
        model_bytes=model_bytes,
        memory_bytes=min(_MEMORY_MAX_BYTES, memory_bytes),
        comp_s={kind: k80_s / _gain(kind, figures.gain) for kind in DEVICE_TYPES},
        sync_s={},
        source=_sources(figures),
    )


def _sources(figures: _Figures) -> Mapping[str, str]:
    """Say of each figure of a row where it comes from."""
    from_gain = f"V100 time times the gain over a K80: {figures.gain_source}"
    exponent = "assumed: K80 time / (V100 gain ** e), e fitted to ResNet50's"
    return {
        "batch": "Hare, Table 2",
        "model_bytes": f"4 bytes times {figures.parameters} parameters: "
        f"{figures.parameters_source}",
        "memory_bytes": "assumed: 1 GB + 4 copies of the parameters + "
        f"{figures.item_bytes / 1e6:.0f} MB an item, at most 7.5 GB",
        "comp.V100": f"Hare, Table 3: {figures.switching_ms} ms / {figures.share:.2%} - "
        f"{figures.switching_ms} ms",
        "comp.K80": from_gain,
        "comp.T4": "Hare, section 2.2.1: 2 times a K80"
        if "section 2.2.1: 7" in figures.gain_source
        else f"{exponent} 2 : 7 (Hare, section 2.2.1)",
        "comp.P100": f"{exponent} 4.23 : 7.08 (Gavel, batch 64)",
        "comp.M60": "assumed: 1.1 times a K80 (peak single precision 4.8 : 4.4 TFLOP/s)",
        "sync": "follows from model_bytes and the NIC",
    }


TABLE: Final[Mapping[str, ProfileRow]] = MappingProxyType(
    {name: _row(name, figures) for name, figures in _MODELS.items()}
)
"""Every shipped row by model name."""

BATCHES: Final[Mapping[str, int]] = MappingProxyType(
    {name: row.batch for name, row in TABLE.items()}
)
"""Reference batch of every shipped row: the default of a job that states none."""
