"""Whole runs against what vLLM 0.15.1 did: one case of every kind. ``score_vllm.py`` scores all of them."""

from __future__ import annotations

from functools import cache

import pytest
from tests.accuracy.vllm_cases import CASES, Score, mean_absolute_error, read_cases, score

from servetwin.studies.validation import Case

SUBSET = (
    "feb-20260217-155451-llama-2-7b-tp1-codegen",
    "feb-20260218-150956-codellama-34b-tp2-codegen",
    "s2r-18-llama-3-1-8b-tp1-codegen-1",
    "s2r-19-llama-3-1-8b-tp1-roleplay-1",
    "s2r-26-llama-3-1-8b-tp2-general-2",
    "s2r-27-mixtral-8x7b-tp2-general-lite-2-1",
    "s2r-36-qwen3-14b-tp1-general-lite-1",
    "s2r-38-llama-3-1-8b-tp1-general-lite-1-1",
    "s2r-40-codellama-34b-tp2-general-lite-2",
    "s2r-58-llama-2-70b-tp4-general-lite-4-1",
    "s2r-59-qwen3-14b-tp1-general-lite-1-1",
    "s2r-62-mistral-nemo-12b-tp2-general-lite-2-1",
    "s2r-67-llama-2-7b-hf-tp1-reasoning-lite-1-1",
)
"""Ends of the ids: every model family, degree and profile, and both GPUs that have several runs."""


@cache
def cases() -> dict[str, Case]:
    """The cases by the ends of their ids. Only an absent folder is a reason to skip; an unreadable file fails."""
    if not CASES.parents[1].exists():
        pytest.skip(f"the measured runs are not here: {CASES.parents[1]}")
    return {case.id.removeprefix("vllm-").removeprefix("h100-"): case for case in read_cases()}


@cache
def scored(case: str) -> Score:
    return score(cases()[case])


@pytest.mark.parametrize("case", SUBSET)
def test_means_are_near_the_measured_ones(case: str) -> None:
    found = scored(case).summary
    assert abs(found.error("tpot_ms.mean")) < 9
    assert abs(found.error("e2e_ms.mean")) < 9
    assert abs(found.error("ttft_ms.mean")) < 12
    # The first requests of a cold engine wait for kernels to be compiled, and more rarely later ones for other
    # causes that are not known; a step longer or shorter would be 40 %.
    assert abs(found.error("ttft_ms.p99")) < 35


def test_single_requests_of_a_replayed_recording() -> None:
    found = scored("feb-20260217-155451-llama-2-7b-tp1-codegen").per_request
    assert found is not None and found < 4


def test_errors_over_the_subset() -> None:
    scores = [scored(case) for case in SUBSET]
    h100 = [item for item in scores if item.hardware.startswith("H100")]
    assert len(h100) >= 10
    assert mean_absolute_error(h100, "tpot_ms.mean") < 2.5
    assert mean_absolute_error(h100, "e2e_ms.mean") < 2.5
    assert mean_absolute_error(h100, "ttft_ms.mean") < 4.5
    assert mean_absolute_error(scores, "tpot_ms.mean") < 3
    assert mean_absolute_error(scores, "ttft_ms.mean") < 5
    assert mean_absolute_error(scores, "ttft_ms.p99") < 16


def test_the_public_set_is_complete() -> None:
    assert len(cases()) == 34
    assert set(SUBSET) <= set(cases())
