"""Whatever the wires are: better ones never take longer, and nothing beats them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.catalog import Catalog
from servetwin.physics.collectives import AllGather, AllReduce, Send
from servetwin.specs.span import Span

CATALOG = Catalog()
CALIBRATION = CATALOG.calibration("default")
GPUS = ("a100-sxm-80gb", "b200-sxm", "gb200-nvl72", "h100-sxm", "h800-sxm", "l40s", "rtx-4090")
SIZES = st.floats(1.0, 2e9)
ROUNDED = 1.0 + 1e-9


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """2 to 64 GPUs in 1 to 8 domains of any sizes, on wires of any speed."""
    per_domain = draw(st.lists(st.integers(1, 8), min_size=1, max_size=8).filter(lambda parts: sum(parts) > 1))
    inside = draw(st.floats(1e9, 2e12))
    across = (draw(st.floats(1e8, 1e12)), draw(st.floats(0, 1e-3))) if len(per_domain) > 1 else (0.0, 0.0)
    parts = tuple(sorted(per_domain, reverse=True))
    return Span(sum(parts), len(parts), parts, inside, *across)


def times(gpu: str, span: Span, size: float, share: float = 1.0) -> list[float]:
    chip = CATALOG.gpu(gpu)
    pair = replace(span, gpus=2, per_domain=(1, 1)) if span.domains > 1 else replace(span, gpus=2, per_domain=(2,))
    return [
        AllReduce(chip, span.gpus, CALIBRATION, span).seconds(size, share),
        AllGather(chip, span.gpus, CALIBRATION, span).seconds(size, share),
        Send(chip, CALIBRATION, pair).seconds(size, share),
    ]


def never_longer(better: list[float], worse: list[float]) -> None:
    for one, other in zip(better, worse, strict=True):
        assert one <= other * ROUNDED


@settings(max_examples=300, deadline=None)
@given(gpu=st.sampled_from(GPUS), span=spans(), size=SIZES, factor=st.floats(1.0, 10.0), share=st.floats(0.05, 1.0))
def test_better_wires_never_take_longer(gpu: str, span: Span, size: float, factor: float, share: float) -> None:
    plain = times(gpu, span, size, share)
    for better in (
        replace(span, inside_bytes_per_s=factor * span.inside_bytes_per_s),
        replace(span, across_bytes_per_s=factor * span.across_bytes_per_s),
        replace(span, across_latency_s=span.across_latency_s / factor),
    ):
        never_longer(times(gpu, better, size, share), plain)
    never_longer(times(gpu, span, size, min(1.0, share * factor)), plain)
    never_longer(times(gpu, span, size / factor, share), plain)


@settings(max_examples=300, deadline=None)
@given(
    gpu=st.sampled_from(GPUS), gpus=st.sampled_from([2, 4, 8, 16, 32]), size=SIZES, part=st.floats(0.01, 0.25),
    latency=st.floats(0, 1e-4),
)  # fmt: skip
def test_fewer_domains_never_take_longer(gpu: str, gpus: int, size: float, part: float, latency: float) -> None:
    """Equal parts, on NICs of at most a quarter of the links' rate."""
    link = CATALOG.gpu(gpu).link_bytes_per_s
    before = [0.0, 0.0]
    for domains in (1, 2, 4, 8, 16, 32):
        each = gpus // domains
        if not each or (each > 8 and domains > 1):
            continue
        wires = (part * link, latency) if domains > 1 else (0.0, 0.0)
        found = times(gpu, Span(gpus, domains, (each,) * domains, link, *wires), size)[:2]
        never_longer(before, found)
        before = found


@settings(max_examples=300, deadline=None)
@given(gpu=st.sampled_from(GPUS), span=spans(), size=SIZES)
def test_nothing_beats_the_wire(gpu: str, span: Span, size: float) -> None:
    """The floor in lines of its own: what must leave a domain or enter it, through all of its NICs."""
    reduce_s, gather_s, send_s = times(gpu, span, size)
    if span.domains == 1:
        assert reduce_s * ROUNDED >= size / span.inside_bytes_per_s
        assert gather_s * ROUNDED >= (span.gpus - 1) / span.gpus * size / span.inside_bytes_per_s
        assert send_s >= size / span.inside_bytes_per_s
        return
    for members in span.per_domain:
        nics = members * span.across_bytes_per_s
        assert reduce_s * ROUNDED >= size / nics
        assert gather_s * ROUNDED >= (span.gpus - members) / span.gpus * size / nics
    assert send_s >= size / span.across_bytes_per_s


@pytest.mark.parametrize("gpu", GPUS)
def test_the_bound_is_never_above_the_time(gpu: str) -> None:
    chip = CATALOG.gpu(gpu)
    for gpus, domains in ((8, 1), (8, 2), (16, 2), (16, 16)):
        wires = (25e9, 5e-6) if domains > 1 else (0.0, 0.0)
        span = Span(gpus, domains, (gpus // domains,) * domains, chip.link_bytes_per_s, *wires)
        for kind in (AllReduce, AllGather):
            collective = kind(chip, gpus, CALIBRATION, span)
            for exponent in range(6, 32):
                assert collective.bound(2.0**exponent) <= collective.seconds(2.0**exponent) * ROUNDED
