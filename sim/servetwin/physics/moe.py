"""Mixtures of experts: how many experts a step touches."""

from __future__ import annotations


def distinct_experts(tokens: int, experts: int, top_k: int, overlap: float) -> float:
    """Experts of a layer that at least one token of the step visits.

    ``E · (1 − (1 − k/E)^(x · tokens))`` with ``x = max(½, 1 − overlap · (k/E)²)``. For x = 1 this is the mean
    for independent, uniform choices. Measured mixtures touch fewer the larger a share of the experts a token
    takes: top-2 of 8 behaves as x ≈ 0.7, top-1 of 16 and top-4 of 128 as x ≈ 1.

    Args:
        tokens: tokens in the step.
        experts: routed experts of the layer, E.
        top_k: experts per token, k.
        overlap: by how much tokens choose more alike than chance, dimensionless, 0 = chance.

    Returns:
        expected number of distinct experts, at least those of one token and at most all that the tokens could visit.
    """
    if tokens <= 0:
        return 0.0
    share = top_k / experts
    exponent = max(0.5, 1.0 - overlap * share * share) * tokens
    expected: float = experts * (1.0 - (1.0 - share) ** exponent)
    return max(float(top_k), min(expected, float(experts), float(top_k * tokens)))
