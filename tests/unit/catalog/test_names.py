"""Names as people write them: whole names resolve, and nothing resolves by a piece of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from servetwin.catalog import Catalog
from servetwin.catalog.names import fold, is_two_names, nearest, with_precision
from servetwin.errors import CatalogError

CATALOG = Catalog()
CASES = Path(__file__).resolve().parents[4] / "shared" / "validation" / "cases.json"

MODELS = {
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b", "meta-llama/Llama-3.3-70B-Instruct": "llama-3.1-70b",
    "meta-llama/Meta-Llama-3-70B-Instruct": "llama-3-70b", "meta-llama/Meta-Llama-3-8B": "llama-3-8b",
    "meta-llama/Llama-2-70b-chat-hf": "llama-2-70b", "facebook/opt-13b": "opt-13b", "zhipuai/GLM-5": "glm-5",
    "zai-org/GLM-5-FP8": "glm-5-fp8", "GLM-5.2-FP8": "glm-5.2-fp8", "moonshotai/Kimi-K2.5": "kimi-k2.5",
    "moonshotai/Kimi-K2-Instruct-0905": "kimi-k2-0905", "Kimi-K2.5 NVFP4": "kimi-k2.5-nvfp4",
    "nvidia/Kimi-K2.5-NVFP4": "kimi-k2.5-nvfp4", "nvidia/DeepSeek-R1-FP4": "deepseek-r1-fp4",
    "nvidia/DeepSeek-R1-0528-FP4": "deepseek-r1-fp4", "deepseek-ai/DeepSeek-R1-0528": "deepseek-r1",
    "DeepSeek-R1-FP8": "deepseek-r1", "deepseek-ai/DeepSeek-V3.2-Exp": "deepseek-v3.2", "Llama-4-Maverick":
    "llama-4-maverick", "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8": "llama-4-maverick-fp8",
    "mistralai/Mixtral-8x22B-Instruct-v0.1": "mixtral-8x22b", "mistralai/Mistral-7B-Instruct-v0.3": "mistral-7b",
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2.5", "Qwen/Qwen3.5-397B-A17B-FP8": "qwen3.5-397b-a17b-fp8",
    "Qwen/Qwen2.5-72B-Instruct (bf16)": "qwen2.5-72b", "Qwen2.5-7B-Instruct-GPTQ-Int4": "qwen2.5-7b-int4",
    "Qwen/Qwen3-Next-80B-A3B-Instruct": "qwen3-next-80b-a3b", "Qwen3-235B-A22B-Thinking-2507": "qwen3-235b-a22b-2507",
    "openai/gpt-oss-120b": "gpt-oss-120b", "gpt-oss-120b-mxfp4": "gpt-oss-120b", "QWEN3_8B": "qwen3-8b",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b", "mistralai/Mixtral-8x22B-v0.1": "mixtral-8x22b",
    "mistralai/Mistral-Nemo-Base-2407": "mistral-nemo-12b", "deepseek-ai/DeepSeek-V3-0324": "deepseek-v3",
    "DeepSeek-R1-0528-FP8": "deepseek-r1", "moonshotai/Kimi-K2-Instruct": "kimi-k2",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b-2507",
    "Qwen/Qwen3-Next-80B-A3B-Thinking": "qwen3-next-80b-a3b",
}  # fmt: skip

REFUSED = {
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": None,  # whatever is near, it is not DeepSeek-R1
    "Kimi-K2.6-NVFP4": "kimi-k2.5-nvfp4", "MiniMax-M3 MXFP8": "minimax-m2.5", "DeepSeek-R1 / Qwen3": "deepseek-r1",
    "Kimi-K2.5 / MiniMax-M2.5": "kimi-k2.5", "Kimi-K2.5/MiniMax-M2.5": "kimi-k2.5",
    "deepseek-ai/DeepSeek-V3/R1": "deepseek-v3", "see the guide (Qwen3-32B)": "qwen3-32b",
    "GLM-5.2-FP8 (744B, 39B active)": "glm-5.2-fp8", "Qwen3-8B-draft": "qwen3-8b", "my-llama-3.1-8b": "llama-3.1-8b",
    "llama-3.1-8b-fp8": None, "DeepSeek-R1-BF16": None, "see post": None,
    # Endings that may change the configuration: int4 experts, more positions, a window, another vocabulary.
    "moonshotai/Kimi-K2-Thinking": "kimi-k2", "Qwen/Qwen3-4B-Instruct-2507": "qwen3-4b",
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": "qwen3-235b-a22b-2507", "Qwen3-8B-Thinking": "qwen3-8b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b", "mistralai/Mistral-7B-Instruct-v0.2": "mistral-7b",
    "mistralai/Mixtral-8x22B-Instruct-v0.3": "mixtral-8x22b", "Llama-3.1-8B-2024": "llama-3.1-8b",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MODELS))
def test_typical_names_resolve(name: str) -> None:
    assert CATALOG.model(name).name == MODELS[name]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_other_names_are_refused_with_what_is_near(name: str) -> None:
    with pytest.raises(CatalogError, match="no model of that name") as caught:
        CATALOG.model(name)
    assert caught.value.allowed
    if REFUSED[name] is not None:
        assert caught.value.nearest == REFUSED[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("8x B200", "b200-sxm"),
        ("4x H100-80GB", "h100-sxm"),
        ("12 nodes x 8 H100", "h100-sxm"),
        ("H100/B200", "h100-sxm"),
    ],
)
def test_counts_are_no_part_of_a_gpu_s_name(name: str, expected: str) -> None:
    with pytest.raises(CatalogError) as caught:
        CATALOG.gpu(name)
    assert caught.value.nearest == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("RTX 5090", "rtx-4090"), ("RTX 4080", "rtx-4090"), ("RTX-3090", "rtx-4090"), ("RTX 6000", "rtx-pro-6000"),
        ("RTX PRO 5000", "rtx-pro-6000"), ("h100-instruct", "h100-sxm"), ("h100-2024", "h100-sxm"),
        ("meta-h100", "h100-sxm"),
    ],
)  # fmt: skip
def test_the_number_of_a_gpu_is_no_date(name: str, expected: str) -> None:
    with pytest.raises(CatalogError, match="no GPU of that name") as caught:
        CATALOG.gpu(name)
    assert caught.value.nearest == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("HGX-H200", "h200-sxm"), ("HGX-H100", "h100-sxm"), ("HGX-B200", "b200-sxm"), ("DGX-H100", "h100-sxm"),
        ("DGX-H200", "h200-sxm"), ("DGX-A100", "a100-sxm-80gb"), ("DGX B200", "b200-sxm"), ("hgx h20", "h20"),
        ("DGX-GB200", "gb200-nvl72"), ("HGX-A100", "a100-sxm-80gb"), ("l40s-8x", "l40s"), ("HGX_H800", "h800-sxm"),
    ],
)  # fmt: skip
def test_the_name_of_a_server_leads_to_its_gpu(name: str, expected: str) -> None:
    with pytest.raises(CatalogError) as caught:
        CATALOG.gpu(name)
    assert (caught.value.nearest, caught.value.hint) == (
        expected,
        f"{name} is a server: hardware names its GPU, {expected}",
    )


NEAREST = {
    "hardware": {
        "h1000": "h100-sxm", "h100sxm": "h100-sxm", "H100-SXM-141GB": "h100-sxm", "gb200nvl": "gb200-nvl72",
        "L40": "l40s", "MI325X": "mi300x", "a10g": "a10", "GH200": "h200-sxm", "T4": None, "V100": None,
        "tpu-v5e": None, "A100 80G": "a100-sxm-80gb", "H200 NVL": "h200-sxm",
    },
    "nodes": {"H100": "hgx-h100", "8xH100": "hgx-h100", "B200": "dgx-b200", "dgx-a1000": "dgx-a100"},
    "models": {
        "lama-3.1-8b": "llama-3.1-8b", "llama3-8b": "llama-3-8b", "llama-4": "llama-4-scout", "quen3-8b": "qwen3-8b",
        "Meta-Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b", "qwen2-7b": "qwen2.5-7b", "deepseek-r2": "deepseek-r1",
        "gptoss-120b": "gpt-oss-120b", "gpt-oss-12b": "gpt-oss-120b", "kimi": "kimi-k2", "glm-4.5": "glm-5",
        "qwen3.5": "qwen3.5-397b-a17b", "opt-30b": "opt-13b", "yi-6b": "yi-34b", "minimax": "minimax-m2.5",
        "gemma-3-27b": None, "phi-4": None, "falcon-70b": None, "mistral-8x7b": "mixtral-8x7b",
    },
    "scenarios": {"quickstrat": "quickstart", "prio": "priority-classes", "bench-9b": "bench-8b", "mm1": None},
    "workloads": {"batchh": "offline-batch", "agentic": "agent", "rags": "rag"},
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NEAREST.items() for name in names])
def test_what_is_near_a_name_that_is_none(kind: str, name: str) -> None:
    """The same family and number, or nothing: an H200 is no misspelt B300, and Gemma no Llama."""
    with pytest.raises(CatalogError, match="of that name") as caught:
        CATALOG.describe(kind, name)
    assert caught.value.nearest == NEAREST[kind][name]


def test_the_endings_of_models_are_no_endings_of_scenarios_and_workloads() -> None:
    for find, wanted, near in (
        (CATALOG.scenario, "rag-chat", "rag"), (CATALOG.scenario, "quickstart-2024", "quickstart"),
        (CATALOG.workload, "rag-base", "rag"), (CATALOG.node, "hgx-h100-2024", "hgx-h100"),
    ):  # fmt: skip
        with pytest.raises(CatalogError) as caught:
            find(wanted)
        assert caught.value.nearest == near
    assert CATALOG.scenario("Azure_Conversation 4xH100").stem == "azure-conversation-4xh100"


def test_releases_with_more_positions_are_models_of_their_own() -> None:
    for name in ("qwen3-235b-a22b", "qwen3-30b-a3b", "kimi-k2"):
        old = CATALOG.model(name)
        new = CATALOG.model(f"{name}-{'0905' if name == 'kimi-k2' else '2507'}")
        assert (old.layers, old.vocab, old.native_weights) == (new.layers, new.vocab, new.native_weights)
        assert new.max_position == 262_144 > old.max_position


def test_every_name_of_the_measured_cases_resolves_or_is_refused() -> None:
    """No name may resolve to a thing of which it is not the whole name."""
    if not CASES.exists():
        pytest.skip(f"the measured cases are not here: {CASES}")
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    looked_up: dict[str, Callable[[str], object]] = {"model": CATALOG.model, "hardware": CATALOG.gpu}
    refused: dict[str, list[str]] = {kind: [] for kind in looked_up}
    scored: set[str] = set()
    for kind, find in looked_up.items():
        for case in cases:
            name = case.get(kind)
            if not isinstance(name, str):
                continue
            try:
                find(name)
            except CatalogError as error:
                assert error.found == name
                refused[kind].append(name)
                if case.get("usable_for_scoring") and case["kind"] in ("serving", "concurrency_sweep"):
                    scored.add(name)
    assert not {name for name in refused["model"] if name in scored}, "no scored sweep lacks its model"
    # What is refused names no single thing, or one that is not known well enough to bundle.
    for name in refused["model"]:
        several = "/" in name.removeprefix("deepseek-ai/") or ";" in name or "(" in name
        assert several or name in ("see post", "Kimi-K2.6-NVFP4", "MiniMax-M3 MXFP8"), name


def test_endings_are_whole_words() -> None:
    assert fold("Qwen/Qwen3-8B-Base") == "qwen3-8b"
    assert fold("DeepSeek-R1-Distill-Llama-8B") == "deepseek-r1-distill-llama-8b"
    assert fold("baseline-chatty-8b") == "baseline-chatty-8b"
    assert fold("a/b/c-instruct") == "a/b/c"


def test_two_names_are_none() -> None:
    known = ["glm-5", "kimi-k2"]
    assert is_two_names("GLM-5/Kimi-K2", known)
    assert not is_two_names("moonshotai/Kimi-K2", known)
    assert nearest("about GLM-5, mostly", known) == "glm-5"
    assert list(with_precision("glm-5", "bf16")) == ["glm-5-bf16"]
