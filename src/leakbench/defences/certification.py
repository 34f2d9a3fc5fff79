"""What differential privacy certifies: how often any attacker at all can be right about one sample (γ).

An attacker who would be right with probability κ if the sample were left out of the batch is right with
probability γ(κ) at most if the sample is in the batch. The attacker may know everything else: the other
samples, the network, the defence and its parameters. Neighbours differ by one sample, whose gradient takes
part or is zero.

Sources: Dong, Roth and Su, Gaussian differential privacy (arXiv:1905.02383), section 2; Hayes et al.
(arXiv:2302.07225) and Kaissis et al. (arXiv:2307.03928) for the use on reconstruction.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leakbench.base.artefacts import Facts
from leakbench.base.errors import UserError

# The errors in ε and in δ that the numerical accountant may make, and the points of a curve of both.
EPSILON_ERROR, DELTA_ERROR, POINTS = 0.01, 1e-10, 400
# The two accountants may differ by the error that the first of them computes with.
SLACK = 2 * EPSILON_ERROR


def participations(federation: Mapping[str, Any], origins: int = 1) -> int:
    """Return in how many local steps that an attacker sees a private sample takes part at most.

    A local epoch is one step of a sample. All rounds of a fixed local set hold it, else one round of each
    pass.
    """
    epochs = federation["local"]["epochs"] if federation["update"] == "model" else 1
    fixed = federation["local_set"] == "fixed"
    again = federation["passes"] if federation["passes"] > 1 else federation["rounds"] if fixed else 1
    return int(epochs * again * origins)


def certificate(noise: float, rate: float, steps: int, delta: float) -> Facts:
    """Return what DP-SGD certifies of a sample: ε by two accountants, and what `gamma` needs.

    `epsilon` is the ε of the accountant of privacy random variables (Gopi et al., arXiv:2106.02848).
    `epsilon_rdp` is that of the accountant of Rényi divergences (Mironov, 2017), which bounds the former.
    `curve` has pairs [ε, δ], each of which holds, if the rate is below 1; otherwise it is empty.

    Raises UserError if the second accountant's ε is below the first's by more than SLACK.
    """
    # Opacus takes seconds to import.
    from opacus.accountants import PRVAccountant, RDPAccountant

    exact, check = PRVAccountant(), RDPAccountant()
    exact.history = check.history = [(noise, rate, steps)]
    with np.errstate(all="ignore"):
        epsilon = float(exact.get_epsilon(delta, eps_error=EPSILON_ERROR))
        curve = _curve(exact, steps, epsilon) if rate < 1 else []
    bound = float(check.get_epsilon(delta))
    if not epsilon <= bound + SLACK:
        raise UserError(
            f"defence.parameters: ε is {epsilon:.4g} by one accountant and at most {bound:.4g} by the other, "
            f"at noise_multiplier {noise:g}, sample_rate {rate:g} and {steps} steps (choose values that both "
            "can compute, such as a larger noise_multiplier)"
        )
    given = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "delta": delta}
    return {**given, "epsilon": epsilon, "epsilon_rdp": bound, "curve": curve}


def of_normal_noise(noise: float, steps: int, delta: float) -> Facts:
    """Return what normal noise on a bounded vector, sent `steps` times, certifies, as `certificate` does.

    noise: the noise's deviation, in units of the most that the vector can change (its sensitivity).

    ε at `delta` is exact (Balle and Wang, arXiv:1805.06530, theorem 8).
    """
    epsilon = epsilon_of(math.sqrt(steps) / noise, delta)
    given = {"noise_multiplier": noise, "sample_rate": 1.0, "steps": steps, "delta": delta}
    return {**given, "epsilon": epsilon, "curve": []}


def epsilon_of(mu: float, delta: float) -> float:
    """Return the least ε of μ-Gaussian differential privacy at δ (Dong, Roth and Su, corollary 2.13)."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    def beyond(epsilon: float) -> float:
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        return float(ndtr(-near) - np.exp(epsilon + log_ndtr(-far))) - delta

    if mu <= 0 or beyond(0.0) <= 0:
        return 0.0
    return float(brentq(beyond, 0.0, mu * mu / 2 + 50 * mu, xtol=1e-9, rtol=1e-12))


def _curve(accountant: Any, steps: int, epsilon: float) -> list[list[float]]:
    """Return pairs [ε, δ] from ε = 0 to beyond `epsilon`: each bounds what a sample's presence adds."""
    discrete = accountant._get_dprv(eps_error=EPSILON_ERROR, delta_error=DELTA_ERROR)
    found = []
    for point in np.linspace(0, 1.5 * epsilon + 1, POINTS).tolist():
        delta = float(discrete.compute_delta_estimate(point - EPSILON_ERROR)) + DELTA_ERROR
        if math.isfinite(delta) and delta < 1:
            found.append([point, delta])
    return found


def gamma(certified: Mapping[str, Any], blind: float) -> float:
    """Return γ, the largest probability with which any attacker is right.

    It is the smaller of two bounds: the mean over the number of steps t in which the sample took part of
    Φ(Φ⁻¹(κ) + √t / noise), and the least e^ε κ + δ over the accountant's curve.
    """
    from scipy.special import ndtr, ndtri
    from scipy.stats import binom

    if blind <= 0 or blind >= 1:
        return float(min(max(blind, 0.0), 1.0))
    steps, rate = certified["steps"], certified["sample_rate"]
    times = np.arange(steps + 1)
    right = ndtr(ndtri(blind) + np.sqrt(times) / certified["noise_multiplier"])
    bounds = [float(binom.pmf(times, steps, rate) @ right)]
    bounds += [math.exp(min(epsilon, 700.0)) * blind + delta for epsilon, delta in certified["curve"]]
    return min(1.0, *bounds)


def area(certified: Mapping[str, Any], points: int = 500) -> float:
    """Return the largest area under a curve of true over false positives that γ allows, in [0.5, 1]."""
    rates: Sequence[float] = ((np.arange(points) + 1) / points).tolist()
    # γ rises, so the values at the right ends bound the integral from above.
    return float(np.mean([gamma(certified, rate) for rate in rates]))
