"""The tables of ``explain`` and ``show hardware``: readable at any width, in the units that people use."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from servetwin.catalog import Catalog
from servetwin.report.explain import print_explanation
from servetwin.report.hardware import KINDS, print_hardware
from servetwin.report.units import binary, count, duration, flops_rate, gib, rate, scaled
from servetwin.scenario.load import load_scenario
from servetwin.studies.explain import explain
from servetwin.studies.step import Step

CATALOG = Catalog()


def printed(width: int = 100) -> tuple[io.StringIO, Console]:
    out = io.StringIO()
    return out, Console(file=out, width=width, highlight=False, color_system=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rate(3.35e12), "3.35 TB/s"), (rate(450e9), "450 GB/s"), (rate(0.0), "0 B/s"),
        (scaled(30.72e12, "B"), "30.72 TB"),
        (flops_rate(2.25e15), "2,250 TFLOP/s"), (flops_rate(153.5e12), "153.5 TFLOP/s"), (flops_rate(5e9), "5 GFLOP/s"),
        (gib(81559 * 2**20), "79.65 GiB"), (duration(5e-6), "5 µs"), (duration(1e-4), "100 µs"), (duration(2.0), "2 s"),
        (duration(1e-7), "100 ns"),
        (count(70_553_706_496), "70.55 B"), (count(1.03e12), "1.03 T"), (count(495_600), "495.6 k"), (count(12), "12"),
        (binary(147_456), "144 KiB"), (binary(2**40), "1 TiB"), (binary(1_023), "1,023 B"), (binary(0), "0 B"),
    ],
)  # fmt: skip
def test_units(text: str, expected: str) -> None:
    assert text == expected


def test_speculation_says_from_where_on_it_pays() -> None:
    out, console = printed(200)
    print_explanation(explain(load_scenario("bench-8b-spec", [], CATALOG), Step.of(16, 700, None), CATALOG), console)
    for words in (
        "16 requests verify 4 tokens each", "of drafting", "3 tokens by EAGLE-3 of llama-3.1-8b: 1 pass of",
        "2 passes of", "pays from", "2.26 at this acceptance", "speed-up", "of it the drafter",
    ):  # fmt: skip
        assert words in out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_hardware(kind: str, width: int) -> None:
    for name in CATALOG.names(kind):
        out, console = printed(width)
        print_hardware(kind, CATALOG.describe(kind, name), console)
        assert out.getvalue().startswith(name)
        assert "sources" in out.getvalue()
        assert max(len(line) for line in out.getvalue().splitlines()) <= width


def test_a_gpu_in_human_units() -> None:
    out, console = printed()
    print_hardware("hardware", CATALOG.describe("hardware", "h20"), console)
    for word in ("95.58 GiB", "97,871 MiB", "4 TB/s", "148 TFLOP/s", "450 GB/s", "500 W", "h100-sxm", "costs are null"):
        assert word in out.getvalue()


@pytest.mark.parametrize("width", [80, 200])
def test_an_explanation(width: int) -> None:
    scenario = load_scenario("mixed-gpus")
    for step in (Step.of(None, None, None), Step.of(None, 300, 9000), Step.of(500, 9000, 50)):
        out, console = printed(width)
        document = explain(scenario, step, CATALOG, "a100")
        print_explanation(document, console)
        text = out.getvalue()
        for operator in document["operators"]:
            assert operator["name"] in text
        for word in ("qwen3-32b", "2 x a100-sxm-80gb", "bound by", "ridge", "KV cache", "GiB", "at most"):
            assert word in text or (word == "at most" and not step.batch)


PURE_STATES = (
    "model={model_type: falcon_mamba, hidden_size: 256, num_hidden_layers: 4, vocab_size: 1000, state_size: 16, "
    "conv_kernel: 4, expand: 2, time_step_rank: 16, intermediate_size: 512, max_position_embeddings: 2048}"
)


@pytest.mark.parametrize(
    ("changes", "step", "words", "absent"),
    [
        ([], (1, 1, None), ["1 request decodes at 1 token of context: 1 token, CUDA graph"], ["requests decode"]),
        ([], (0, 0, 1), ["a prompt is prefilled by 1 token: 1 token,"], ["at most", " of 0"]),
        (
            [],
            (1, 1, None),
            ["of 1 token, or 1 of 429,472; max_num_seqs lets 1,024 run; max_model_len is 131,072"],
            [],
        ),
        (
            ["cluster.engine.num_gpu_blocks_override=2"],
            (8, 1000, None),
            [
                "0 requests  of 1,000 tokens, and 8 do not fit, however short",
                "0.00391 GiB  as num_gpu_blocks_override says",
            ],
            [" of 0"],
        ),
        (
            ["model=qwen3-next-80b-a3b", "cluster.parallel.tensor=4"],
            (2000, 100, None),
            ["1,024 requests  of 100 tokens, and 2,000 do not fit, however short"],
            [" of 0"],
        ),
        (
            [PURE_STATES],
            (8, 1000, None),
            ["1,024 requests  of any length: nothing is kept per token", "8 requests  fits", "left over"],
            ["KV cache   ", "at most"],
        ),
        (["cluster.slowdown=3"], (8, 1000, None), ["every step takes 3 times as long: cluster.slowdown"], []),
        ([], (8, 1000, None), ["each · "], ["slowdown"]),
    ],
)
def test_sentences_say_what_is_meant(
    changes: list[str], step: tuple[int, int, int | None], words: list[str], absent: list[str]
) -> None:
    out, console = printed(200)
    print_explanation(explain(load_scenario("quickstart", changes), Step.of(*step), CATALOG), console)
    text = out.getvalue()
    assert all(word in text for word in words), text
    assert not any(word in text for word in absent), text
