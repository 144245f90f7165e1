"""Fits and samples against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.special import gammaln

from warren.model.costs import FloatArray
from warren.predict.curve_families import FAMILIES, Family, rises
from warren.predict.likelihood import Points, likeliest, shapes_of, trusted
from warren.predict.mcmc import Prior, sampled

Z = np.linspace(0.05, 1.0, 20)


def noisy(seed: int, noise: float = 0.03) -> Points:
    random = np.random.default_rng(seed)
    y = 1 - np.exp(-((Z / 0.3) ** 0.8)) + noise * random.standard_normal(len(Z))
    return Points(Z, y, np.ones(len(Z)))


@pytest.mark.parametrize("number", range(6))
def test_the_likeliest_member_has_the_least_error_of_all_shapes(number: int) -> None:
    points = noisy(number)
    points = Points(points.z, points.y, np.linspace(0.5, 2, len(Z)))
    (shapes,) = shapes_of(points, FAMILIES[number : number + 1])
    found = likeliest(points, shapes)
    root = np.sqrt(points.weight)
    errors = [
        # Columns: the level, up and down, since nnls knows no free ones; the gain.
        nnls(root[:, None] * np.column_stack((np.ones(20), -np.ones(20), one)), root * points.y)[1]
        for one in shapes.values
    ]
    assert found.error == pytest.approx(min(errors) ** 2, rel=1e-6)
    assert found.fit == pytest.approx(found.level + found.gain * shapes.values[found.shape])


def test_a_falling_curve_has_no_gain_in_a_rising_family() -> None:
    points = Points(Z, -Z, np.ones(len(Z)))
    found = [likeliest(points, one) for one in shapes_of(points)]
    assert [one.gain for one in found] == [0.0] * 6


def test_one_point_far_off_weighs_less_and_the_others_as_before() -> None:
    points = noisy(1, 0.005)
    points.y[12] -= 0.5
    found = trusted(points)
    assert found.weight[12] < 0.35
    assert np.delete(found.weight, 12).min() > 2 * found.weight[12]
    assert np.median(found.weight) == 1


def posterior_by_hand(points: Points, family: Family, prior: Prior) -> tuple[FloatArray, float]:
    """Probabilities of the shapes, and the mean gain, by integrating over gain and noise."""
    gain = np.linspace(0, 6, 1201)
    worth = 4.0 + len(points.y) - 1
    evidence, means = [], []
    for member in rises(family, points.z, points.z_1):
        centred = member - member.mean()
        off = (points.y - points.y.mean())[None, :] - gain[:, None] * centred
        # The noise integrated out of likelihood and inverse gamma prior: a power of the sum.
        scale = 0.5 * (4.0 * prior.noise**2 + (off**2).sum(axis=1))
        log = gammaln(worth / 2) - worth / 2 * np.log(scale) - gain / prior.rise
        density = np.exp(log - 40)
        evidence.append(np.trapezoid(density, gain))
        means.append(np.trapezoid(density * gain, gain))
    total = np.sum(evidence)
    return np.array(evidence) / total, float(np.sum(means) / total)


@pytest.mark.parametrize("name", ["exp4", "MMF"])
def test_samples_of_one_family_have_the_exact_posterior(name: str) -> None:
    family = next(one for one in FAMILIES if one.name == name)
    few = Family(name, family.grid[[20, 40, 49, 58, 76]], family.rise)
    points, prior = noisy(3, 0.1), Prior(0.7, 0.1)
    shares, gain = posterior_by_hand(points, few, prior)
    found = sampled(points, prior, 1, families=[few], chains=40, burn_in=20, sweeps=500)
    drawn = np.bincount(found.shape[:, 0], minlength=5) / len(found.shape)
    assert sorted(shares)[-2] > 0.05
    assert drawn == pytest.approx(shares, abs=0.02)
    assert found.gain.mean() == pytest.approx(gain, rel=0.02)


def test_level_and_noise_have_the_exact_posterior_too() -> None:
    points = noisy(3, 0.1)
    family = Family("flat", np.array([[1.0]]), FAMILIES[2].rise)
    found = sampled(points, Prior(1e-5, 0.1), 1, families=[family], sweeps=400)
    curve = found.values(np.array([0.5]))[:, 0]
    error = ((points.y - points.y.mean()) ** 2).sum()
    assert curve.mean() == pytest.approx(points.y.mean(), abs=0.005)
    expected = (4 * 0.1**2 + error) / (4 + 19 - 2)  # mean of an inverse gamma
    assert (found.noise**2).mean() == pytest.approx(expected, rel=0.02)
    assert curve.var() == pytest.approx(expected / 20, rel=0.05)


def test_sampled_curves_never_fall_and_have_weights_of_at_least_0() -> None:
    found = sampled(noisy(2), Prior(1.0, 0.03), 1)
    assert found.gain.shape == (750, 6)
    assert found.gain.min() >= 0
    assert np.diff(found.values(np.geomspace(0.05, 30, 300)), axis=1).min() >= -1e-9


def test_values_of_samples_are_the_sums_they_say() -> None:
    found = sampled(noisy(2), Prior(1.0, 0.03), 1, chains=3, burn_in=1, sweeps=2)
    z = np.array([0.5, 2.0])
    for sample, values in enumerate(found.values(z)):
        parts = [
            found.gain[sample, k] * rises(one, z, 0.05)[found.shape[sample, k]]
            for k, one in enumerate(FAMILIES)
        ]
        assert values == pytest.approx(found.level[sample] + np.sum(parts, axis=0))


def test_the_same_seed_gives_the_same_samples_and_another_gives_others() -> None:
    one, two, other = (sampled(noisy(2), Prior(1.0, 0.03), seed) for seed in (7, 7, 8))
    assert np.array_equal(one.gain, two.gain)
    assert np.array_equal(one.shape, two.shape)
    assert not np.array_equal(one.gain, other.gain)


def test_chains_that_start_elsewhere_come_to_the_same_prediction() -> None:
    """Means of chains differ no more than halves of one long run would."""
    means = [
        sampled(noisy(4), Prior(1.0, 0.03), seed).values(np.array([2.0])).mean()
        for seed in range(6)
    ]
    spread = sampled(noisy(4), Prior(1.0, 0.03), 9).values(np.array([2.0])).std()
    assert np.std(means) < 0.35 * spread
