"""Sections of the evidence page about flows of jobs that Warren did not start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _evidence_live import table


def flow_rules(result: Mapping[str, Any]) -> str:
    """What helpers that were struck have left after a clear."""
    return (
        f"## No rule of a flow stays\n\n{result['cycles']} times the helper of `warren flow` sets "
        "up queues and marks flows, in a network with a table of nft and a root queue that are "
        "somebody else's; three of four are killed with SIGKILL at a drawn moment. Rules stood "
        f"after {result['stood_after_a_kill']} of the kills. Then another helper clears. "
        f"Afterwards {len(result['left'])} networks were not what they had been, by what `nft` and "
        "`tc` print.\n\n" + table(["the helper was", "times"], list(result["ways"].items()))
    )


def foreign_jobs(result: Mapping[str, Any]) -> str:
    """The shares of a link that two foreign jobs have, by their classes."""
    rows = [
        [when, f"{100 * quick:.1f} %", f"{100 * slow:.1f} %"]
        for when, (quick, slow) in result["shares"].items()
    ]
    gains = [
        [job, one["periods"], f"{one['predicted']:.4f}", f"{one['gained']:.4f}"]
        for job, one in result["gains"].items()
    ]
    settled = [row["first"] for row in result["periods"] if row["settled"]]
    silent, equal = result["silent"], result["equal"]
    fast, slow = equal["median_gain"].values()
    return (
        "## Two jobs that know nothing of Warren\n\nTwo jobs of plain `torch.distributed` (gloo), "
        "a rank on each of two hosts of a testbed with links of 100 Mbit, sum 1 MB a step and "
        "compute nothing. *quick* is nearly done after 200 steps by the accuracies that it logs, "
        "*slow* learns for thousands; these curves are stated, no model is trained. `warren flow "
        "watch` on each host reads both logs and looks up the ranks' connections. Shares are of "
        "steps, over 15 s without a watch and over periods of 3 s after the first of an order "
        f"({settled.count('quick')} with quick first, {settled.count('slow')} with slow). One run, "
        "while other work ran on the machine (load average about 10).\n\n"
        + table(["", "quick", "slow"], rows)
        + "\n\nWhat the watch predicted at the beginning of such periods of the job that is first, "
        "and what its accuracy gained in them, summed:\n\n"
        + table(["job", "periods", "predicted", "gained"], gains)
        + "\n\n*A silent log.* On links of 20 Mbit one job logs each second and learns. The other "
        "has learned all that it can and logs each 30 s, which is each tenth period of 3 s. Over "
        f"{silent['counted']} periods, from when both gains are known, the job that learns made "
        f"{100 * silent['share'][0]:.1f} % of all steps.\n\n*Equal jobs, unequal logs.* Two jobs "
        "make a step a second and have one curve. One logs each 5 s, the other each 20 s. In the "
        f"median of {equal['counted']} periods of 5 s the watch predicts a gain of {fast:.4f} for "
        f"the first and {slow:.4f} for the second."
    )
