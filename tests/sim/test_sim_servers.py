"""Parameter servers whose bytes are on links: numbers by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from server_worlds import drawn, ends, events_of, servers, tasks
from sim_worlds import World
from test_sim_rings import Rows, S, gang

from warren.cost.run_servers import moved_parts
from warren.model.decision import Assignment, Shape
from warren.model.draws import COMP, stream_key
from warren.model.errors import SpecError
from warren.model.events import AnyEvent, RoundsDone, ServersMoved, TasksDone
from warren.model.job import Evaluate
from warren.model.measured import Overheads
from warren.model.run import Scheduler, Truth
from warren.sim.build import sim_port, simulated_costs
from warren.sim.task_durations import factor_ppm, scaled


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_round_is_a_pull_then_comp_then_a_push(rounds: int) -> None:
    """2 MB over 1 MB/s each way, around a second of COMP; T^s of the table counts for nothing."""
    one = servers([1, 1], [(0, 1, 3)])
    rows = [row for at in range(0, 3, rounds) for row in gang(0, [1], rounds, at)]
    assert ends(one, rows) == [3 * 5]


def test_on_the_host_of_its_server_a_task_has_intra_and_else_waits_for_no_bytes() -> None:
    fast = servers([1, 1], [(0, 1, 3)], latency_s=0.5)
    assert ends(fast, gang(0, [0], 3)) == [3]
    assert ends(servers([1, 1], [(0, 1, 3)], intra_MB_s=4), gang(0, [0], 3)) == [3 * 2]


def test_each_transfer_between_hosts_waits_for_its_first_byte() -> None:
    assert ends(servers([1, 1], [(0, 1, 2)], latency_s=0.5), gang(0, [1], 2)) == [2 * 6]


def test_parts_of_a_model_come_from_all_servers_and_the_last_part_counts() -> None:
    """1 MB each. Into host 2 both have a half, 2 s. If the first host sends a quarter, it is 4 s:
    the second has the other three quarters. Behind the last round the second sends the first its
    part, 1 MB; into the slow host as soon as it has it, so that 2 MB go there at a quarter."""
    one = servers([1, 1, 1], [(0, 1, 1)], count=2)
    assert tasks(events_of(one, gang(0, [2], 1))) == {(0, 0, 0): (2, 3, 5)}
    assert ends(one, gang(0, [2], 1)) == [2 + 1 + 2 + 1]
    slow = servers([1, 1, 1], [(0, 1, 1)], count=2, nic_MB_s=[0.25, 1, 1])
    assert ends(slow, gang(0, [2], 1)) == [4 + 1 + 8]


def uneven(one: World) -> list[tuple[float, float, float]]:
    """The tasks of two rounds on host 2; servers on hosts 0 and 1 hold 1.5 and 0.5 MB."""
    told = [(0.0, lambda port: port.reshape({0: Shape(None, (0, 1), (1_500_000, 500_000))}))]
    found = tasks(events_of(one, gang(0, [2], 1) + gang(0, [2], 1, 1), told))
    return [found[0, round_, 0] for round_ in range(2)]


def test_a_server_that_has_all_updates_sends_its_new_state_ahead_of_the_barrier() -> None:
    """Both push at half the rate from 4 s on, the second server to 5 s: its state is there at
    5.5 s. At the barrier, 6 s, that of the first is sent alone. Behind the last round the second
    server's part goes to the first from 9.5 s on, and both at half the rate."""
    one = servers([1, 1, 1], [(1, 1, 2)], count=2)
    assert uneven(one) == [(3, 4, 6), (7.5, 8.5, 11)]
    # A device that does not look ahead wants it just as soon: its queue begins with that task.
    assert uneven(servers([1, 1, 1], [(1, 1, 2)], count=2, look_ahead=0)) == uneven(one)


def stepping(one: World, step_s: float) -> World:
    """The same, with servers that take so long for a step."""
    jobs = range(len(one.run.workload.jobs))
    step_ns_J = np.array([round(step_s * S) for _ in jobs], dtype=np.int64)
    return World(one.run, replace(one.costs, step_ns_J=step_ns_J))


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_step_of_the_servers_ends_a_round_so_much_later(rounds: int) -> None:
    one = stepping(servers([1, 1], [(0, 1, 3)]), 0.5)
    rows = [row for at in range(0, 3, rounds) for row in gang(0, [1], rounds, at)]
    assert ends(one, rows) == [3 * 5.5]
    # A round of which no byte passes a link has no such time.
    near = stepping(servers([2], [(0, 2, 1)]), 0.5)
    assert sorted(row[2] for row in tasks(events_of(near, gang(0, [0, 1], 1))).values()) == [1, 1]


