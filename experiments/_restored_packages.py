"""Optimizers and averages of public packages, those that are installed.

No package is needed: ``MISSING`` says which ones are not here.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from _restored_base import Base, kinds_in
from torch import nn, optim

PACKAGES: Final = (
    "lion_pytorch", "adan_pytorch", "prodigyopt", "schedulefree", "muon", "pytorch_ranger",
    "torch_optimizer", "pytorch_optimizer", "ema_pytorch", "torch_ema",
)  # fmt: skip
"""Names under which the packages are imported."""
_TORCH_OPTIMIZER: Final = """
AccSGD AdaBelief AdaBound AdaMod AdamP AggMo Apollo DiffGrad Lamb MADGRAD NovoGrad QHAdam QHM RAdam
Ranger RangerQH RangerVA SGDP SGDW SWATS Shampoo Yogi PID
"""
_PYTORCH_OPTIMIZER: Final = """
ADOPT AdEMAMix AdaBelief AdaFactor AdaShift AdamP Adan Adai Amos CAME DAdaptAdam DAdaptSGD FTRL
Fromage
GaLore Gravity Grams LARS Lamb Lion MADGRAD MARS Mechanic MSVAG Nero NovoGrad PAdam PNM Prodigy
QHAdam
Ranger
SGDSaI SM3 SOAP SRMM ScalableShampoo ScheduleFreeAdamW ScheduleFreeSGD Shampoo StableAdamW
SWATS
Tiger Yogi Kron SPAM APOLLO Alice EXAdam FOCUS LaProp RACS SCION StableSPAM TAM AvaGrad Aida
"""
CHOSEN: Final = {
    "Lion": ("lion_pytorch", "Lion", {"lr": 0.005}),
    "Adan": ("adan_pytorch", "Adan", {"lr": 0.01}),
    "Prodigy": ("prodigyopt", "Prodigy", {"lr": 1.0}),
    "ScheduleFreeSgd": ("schedulefree", "SGDScheduleFree", {"lr": 0.1, "warmup_steps": 3}),
    "ScheduleFreeAdamW": ("schedulefree", "AdamWScheduleFree", {"lr": 0.01}),
    "ScheduleFreeRAdam": ("schedulefree", "RAdamScheduleFree", {"lr": 0.01}),
    "Ranger": ("pytorch_ranger", "Ranger", {"lr": 0.01, "k": 3}),
    **{f"T{one}": ("torch_optimizer", one, {"lr": 0.01}) for one in _TORCH_OPTIMIZER.split()},
    **{f"P{one}": ("pytorch_optimizer", one, {"lr": 0.01}) for one in _PYTORCH_OPTIMIZER.split()},
}
"""Class of an app to package, class of its optimizer, and options."""


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_MODULES: Final = {name: _module(name) for name in PACKAGES}
MISSING: Final = tuple(name for name, one in _MODULES.items() if one is None)


def _app(name: str, package: str, optimiser: str, options: dict[str, Any]) -> Any:
    """An app whose optimizer comes from a package."""

    def steps(_: Base, parameters: list[nn.Parameter]) -> optim.Optimizer:
        kind = getattr(_MODULES[package], optimiser)
        if optimiser == "Nero":
            parameters = [one for one in parameters if one.dim() == 2]
        found: optim.Optimizer = kind(parameters, **options)
        if hasattr(found, "train") and "ScheduleFree" in optimiser:
            found.train()
        return found

    return type(name, (Base,), {"steps": steps, "__module__": __name__})


def _has(package: str, optimiser: str) -> bool:
    return hasattr(_MODULES[package], optimiser)


for _name, (_package, _kind, _options) in CHOSEN.items():
    if _has(_package, _kind):
        globals()[_name] = _app(_name, _package, _kind, _options)


if _has("torch_optimizer", "Lookahead"):

    class TLookahead(Base):
        def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
            inner = optim.Adam(parameters, lr=0.02, fused=False)
            found: optim.Optimizer = _MODULES["torch_optimizer"].Lookahead(inner, k=3)
            return found


if _has("pytorch_optimizer", "Lookahead"):

    class PLookahead(Base):
        def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
            inner = optim.Adam(parameters, lr=0.02, fused=False)
            found: optim.Optimizer = _MODULES["pytorch_optimizer"].Lookahead(
                inner, k=3, pullback_momentum="none"
            )
            return found

    class PSam(Base):
        refused = "SAM requires closure"

        def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
            found: optim.Optimizer = _MODULES["pytorch_optimizer"].SAM(
                parameters, base_optimizer=optim.SGD, lr=0.1
            )
            return found


if _has("muon", "SingleDeviceMuonWithAuxAdam"):

    class MuonAux(Base):
        def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
            groups = [
                {"params": [one for one in parameters if one.dim() == 2], "use_muon": True},
                {"params": [one for one in parameters if one.dim() < 2], "use_muon": False},
            ]
            found: optim.Optimizer = _MODULES["muon"].SingleDeviceMuonWithAuxAdam(groups)
            return found


if _has("ema_pytorch", "EMA"):

    class EmaPytorch(Base):
        """Its average has buffers that count, and begins late."""

        def model(self) -> nn.Module:
            self.net = super().model()
            return self.net

        def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
            optimizer = super().steps(parameters)
            ema = _MODULES["ema_pytorch"].EMA(
                self.net, beta=0.9, update_after_step=3, update_every=2
            )
            optimizer.register_step_post_hook(lambda *_: ema.update())
            self.average = lambda: list(ema.ema_model.parameters())
            return optimizer


if _has("torch_ema", "ExponentialMovingAverage"):

    class TorchEma(Base):
        def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
            optimizer = super().steps(parameters)
            ema = _MODULES["torch_ema"].ExponentialMovingAverage(parameters, decay=0.9)
            optimizer.register_step_post_hook(lambda *_: ema.update())
            self.average = lambda: ema.shadow_params
            return optimizer


PACKAGED = kinds_in(globals())
