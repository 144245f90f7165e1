"""Apps of live tests, as the text of one file: right ones, and ones that break in many ways."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

APPS = """
import fcntl, os, signal, sys, threading, time
import torch
from torch import nn
from warren.apps.protocol import TorchApp

torch.set_num_threads(2)  # what user code does


class Tiny(TorchApp):
    width: int = 8
    sleep_s: float = 0.0

    def model(self):
        return nn.Sequential(
            nn.Linear(4, self.width), nn.BatchNorm1d(self.width), nn.Dropout(0.2),
            nn.Linear(self.width, 1),
        )

    def dataset(self):
        x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
        return x, x.sum(1, keepdim=True)

    def loss(self, model, batch):
        time.sleep(self.sleep_s)
        x, y = batch
        return nn.functional.mse_loss(model(x), y)

    def optimizer(self, named_parameters):
        return torch.optim.Adam([p for _, p in named_parameters], lr=0.05)

    def evaluate(self, model):
        x, y = self.dataset()
        return {"mse": float(nn.functional.mse_loss(model(x), y))}


class Whole(Tiny):
    def optimizer(self, named_parameters):
        optimizer = super().optimizer(named_parameters)
        optimizer.register_step_post_hook(lambda *given: None)  # it may look at all tensors
        return optimizer


class Slow(Tiny):
    build_s: float = 0.0

    def model(self):
        time.sleep(self.build_s)
        return super().model()


def wait_for(file):
    until_s = time.monotonic() + 100
    while not os.path.exists(file) and time.monotonic() < until_s:
        time.sleep(0.005)


class WaitsToBuild(Tiny):
    file: str = ""

    def model(self):
        wait_for(self.file)
        return super().model()


class Meets(Tiny):
    calls: str = ""  # a folder: call 3 makes 3.here with its process and device, and waits for 3.go
    meets_at: list = []

    def loss(self, model, batch):
        with open("/proc/self/comm") as file:
            _, what, *device = file.read().strip().split("-")
        # None that computes again, or before time zero.
        if what == "train" and os.path.exists(f"{self.calls}/begun"):
            # One process at a time counts; the kernel lets the next in when one is killed.
            with open(f"{self.calls}/lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                call = sum(name.endswith(".here") for name in os.listdir(self.calls))
                with open(f"{self.calls}/new", "w") as file:
                    file.write(f"{os.getpid()} {device[0]}")
                os.rename(file.name, f"{self.calls}/{call}.here")
            if call in self.meets_at:
                wait_for(f"{self.calls}/{call}.go")
        return super().loss(model, batch)


class Short(Tiny):
    calls: str = ""  # a folder, with a file a call
    short_at: list = []

    def loss(self, model, batch):
        call = len(os.listdir(self.calls))
        with open("/proc/self/comm") as file:
            counts = file.read().startswith("warren-train")  # none that computes again
        if counts:
            open(f"{self.calls}/{call}", "w").close()
        if counts and call in self.short_at:
            raise torch.OutOfMemoryError("tried to allocate too much")
        return super().loss(model, batch)


class Raises(Tiny):
    calls = 0
    scratch = ("self.calls",)

    def loss(self, model, batch):
        self.calls += 1
        if self.calls == 3:
            raise ValueError("the third batch is bad")
        return super().loss(model, batch)


class RaisesAtBirth(Tiny):
    def dataset(self):
        raise OSError("no such data")


class RaisesInServer(Tiny):
    def evaluate(self, model):
        raise RuntimeError("cannot evaluate")


class Exits(Tiny):
    def loss(self, model, batch):
        sys.exit(3)


class Dies(Tiny):
    def loss(self, model, batch):
        os.kill(os.getpid(), 9)


class KillsItsParent(Tiny):
    def loss(self, model, batch):
        os.kill(os.getppid(), 9)
        time.sleep(60)


class DiesLater(Tiny):
    def model(self):
        with open("/proc/self/comm") as file:
            if "serve" not in file.read():
                threading.Thread(target=die_between_tasks, daemon=True).start()
        return super().model()


def die_between_tasks():
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name != "poll":  # it builds, which may take long
        time.sleep(0.01)
    time.sleep(0.3)
    os._exit(3)


class Prints(Tiny):
    def loss(self, model, batch):
        while True:
            print("x" * 1000)


class DiesInServer(Tiny):
    def evaluate(self, model):
        os._exit(7)


class Hangs(Tiny):
    def loss(self, model, batch):
        while True:
            pass


class HangsInServer(Tiny):
    def evaluate(self, model):
        time.sleep(1000)


class Deaf(Tiny):
    where: str = ""

    def hang(self, place):
        if place == self.where:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            time.sleep(1000)

    def model(self):
        # A server builds its model too; trainers know their device.
        with open("/proc/self/comm") as file:
            self.hang("build in " + file.read().split("-")[1])
        return super().model()

    def loss(self, model, batch):
        self.hang("loss")
        return super().loss(model, batch)

    def evaluate(self, model):
        self.hang("evaluate")
        return super().evaluate(model)


class Forks(Tiny):
    def model(self):
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                time.sleep(60)
            time.sleep(60)
        return super().model()


class Counts(Tiny):
    calls = 0
    scratch = ("Counts.calls",)  # it says so, and it is not true

    def loss(self, model, batch):
        Counts.calls += 1
        return super().loss(model, batch) * Counts.calls


class Clock(Tiny):
    def loss(self, model, batch):
        return super().loss(model, batch) * (1 + time.time() % 1)


class ReadsEmpty(Tiny):
    def loss(self, model, batch):
        return super().loss(model, batch) * (1 + torch.empty(1000).isnan().float().mean())


class Random(Tiny):
    def loss(self, model, batch):
        return super().loss(model, batch) * (1 + int.from_bytes(os.urandom(2), "little") / 1e6)
"""


def text_of(names: Iterable[str]) -> str:
    """The text of these apps and of what they use: each process reads, builds and watches it all.

    Names that are not here are of a class that the test adds, to which ``Tiny`` may belong.
    """
    parts, wanted, found = _parts(), {"", "Tiny", *names}, set[str]()
    while wanted:
        found |= wanted
        wanted = {one for name in wanted & parts.keys() for one in parts[name][1]} - found
    return "\n\n\n".join(text for name, (text, _) in parts.items() if name in found)


@cache
def _parts() -> dict[str, tuple[str, frozenset[str]]]:
    """The text of each class and function, with the names in it; the rest has no name."""
    nodes = ast.parse(APPS).body
    named = [one for one in nodes if isinstance(one, ast.ClassDef | ast.FunctionDef)]
    names = {one.name for one in named}
    rest = "\n".join(ast.unparse(one) for one in nodes if one not in named)
    return {"": (rest, frozenset())} | {
        one.name: (
            str(ast.get_source_segment(APPS, one)),
            frozenset(n.id for n in ast.walk(one) if isinstance(n, ast.Name)) & names,
        )
        for one in named
    }