def test_a_step_counts_in_the_rounds_of_which_bytes_pass_links() -> None:
    """The server's own host has the first round, and the third; another host the one between."""
    one = stepping(servers([1, 1], [(0, 1, 3)]), 0.5)
    rows = [row for at, device in enumerate([0, 1, 0]) for row in gang(0, [device], 1, at)]
    assert ends(one, rows) == [1 + 5.5 + 1]
    # Once both servers are on one host, at 4.5 s, they send the state of the last round ahead of
    # the barrier: of the round before nothing passes a link.
    told = [(0.0, lambda port: port.reshape({0: Shape(None, (0, 0), (10**6, 10**6))}))]
    rows = gang(0, [0], 1) + gang(0, [0], 1, 1) + gang(0, [1], 1, 2)
    both = tasks(events_of(stepping(servers([1, 1], [(0, 1, 3)], count=2), 0.5), rows, told))
    assert [both[0, round_, 0] for round_ in range(3)] == [
        (1, 2, 3.5), (4.5, 5.5, 5.5), (7.5, 8.5, 11)
    ]  # fmt: skip


def test_bytes_within_a_host_pass_no_link_whatever_they_take() -> None:
    one = stepping(servers([1, 1], [(0, 1, 3)], intra_MB_s=4), 0.5)
    assert ends(one, gang(0, [0], 3)) == [3 * 2]


def test_each_server_steps_when_it_has_all_updates() -> None:
    """The second server has its part at 5 s, and sends its state from 5.5 to 6 s; the first one
    from 6.5 s on. Behind the last round, 9 s, the second has its part at 10 s and sends it to the
    first from 10.5 s on, at half the rate as the rest of the push: both end at 11.5 s."""
    one = stepping(servers([1, 1, 1], [(1, 1, 2)], count=2), 0.5)
    assert uneven(one) == [(3, 4, 6.5), (8, 9, 12)]


def test_a_round_that_a_delay_holds_gets_its_state_when_it_begins() -> None:
    one = servers([1, 1, 1], [(1, 1, 2)], count=2)
    shape = (0.0, lambda port: port.reshape({0: Shape(None, (0, 1), (1_500_000, 500_000))}))
    told = [shape, (2.0, lambda port: port.delay({0: 10 * S}))]
    found = tasks(events_of(one, gang(0, [2], 1) + gang(0, [2], 1, 1), told))
    assert found[0, 0, 0] == (3, 4, 6)
    assert found[0, 1, 0][0] == 6 + 10 + 2


def test_where_a_round_is_evaluated_the_first_server_gets_the_parts_of_the_others() -> None:
    """From 5 s on the second server sends to two, each with half: to 6 s, and the first server's
    link has had half a MB less of the update, which is there at 6.5 s. Then 1.5 s for a state."""
    one = servers([1, 1, 1], [(1, 1, 2)], count=2)
    jobs = tuple(replace(job, evaluate=Evaluate(every=1)) for job in one.run.workload.jobs)
    run = replace(one.run, workload=replace(one.run.workload, jobs=jobs))
    assert uneven(World(run, one.costs)) == [(3, 4, 6.5), (8, 9, 11.5)]


def test_devices_of_a_host_share_its_link() -> None:
    """Three pull 2 MB from one server, two on one host: its uplink gives each a third, 6 s."""
    one = servers([1, 2, 1], [(0, 3, 1)])
    assert ends(one, gang(0, [1, 2, 3], 1)) == [6 + 1 + 6]
    # At 10 times the rate of the server's card, the link into the host of two is what holds back.
    fast = servers([1, 2, 1], [(0, 3, 1)], nic_MB_s=[10, 1, 1])
    assert tasks(events_of(fast, gang(0, [1, 2, 3], 1))) == {
        (0, 0, 0): (4, 5, 9),
        (0, 0, 1): (4, 5, 9),
        (0, 0, 2): (2, 3, 5),
    }


def both(flow: str = "fixed", **network: object) -> World:
    """Two jobs, servers on hosts 0 and 1, tasks on host 2: they meet on its links alone."""
    return servers([1, 1, 2], [(0, 1, 1), (0, 1, 1)], flow=flow, **network)


