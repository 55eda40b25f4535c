"""Main effects and interactions of techniques: which variants they are made of, with which weights.

A main effect is the mean over all combinations with a technique less the mean over all without; the interaction of two
is half the difference between the effect of one with the other on and with the other off. Source: Box, Hunter and
Hunter, *Statistics for Experimenters*, 2nd ed. (2005), chapter 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from servetwin.studies.compare.contrasts import Weights, difference
from servetwin.studies.compare.variants import OFF, Variant
from servetwin.studies.techniques import in_order


def techniques_of(variants: Sequence[Variant]) -> list[str]:
    """The techniques that are switched."""
    return in_order({name for variant in variants for name in variant.techniques or ()})


def is_full(variants: Sequence[Variant]) -> bool:
    """Whether every combination is there."""
    switched = [variant for variant in variants if variant.techniques is not None]
    return len(switched) == 1 << len(techniques_of(variants))


def main_effect(technique: str, variants: Sequence[Variant]) -> Weights:
    """The weights of the effect of a technique; one by one, it is that against all off."""
    if not is_full(variants):
        return difference(technique, OFF)
    return _signed(variants, (technique,))


def without(technique: str, variants: Sequence[Variant]) -> Weights:
    """The weights of the mean of those variants with which a main effect compares."""
    return {name: -weight for name, weight in main_effect(technique, variants).items() if weight < 0}


def interactions(variants: Sequence[Variant]) -> dict[tuple[str, str], Weights]:
    """The weights of the interaction of every two techniques, where every combination is there."""
    if not is_full(variants):
        return {}
    return {pair: _signed(variants, pair) for pair in combinations(techniques_of(variants), 2)}


def _signed(variants: Sequence[Variant], of: Sequence[str]) -> Weights:
    switched = [variant for variant in variants if variant.techniques is not None]
    weights = {}
    for variant in switched:
        sign = 1
        for technique in of:
            sign *= 1 if technique in (variant.techniques or ()) else -1
        weights[variant.name] = sign * 2 / len(switched)
    return weights
