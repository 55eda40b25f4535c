"""Scenarios with pipelines, made from those without."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st
from tests.oracle.strategies import Case, cases
from tests.reference.simple_price import AffinePrice, PipelinePrice

from servetwin.engine.protocols import EngineSettings


def staged(case: Case, rng: random.Random, stages: int = 0) -> Case:
    """The same requests on pipelines of 2 to 4 stages, or of ``stages``."""

    def parts(settings: EngineSettings, price: AffinePrice) -> tuple[EngineSettings, PipelinePrice]:
        number = stages or rng.randint(2, 4)
        uneven = rng.random() < 0.7
        unit = rng.choice((1, 10, 100))
        each = tuple(
            replace(price, base=price.base + unit * rng.randint(0, 9), token=price.token + rng.randint(0, 2))
            if uneven
            else price
            for _ in range(number)
        )
        settings = replace(settings, stages=number, balanced=rng.random() < 0.4)
        return settings, PipelinePrice(each, unit * rng.choice((0, 1, 7)), rng.choice((0, 0, 1, unit)))

    return replace(case, replicas=tuple(parts(*one) for one in case.replicas))


@st.composite
def pipelines(draw: st.DrawFn, replicas: int = 1) -> Case:
    """One pipeline, or several."""
    return staged(draw(cases(replicas=replicas)), random.Random(draw(st.integers(0, 10**6))))