ROWS = gang(0, [2], 1) + gang(1, [3], 1)


def test_jobs_on_one_link_share_it_alike() -> None:
    assert ends(both("fair"), ROWS) == [4 + 1 + 4] * 2


def test_a_class_goes_before_those_after_it() -> None:
    """The second job is alone: 2, 1 and 2 s. The first pulls from 2 s on and pushes from 5 s on."""
    told = [(0, lambda port: port.classify({0: 2, 1: 1}, {}))]
    assert ends(both(), ROWS, told) == [7, 5]


def test_classes_with_weights_share_by_them() -> None:
    """3 to 1: the second pulls in 8/3 s; then the first has 4/3 MB left, and is alone to 4 s."""
    weights = (3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    told = [(0, lambda port: port.classify({0: 2, 1: 1}, {}))]
    found = tasks(events_of(both(class_weights=weights), ROWS, told))
    assert found[1, 0, 0][:2] == pytest.approx((8 / 3, 11 / 3))
    assert found[0, 0, 0][:2] == pytest.approx((4, 5))
    # From 11/3 s on the second pushes alone, from 5 s on at 3/4: 2/3 MB are left.
    assert found[1, 0, 0][2] == pytest.approx(5 + 8 / 9)
    # Until then the first has a quarter: 2/9 MB, and then 16/9 MB alone.
    assert found[0, 0, 0][2] == pytest.approx(5 + 8 / 9 + 16 / 9)


def test_class_0_goes_before_all_whatever_the_weights_are() -> None:
    told = [(0, lambda port: port.classify({0: 7}, {}))]
    weights = (1.0,) * 6 + (1000.0,)
    assert ends(both(class_weights=weights), ROWS, told) == [7, 5]


def test_a_class_that_changes_holds_for_bytes_under_way() -> None:
    """At 1 s each has pulled half a MB. The second's last 1.5 MB go alone, to 2.5 s; then the
    first's, to 4 s."""
    told = [(1, lambda port: port.classify({0: 1}, {}))]
    found = tasks(events_of(both(), ROWS, told))
    assert found[1, 0, 0] == (2.5, 3.5, 5.5)
    assert found[0, 0, 0] == (4, 5, 7.5)


def test_a_class_on_a_host_holds_for_what_that_host_sends() -> None:
    """Job 1 waits where its server sends, and goes before job 0 where its device does."""
    told = [(0, lambda port: port.classify({0: 1, 1: 2}, {(2, 1): 0}))]
    # Pulls one after the other, 2 s and 4 s. The push of job 1 stops that of job 0 for 2 s only if
    # they meet: 3 to 5 s and 5 to 7 s.
    assert ends(both(), ROWS, told) == [5, 7]
    late = [(0, lambda port: port.classify({0: 1, 1: 1}, {(2, 1): 0}))]
    # Both pull to 4 s and push from 5 s on: job 1 first, since 0 goes before 1 there.
    assert ends(both(), ROWS, late) == [9, 7]
    # A class of the whole job replaces what was said of it on hosts.
    again = [*late, (5, lambda port: port.classify({1: 2}, {}))]
    assert ends(both(), ROWS, again) == [7, 9]


@pytest.mark.parametrize(("look_ahead", "second"), [(0, (4, 5, 7)), (2, (5, 6, 8))])
def test_a_device_fetches_states_of_coming_tasks_while_it_computes(
    look_ahead: int, second: tuple[float, float, float]
) -> None:
    """Without looking ahead: 2 s for the first, then 2 s for the second while the first computes.

    With it both come at once and take 4 s; the second waits until the first has computed.
    """
    one = servers([1, 1, 1], [(0, 1, 1), (0, 1, 1)], look_ahead=look_ahead)
    found = tasks(events_of(one, gang(0, [2], 1) + gang(1, [2], 1)))
    assert found[1, 0, 0][:2] == second[:2]
    assert found[0, 0, 0][0] == (2 if look_ahead == 0 else 4)


def test_tasks_are_wanted_one_after_another_as_far_as_a_device_looks() -> None:
    """Three jobs, look-ahead 1: the third is wanted when the first has started, at 4 s."""
    one = servers([1, 1, 1, 1], [(0, 1, 1)] * 3, look_ahead=1, nic_MB_s=[9, 9, 9, 1])
    found = tasks(events_of(one, gang(0, [3], 1) + gang(1, [3], 1) + gang(2, [3], 1)))
    assert [found[job, 0, 0][0] for job in range(3)] == [4, 5, 6]


def test_shards_of_a_device_pull_once_and_push_each() -> None:
    """COMP at 2 and 3 s. The first update has 1 MB left when the second's begins, 4 s: both have a
    half, to 6 s; then the second's last MB, to 7 s."""
    one = servers([1, 1], [(0, 2, 1)])
    apart = {(0, 0, 0): (2, 3, 6), (0, 0, 1): (3, 4, 7)}
    assert tasks(events_of(one, gang(0, [1, 1], 1))) == apart
    assert tasks(events_of(one, (Assignment(1, 0, 0, 1, (0, 1)),))) == {(0, 0, 0): (2, 4, 7)}


def test_a_device_with_two_updates_under_way_begins_no_third() -> None:
    """The third shard waits from 4 s until the first update has arrived, at 6 s. The second has
    arrived at 7 s, when the third's begins: 9 s. The device is busy for 3 s of these 5."""
    one = servers([1, 1], [(0, 3, 1)])
    events = events_of(one, (Assignment(1, 0, 0, 1, (0, 1, 2)),))
    (done,) = [event for event in events if isinstance(event, TasksDone)]
    found = (done.start_ns, done.comp_end_ns, done.end_ns, done.busy_ns)
    assert found == (2 * S, 7 * S, 9 * S, 3 * S)


def test_updates_of_another_job_keep_nobody_from_starting() -> None:
    """Two updates of job 0 are under way from 4 s on; job 1, with its state there, starts then."""
    one = servers([1, 1, 1], [(0, 2, 1), (0, 1, 1)], look_ahead=9, nic_MB_s=[1, 9, 9])
    rows = [(0, 0, 1, 0, 2), (0, 0, 1, 1, 2), (1, 0, 1, 0, 2)]
    found = tasks(events_of(one, rows))
    assert found[0, 0, 0][2] > 4
    assert found[1, 0, 0][0] == 4


def test_rings_and_servers_share_links() -> None:
    """The ring's devices are on hosts 0 and 2; its 2 MB begin at 1 s, when the pull into host 2
    has 1 MB left. Both have a half until 3 s; then the ring has 1 MB left, and ends at 4 s."""
    one = servers([1, 1, 2], [(0, 2, 1), (0, 1, 1)], rings=(0,))
    found = tasks(events_of(one, gang(0, [0, 2], 1) + gang(1, [3], 1)))
    assert found[0, 0, 0] == (0, 1, 4)
    assert found[1, 0, 0] == (3, 4, 6)


def test_a_job_whose_bytes_nobody_knows_has_its_t_s() -> None:
    one = servers([1, 1], [(0, 1, 2), (0, 1, 2)])
    costs = replace(one.costs, model_bytes_J=np.array([0, 2_000_000]))
    rows = gang(0, [1], 2) + gang(1, [0], 2)
    assert ends(World(one.run, costs), rows) == [2 * 4, 2 * 5]


def test_a_switch_comes_after_the_state_and_before_comp() -> None:
    """Both states are there at 4 s; the second task waits 5 s more after the first."""
    one = servers([1, 1, 1], [(0, 1, 1), (0, 1, 1)])
    costs = replace(one.costs, switch_ns_JT=np.full((2, 1), 5 * S))
    found = tasks(events_of(World(one.run, costs), gang(0, [2], 1) + gang(1, [2], 1)))
    assert found[0, 0, 0] == (4, 5, 7)
    assert found[1, 0, 0] == (10, 11, 13)


def test_with_noise_each_task_has_its_own_comp_and_bytes_take_what_they_take() -> None:
    one = servers([1, 1], [(0, 1, 20)])
    noisy = World(replace(one.run, truth=Truth(task_cv=0.3, seed=4)), one.costs)
    key = stream_key(4, COMP, 0)
    comp_s = sum(scaled(S, factor_ppm(key, at, 0, 300_000)) for at in range(20)) / S
    assert ends(noisy, gang(0, [1], 20)) == [pytest.approx(20 * 4 + comp_s, abs=1e-6)]


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("flow", ["fair", "fixed"])
def test_stretches_and_single_rounds_end_alike(flow: str, noisy: bool) -> None:
    """Their barriers, and what follows on the same devices; more than that no event tells."""
    for seed in range(25):
        one, rows = drawn(seed, rings=0, flow=flow)
        if noisy:
            one = World(replace(one.run, truth=Truth(task_cv=0.3, seed=seed)), one.costs)
        # The rounds of a stretch after one another, where the stretch stands.
        begin = {(job, first): place for place, (job, first, *_) in enumerate(rows)}
        cut = [
            (job, first + at, 1, shard, device)
            for job, first, rounds, shard, device in sorted(rows, key=lambda r: begin[r[0], r[1]])
            for at in range(rounds)
        ]
        place = {
            (row[0], row[1] + at): begin[row[0], row[1]] for row in rows for at in range(row[2])
        }
        cut.sort(key=lambda row: (place[row[0], row[1]], row[1]))
        assert ends(one, cut) == pytest.approx(ends(one, rows), abs=1e-6)


def test_a_shape_before_the_first_task_places_the_servers() -> None:
    """Two servers on host 1, of 1.5 and 0.5 MB; the device is there, or on host 0."""
    told = [(0.0, lambda port: port.reshape({0: Shape(None, (1, 1), (1_500_000, 500_000))}))]
    later = servers([1, 1], [(1, 1, 2)], intra_MB_s=1)
    assert ends(later, gang(0, [1], 2), told) == [1 + 2 * (1.5 + 1 + 1.5)]
    # Over links the second server's half a MB is there when the second round begins.
    assert ends(later, gang(0, [0], 2), told) == [1 + 2 * 5 - 0.5]
    assert ends(later, gang(0, [0], 2)) == [1 + 2 * 5]


def moves(one: World, rows: Rows, *shapes: tuple[float, Shape]) -> list[tuple[float, ...]]:
    """When blocks had come, the round, MB from other hosts, seconds of it; then the job's end."""
    told = [(at_s, lambda port, shape=shape: port.reshape({0: shape})) for at_s, shape in shapes]
    events = events_of(one, rows, told)
    came = [event for event in events if isinstance(event, ServersMoved)]
    ended = next(e.time_ns for e in events if isinstance(e, RoundsDone) and e.finished)
    found = [(e.time_ns / S, e.round, e.far_bytes / 1e6, e.took_ns / S) for e in came]
    return [*found, (pytest.approx(ended / S, abs=1e-6),)]


@pytest.mark.parametrize("rounds", [1, 3])
def test_servers_of_a_job_that_trains_move_at_its_next_barrier(rounds: int) -> None:
    """A round takes 5 s. Told at 3 s: 2 MB pass the links from 5 to 7 s, then rounds go on."""
    one = servers([1, 1, 1], [(0, 1, 3)])
    rows = [row for at in range(0, 3, rounds) for row in gang(0, [1], rounds, at)]
    assert moves(one, rows, (3, Shape(None, (2,)))) == [(7, 1, 2, 2), (17,)]
    # The last answer before the barrier counts, and one that leaves all in its place is none.
    last = ((3, Shape(None, (2,))), (4, Shape(None, (2, 0))))
    assert moves(one, rows, *last)[0] == (6, 1, 1, 1)
    assert moves(one, rows, (3, Shape(None, (2,))), (4, Shape((1,), (0,)))) == [(15,)]
    # On one host nothing passes a link; a fourth of the model to each of two on other hosts.
    assert moves(one, rows, (3, Shape(None, (0, 0))))[0] == (5, 1, 0, 0)
    assert moves(one, rows, (3, Shape(None, (2, 0, 1), (1, 2, 1))))[0] == (6, 1, 1, 1)


def test_what_an_old_server_has_sent_ahead_does_not_count_at_new_ones() -> None:
    """As in the test of ``uneven`` the second server's state is sent ahead, at 5 s. From 6 to 7.5 s
    the first one's 1.5 MB go to its host: 2 MB are pulled from there, and pushed."""
    one = servers([1, 1, 1], [(1, 1, 2)], count=2)
    first, rows = Shape(None, (0, 1), (1_500_000, 500_000)), gang(0, [2], 1) + gang(0, [2], 1, 1)
    late = moves(one, rows, (0, first), (5.5, Shape(None, (1,))))
    assert late == [(7.5, 1, 1.5, 1.5), (7.5 + 2 + 1 + 2,)]
    # Told before: no state is sent ahead, and the end is the same.
    assert moves(one, rows, (0, first), (4.5, Shape(None, (1,)))) == late


def test_what_is_not_simulated_for_servers_on_links_is_refused_in_a_line_each() -> None:
    one = servers([1, 1], [(0, 1, 1)])
    cluster = replace(one.run.cluster, overheads=Overheads(cores=2, dispatch_ns=5))
    run = replace(one.run, cluster=cluster, scheduler=Scheduler(copies_after=2.0))
    with pytest.raises(SpecError) as caught:
        sim_port(run, one.costs)
    assert [problem.field for problem in caught.value.problems] == [
        "scheduler.copies_after",
        "cluster.overheads",
    ]
    # Rings alone, and jobs whose bytes nobody knows, go with all of it.
    sim_port(run, replace(one.costs, model_bytes_J=None))


def test_no_task_ends_sooner_after_its_comp_than_the_push_that_bounds_count() -> None:
    """And some take no longer: bounds could not count more."""
    tight = 0
    for seed in range(60):
        world, rows = drawn(seed, rings=0)
        least_J = simulated_costs(world.run, world.costs).sync_ns_JT[:, 0].tolist()
        for event in events_of(world, rows):
            if isinstance(event, TasksDone):
                beyond_ns = event.end_ns - event.comp_end_ns - least_J[event.job]
                assert beyond_ns >= 0
                tight += least_J[event.job] > 0 and beyond_ns < 10
    assert tight > 10


def test_events_of_an_instant_come_together() -> None:
    for seed in range(25):
        world, rows = drawn(seed)
        events = events_of(world, rows)
        times = [event.time_ns for event in events]
        assert times == sorted(times)
        done = [one for one in events if isinstance(one, RoundsDone) and one.finished]
        assert len(done) == len(world.run.workload.jobs)


def test_a_shape_that_binds_workers_alone_leaves_servers_on_their_way() -> None:
    one, rows = servers([1, 1, 1], [(0, 1, 2)]), gang(0, [2], 1) + gang(0, [2], 1, 1)
    told = ((1, Shape(None, (1,))), (2, Shape((2,), ())))
    assert moves(one, rows, *told) == moves(one, rows, told[0])
    assert moves(one, rows, told[0])[0] == (7, 1, 2, 2)


def test_tasks_that_are_assigned_while_parts_move_have_no_state_sooner() -> None:
    """As in the test of ``uneven``; the second server has stepped at 5 s, the barrier is at 6 s."""
    one = servers([1, 1, 1, 1, 1], [(1, 1, 2)], count=2)
    first, then = (Shape(None, at, (1_500_000, 500_000)) for at in ((0, 1), (3, 4)))
    for at_s in (4.0, 5.5):
        port = sim_port(one.run, one.costs)
        port.wake_at(round(at_s * S))
        port.reshape({0: first})
        port.submit((Assignment(2, 0, 0, 1, (0,)),))
        events: list[AnyEvent] = []
        while batch := port.next_events():
            events += batch
            if batch[0].time_ns == round(at_s * S):
                port.reshape({0: then})
            if any(isinstance(event, RoundsDone) and not event.finished for event in batch):
                port.submit((Assignment(2, 0, 1, 1, (0,)),))
        # 1.5 s to move; then 1.5 MB from host 3 and 0.5 MB from host 4 share a link of 1 MB/s.
        assert tasks(events)[0, 1, 0][0] == 6 + 1.5 + 2


def test_parts_that_state_no_bytes_at_all_are_equal() -> None:
    one, rows = servers([1, 1, 1], [(0, 1, 2)]), gang(0, [2], 1) + gang(0, [2], 1, 1)
    assert moves(one, rows, (1, Shape(None, (0, 1), (0, 0)))) == moves(
        one, rows, (1, Shape(None, (0, 1)))
    )
    assert moves(one, rows, (1, Shape(None, (1, 0), (0, 5))))[0] == (5, 1, 0, 0)


def test_proportions_that_are_the_same_move_nothing() -> None:
    for count in range(1, 9):
        even = tuple((host, 87654321 / count) for host in range(count))
        stated = tuple((host, 7.0) for host in range(count))
        for before, after in ((even, stated), (stated, even)):
            found = moved_parts(before, after, 87654321.0)
            assert [(source, target) for source, target, _ in found] == [
                (h, h) for h in range(count)
            ]
