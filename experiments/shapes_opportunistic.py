"""Cruise's 3.4.4 in virtual time: 16 machines that stay, and 16 that come and go every 20 minutes.

NMF by Table 3.3 on r4.xlarge with links of 1.25 Gbit/s, from the 14 workers and 2 servers with
which the paper begins. A round is an epoch: 190 mini-batches of 10,000 users, each of which takes
as long as lets 23 + 9 be the best of 32 machines by (3.5). Nothing is announced: a policy hears of
a machine when it is there, or gone, and a job that loses one begins its epoch again.

*The bill*: machines that stay cost 1 an hour and others 1 / 6.7, which is how the paper's price
("6.7x lower") is read; machines cost while they are there. *never there*: the same policy on the 16
machines that stay, so that what it gains by its shape alone is seen.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import _common
from shape_table import TABLE

import warren

STAY: Final = 16
COME: Final = 16
WORKERS: Final = 14
EVERY_S: Final = 1200
TIMES: Final = 8
"""Most times that machines come."""
CHEAPER: Final = 6.7
EPOCHS: Final = 25
POLICIES: Final = ("cruise", "cruise-published")
NMF: Final = TABLE[0]


def main() -> None:
    """Simulate all rows and save."""
    rows = [row("fixed", come=False)]
    for policy in POLICIES:
        rows += [row(policy, come=come) for come in (False, True)]
    _common.save("shapes_opportunistic", 1, {"cheaper": CHEAPER, "epochs": EPOCHS, "rows": rows})


def row(policy: str, *, come: bool) -> dict[str, Any]:
    """Time and bill of one run, and how its shape changed."""
    with tempfile.TemporaryDirectory() as folder:
        result = warren.simulate(described(policy, come=come), out=Path(folder) / "out")
        summary = result.summary
    changes = [
        {
            "time_s": one["time_s"], "there": one["there"], "round": shape["round"],
            "workers": len(shape["workers"]), "servers": len(shape["servers"]),
        }
        for one in summary.get("hosts_changed", ())
        for shape in one["shapes"]
    ]  # fmt: skip
    found = {
        "policy": policy, "come": come, "takes_s": summary["makespan_s"], "cost": summary["cost"],
        "moves": len(summary.get("servers_moved", ())), "back": summary.get("rollbacks", 0),
        # All machines come and go at one instant: the last shape of an instant counts.
        "changes": list({one["time_s"]: one for one in changes}.values()),
    }  # fmt: skip
    print({key: _common.short(cell) for key, cell in found.items() if key != "changes"}, flush=True)
    return found


def described(policy: str, *, come: bool) -> dict[str, Any]:
    """The run of a policy."""
    stay = [f"s-{at}" for at in range(STAY)]
    host: dict[str, Any] = {"devices": {"r4": 1}, "nic": "1.25 Gbps"}
    hosts = [{"name": name, **host, "price": 1.0} for name in stay]
    cheap = {**host, "price": 1 / CHEAPER, "opportunistic": True}
    hosts += [{"name": f"o-{at}", **cheap} for at in range(COME if come else 0)]
    absences = [
        {"host": f"o-{at}", "from": f"{2 * EVERY_S * time} s",
         "until": f"{2 * EVERY_S * time + EVERY_S} s"}
        for at in range(COME if come else 0)
        for time in range(TIMES)
    ]  # fmt: skip
    batches = NMF.items // NMF.batch
    job = {
        "name": "nmf", "model": "nmf", "scale": batches, "rounds": EPOCHS, "batch": 1,
        "workers": {"hosts": stay[:WORKERS]}, "servers": {"hosts": stay[WORKERS:]},
    }  # fmt: skip
    profile = {
        "model": f"{NMF.model_bytes:.0f} B",
        "comp": {"r4": f"{NMF.item_s() * NMF.batch:.4f} s"},
        "sync": {"r4": "1 s"},
    }
    options = {} if policy == "fixed" else {"policy": {"shape": {"after": 1, "every": 1}}}
    return {
        "format": 1, "name": f"3.4.4-{policy}", "seed": 1, "profiles": {"nmf": profile},
        "cluster": {"format": 1, "hosts": hosts, "network": {"model": "fluid"}},
        "workload": {"jobs": [job]}, "truth": {"absences": absences},
        "scheduler": {"place": "srtf", "shape": policy}, **options,
    }  # fmt: skip


if __name__ == "__main__":
    main()
