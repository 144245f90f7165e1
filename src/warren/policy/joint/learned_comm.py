"""Learn what rounds take beyond the model, where a job is alone on its hosts or in a group.

COMP is measured task by task. What else a round takes longer than the model says counts as COMM: a
step of servers of which no profile tells, links that carry less. Of a job alone that is its round
less ``alone_j``. In a group a job may wait for links that others use, so no job's own time after
its last COMP tells it. There the iteration less (4.1) is shared by the jobs, in proportion to how
much longer than a push they had after their last COMP; where the model is too long, by what is
known of them.

*Source.* Harmony (dissertation 2020), 4.3: T_net of a job is profiled and followed by moving
averages of its COMM subtasks. Here nobody sees a subtask of COMM by itself.
"""

from __future__ import annotations

import numpy as np

from warren.model.costs import FloatArray
from warren.solve.job_groups.iteration import iteration_of
from warren.solve.job_groups.problem import JobGroupingProblem


def late_s(
    problem: JobGroupingProblem,
    machines: int,
    round_s_J: FloatArray,
    after_s_J: FloatArray,
    known_s_J: FloatArray,
) -> FloatArray:
    """Return what a round of each job of a group takes beyond the model, by its last rounds.

    Parameters
    ----------
    problem
        The jobs of the group (J,), with what is known of them.
    machines
        Of the group.
    round_s_J
        Seconds between the last two barriers of each, above 0.
    after_s_J
        Seconds from the end of its last COMP to its barrier.
    known_s_J
        What ``problem`` counts already, at least 0.
    """
    # A job that waits for nobody may have more rounds than others.
    beyond_s = float(round_s_J.max()) - iteration_of(problem, machines).iteration_s
    if beyond_s < 0:
        part_J = known_s_J
    else:
        # After the last COMP one task of each device is sent, as much as a pull brings.
        sent_s_J = problem.terms[0] * (1 - 1 / machines) + problem.net_s_J
        part_J = np.maximum(after_s_J - sent_s_J, 0.0)
    total_s = float(part_J.sum())
    share_J = part_J / total_s if total_s > 0 else np.full(len(part_J), 1 / len(part_J))
    found: FloatArray = np.maximum(known_s_J + beyond_s * share_J, 0.0)
    return found
