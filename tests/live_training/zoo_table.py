"""The kinds of apps that were tried, and what becomes of each: the same bits, or a clear line."""

from __future__ import annotations

from itertools import groupby
from typing import Final, NamedTuple

SAME: Final = "same bits in every engine"
ONE_SERVER: Final = "same bits; refused with several servers"
BUILT: Final = "refused as soon as it is built"
TASK: Final = "refused at a task or an evaluation"
ONCE_MORE: Final = "found by `warren check`, or where a live run computes something again"


class Kind(NamedTuple):
    """One way to write an app. ``says`` is in the line that refuses it."""

    words: str
    app: str
    outcome: str
    says: str = ""


def _same(file: str, **kinds: str) -> list[Kind]:
    return [Kind(words, f"{file}.py:{app}", SAME) for app, words in kinds.items()]


_SPLIT: Final = "is not known to step each tensor alone"

TABLE: Final = [
    *_same(
        "plainly",
        Dropout="dropout",
        BatchNorm="batch norm",
        Cosine="AdamW with a cosine schedule",
        OneCycle="OneCycleLR",
        Lambda="LambdaLR",
        Sequential="SequentialLR",
        AugmentedByRandom="augmentation with `random` in a Dataset",
        AugmentedByNumpy="with `numpy.random`",
        AugmentedByTorch="with `torch`",
        BFloat16="bf16 parameters",
        Float16="fp16 parameters",
        Autocast="autocast",
        Transposed="weights that are not contiguous",
        Tied="tied weights",
        SpectralOld="spectral_norm, old form",
        SpectralNew="spectral_norm, new form",
        WeightNorm="weight_norm",
        Complex="complex parameters",
        ClipNorm="clipping by global norm with `clip_norm`",
        ClipNormMixed="the same of complex, idle and transposed parameters",
        NaNs="NaNs of several payloads",
        Hooks="gradient hooks",
        Twice="backward called twice",
        Loads="a DataLoader with workers inside `dataset()`",
        Small="parameters without dimension or without elements",
        Listed="a list as dataset",
        Threads="threads set in `loss()`",
        Ema="a moving average in buffers",
        AverageOfWeights="an average of the weights with `ema`",
        AverageOfMixed="the same of complex, idle, transposed, bf16 and frozen parameters",
    ),
    *_same(
        "memory",
        Flat="parameters side by side in one memory",
        Columns="buffers that are columns of one table",
    ),
    *_same(
        "apart",
        DatasetForEvaluate="`dataset()` sets what `evaluate()` reads",
        OptimizerForLoss="`optimizer()` sets what `loss()` reads",
        RandomOptimizer="a draw by `random` in `optimizer()`",
        TorchOptimizer="by `torch`",
        RandomSchedule="a draw in `schedule()`",
        RandomSplit="a random split kept in the app",
        TableInEvaluate="a table made by the first evaluation",
        ByMetric="an attribute that `evaluate()` sets: no task sees it",
        Last="an attribute that `loss()` sets: no evaluation sees it",
    ),
    *_same(
        "keeping",
        Reseeds="generators that each task seeds again",
        Table="a table made by the first task, a dict by size, pictures of the last task",
        NamedLogs="counters and logs named in `scratch`",
    ),
    Kind("two optimizers behind one object", "plainly.py:TwoOptimizers", ONE_SERVER, _SPLIT),
    Kind("clipping by global norm inside `step`", "plainly.py:Clips", ONE_SERVER, _SPLIT),
    Kind("in a hook before `step`", "plainly.py:ClipsBefore", ONE_SERVER, _SPLIT),
    Kind("an optimizer that counts in an attribute", "hidden.py:CountsSteps", ONE_SERVER, _SPLIT),
    Kind("LBFGS", "refused.py:Lbfgs", BUILT, "LBFGS.step needs a closure"),
    Kind("ReduceLROnPlateau", "refused.py:Plateau", BUILT, "step needs a metric"),
    Kind("a model that is no module", "refused.py:NoModule", BUILT, "must give a torch.nn.Module"),
    Kind("an integer parameter", "refused.py:Integers", BUILT, "parameter 'steps' is int64"),
    Kind("extra state", "refused.py:ExtraState", BUILT, "extra state '0._extra_state'"),
    Kind(
        "a weight tied by `.data`",
        "memory.py:Tied",
        BUILT,
        "'enc.weight' and 'dec.weight' are two tensors in the same memory; tie them by assigning "
        "the parameter itself: dec.weight = enc.weight",
    ),
    Kind(
        "one tied to its transpose",
        "memory.py:Transposed",
        BUILT,
        "'enc.weight' and 'dec.weight' are two tensors in the same memory; keep one parameter",
    ),
    Kind("one tied in `optimizer()`", "memory.py:TiedByTheOptimizer", BUILT, "same memory"),
    Kind(
        "a buffer of rows of a weight",
        "memory.py:RowsOfAWeight",
        BUILT,
        "'0.weight' and 'more' are two tensors in the same memory; register a copy: "
        "more = 0.weight.detach().clone()",
    ),
    Kind("one of parts of another", "memory.py:PartOfABuffer", BUILT, "'all' and 'more' are two"),
    Kind("an expanded one", "memory.py:Expanded", BUILT, "'more' has several elements in one"),
    Kind("one of windows that overlap", "memory.py:Windows", BUILT, "'more' has several elements"),
    Kind("one without memory", "memory.py:Meta", BUILT, "'more' has no memory (device meta)"),
    Kind("one that is a parameter", "memory.py:Parameter", BUILT, "'more' is an nn.Parameter"),
    Kind(
        "complex128",
        "memory.py:Complex128",
        BUILT,
        "'more' is of complex128, which cannot be averaged and saved; allowed: float16, bfloat16, "
        "float32, float64, complex64, bool, uint8, int8, int16, int32, int64",
    ),
    Kind("uint16", "memory.py:Uint16", BUILT, "'more' is of uint16, which cannot"),
    Kind("float8", "memory.py:Float8", BUILT, "'more' is of float8_e4m3fn, which cannot"),
    Kind(
        "a batch of more than all items",
        "memory.py:FewItems",
        BUILT,
        "batch: 4 is more than the 3 items of dataset()",
    ),
    Kind("sparse gradients", "refused.py:Sparse", TASK, "0.weight: has a sparse gradient"),
    Kind("a buffer registered by a task", "refused.py:Registers", TASK, "registers buffer 'seen'"),
    Kind("one that was None", "refused.py:Fills", TASK, "registers buffer 'seen'"),
    Kind("a buffer taken away", "refused.py:Empties", TASK, "takes 'seen' away"),
    Kind(
        "one of another shape",
        "refused.py:Lengthens",
        TASK,
        "seen: changed from",
    ),
    Kind("a parameter registered", "refused.py:Grows", TASK, "registers parameter 'late'"),
    Kind("a parameter replaced", "refused.py:Replaces", TASK, "replaces parameter '2.bias'"),
    Kind("an embedding with max_norm", "refused.py:MaxNorm", TASK, "writes parameter '0.weight'"),
    Kind("weights clamped in `loss()`", "refused.py:Clamps", TASK, "writes parameter '0.weight'"),
    Kind("in a late round", "refused.py:ClampsLate", TASK, "writes parameter '0.weight'"),
    Kind("through `.data`", "refused.py:ClampsData", TASK, "writes parameter '0.weight'"),
    Kind("so in a late round", "memory.py:ClampsDataLate", TASK, "writes parameter '0.weight'"),
    Kind("through an array", "memory.py:ArrayLate", TASK, "writes parameter '0.weight'"),
    Kind(
        "weights tied by a task",
        "memory.py:TiedByATask",
        TASK,
        "loss(): 'enc.weight' and 'dec.weight' are two tensors in the same memory",
    ),
    Kind(
        "a second optimizer stepped in `loss()`",
        "refused.py:Adversary",
        TASK,
        "writes parameter 'judge.weight'",
    ),
    Kind("a fused one", "refused.py:FusedAdversary", TASK, "writes parameter 'judge.weight'"),
    Kind(
        "a numpy Generator kept by a Dataset",
        "keeping.py:NumpyGenerator",
        TASK,
        "draws from 'dataset.rng'",
    ),
    Kind(
        "a torch Generator kept by the app",
        "keeping.py:TorchGenerator",
        TASK,
        "draws from 'self.rng'",
    ),
    Kind(
        "one in a file beside the app's",
        "keeping.py:NeighboursGenerator",
        TASK,
        "draws from 'zoo_noise.RNG'",
    ),
    Kind("a queue of the last few", "keeping.py:Queue", TASK, "changes 'self.lasts'"),
    Kind("a counter of steps", "keeping.py:Counter", TASK, "changes 'self.steps'"),
    Kind("one that the first task makes", "keeping.py:LateCounter", TASK, "changes 'self.steps'"),
    Kind("a global one", "keeping.py:GlobalCounter", TASK, "changes 'calls'"),
    Kind("one of the class", "keeping.py:ClassCounter", TASK, "changes 'ClassCounter.steps'"),
    Kind("one that a function closes over", "keeping.py:ClosedOver", TASK, "'self.more.count'"),
    Kind("an iterator", "keeping.py:Iterates", TASK, "changes 'self.steps'"),
    Kind(
        "unfreezing by a counter", "keeping.py:Unfreezes", TASK, "sets requires_grad of parameter"
    ),
    Kind(
        "a running mean that is no buffer",
        "keeping.py:RunningMean",
        TASK,
        "writes 'model.mean', which is no buffer",
    ),
    Kind("one written in place", "keeping.py:WrittenMean", TASK, "writes 'self.mean'"),
    Kind("what the first batch was like", "keeping.py:Normalises", TASK, "writes 'self.first'"),
    Kind("what the first task drew", "keeping.py:DrawsOnce", TASK, "writes 'self.turn'"),
    Kind("a first task that differs", "keeping.py:First", TASK, "changes 'self.first'"),
    Kind("a slow copy of the model", "keeping.py:Teacher", TASK, "writes 'self.teacher."),
    Kind("a log", "keeping.py:Logs", TASK, "changes 'self.seen'"),
    Kind("the optimizer's learning rate", "apart.py:Steps", TASK, "reads 'param_groups'"),
    Kind("the best metric so far", "apart.py:Best", TASK, "changes 'self.best'"),
    Kind(
        "what the first evaluation drew",
        "apart.py:DrawsInEvaluate",
        TASK,
        "draws what it keeps in 'self.noise'",
    ),
    Kind(
        "how far the model went since the last evaluation",
        "hidden.py:Delta",
        TASK,
        "depend on what it keeps in 'self.last'",
    ),
    Kind(
        "a copy of the model that evaluations write in place",
        "hidden.py:Written",
        TASK,
        "depend on what it keeps in 'self.last'",
    ),
    Kind(
        "a large table that they add to",
        "hidden.py:WrittenLarge",
        TASK,
        "changes 'self.table'",
    ),
    Kind("wall-clock time in `loss()`", "hidden.py:WallClock", ONCE_MORE, "not deterministic"),
    Kind("wrong names in `scratch`", "hidden.py:LosesBest", ONCE_MORE),
]


def rows() -> list[str]:
    """The table as docs/reference/run-file.md has it."""
    return [
        f"| {outcome} | {'; '.join(kind.words for kind in kinds)} |"
        for outcome, kinds in groupby(TABLE, key=lambda kind: kind.outcome)
    ]
