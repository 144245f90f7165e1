"""Steps of a store that a copy, restored from an earlier checkpoint of it, makes again.

Then both must have the same values and metrics, or the job depends on a value that no checkpoint
has.
"""

from __future__ import annotations

from torch.optim.lr_scheduler import LambdaLR, LRScheduler, MultiplicativeLR

from warren.apps.protocol import TorchApp
from warren.live.training.app.app_contract import refuse, tensorwise
from warren.live.training.checkpoints import state as checkpoint
from warren.live.training.replica import Replica
from warren.live.training.seeding import BARRIER, reseed
from warren.live.transport.frames import Buffer
from warren.model.job import Job


class RepeatedSteps:
    """The steps of one replica since ``watch``, with the checkpoint before them."""

    def __init__(self, replica: Replica, job: Job) -> None:
        self._replica = replica
        self._job = job
        self._saved = b""

    @property
    def useful(self) -> bool:
        """Tell whether code with unknown kept values runs at the replica's barriers."""
        replica = self._replica
        schedule = replica.schedule
        known = schedule is None or type(schedule).__module__ == LRScheduler.__module__
        lambdas = isinstance(schedule, LambdaLR | MultiplicativeLR)
        return replica.parts == 1 and not (tensorwise(replica.optimizer) and known and not lambdas)

    @property
    def watched(self) -> bool:
        """Tell whether steps are noted since ``watch``."""
        return self._replica.recorded is not None

    def watch(self, saved: Buffer) -> None:
        """Keep the checkpoint of this version, and note the inputs of steps from now on."""
        self._saved = bytes(saved)
        self._replica.recorded = []

    def unwatch(self) -> None:
        """Forget the checkpoint and the inputs of ``watch``."""
        self._saved = b""
        self._replica.recorded = None

    def verify(self, app: TorchApp, version: int) -> None:
        """Repeat the steps since ``watch``, on a copy of the version saved then.

        Afterwards the store of this replica is of no use.

        Parameters
        ----------
        app
            Another object of the app.
        version
            Number of steps that the replica has made.

        Raises
        ------
        SpecError
            The copy has other values or metrics than the replica.
        """
        copy = Replica(app, self._job, 0, 1)
        checkpoint.decode([self._saved], copy)
        for made in self._replica.recorded or ():
            copy.step_again(made)
        checkpoint.check_same(self._replica, copy)
        if self._job.evaluate is not None or self._job.stop is not None:
            # Metrics such as elapsed time differ at each call.
            every = (self._replica, copy, self._replica)
            own, found, again = (self._evaluated(one, version) for one in every)
            if own == again and found != own:
                message = "evaluate() gives other metrics once the job was restored"
                raise refuse(self._job, "", f"{message}: they depend on what no checkpoint sees")

    def _evaluated(self, replica: Replica, version: int) -> str:
        reseed(self._job.seed, version, BARRIER)
        return repr(replica.evaluate())
