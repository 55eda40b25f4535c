"""Weights and KV cache against published figures: the tensor totals of checkpoints, and what publishers say.

``total_size`` is in ``model.safetensors.index.json`` of the checkpoint; ``params`` is what the page of the model on
Hugging Face counts in its tensors, multi-token prediction and vision tower included.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from servetwin.catalog import Catalog
from servetwin.specs import StateAttention

CATALOG = Catalog()
SHARED = Path(__file__).resolve().parents[4] / "shared" / "models"

# Bytes of 16-bit tensors: twice the weights.
TOTAL_SIZE = {
    "llama-3.1-8b": 16_060_522_496,  # index of meta-llama/Llama-3.1-8B, quoted in the Hugging Face Hub documentation
    "llama-3.1-70b": 141_107_412_992,  # index of meta-llama/Llama-3.1-70B-Instruct
    "llama-2-70b": 137_953_316_864,  # index of meta-llama/Llama-2-70b-hf
    "mixtral-8x7b": 93_405_585_408,  # index of mistralai/Mixtral-8x7B-v0.1
    "mixtral-8x22b": 281_241_268_224,  # index of alpindale/WizardLM-2-8x22B, which has the tensors of Mixtral-8x22B
    "qwen2.5-7b": 15_231_233_024,  # index of Qwen/Qwen2.5-7B-Instruct
    "qwen3-8b": 16_381_470_720,  # index of Qwen/Qwen3-8B
    "qwen3-32b": 65_524_246_528,  # index of Qwen/Qwen3-32B
    "qwen3-30b-a3b": 61_064_245_248,  # index of Qwen/Qwen3-30B-A3B
    "qwen3-next-80b-a3b": 2 * 79_674_391_296,  # tensor total of Qwen/Qwen3-Coder-Next
}

# Billions of weights in all tensors, and without what is listed apart.
PARAMS = {
    "deepseek-v3": (
        685.0,
        671.0,
    ),  # huggingface.co/deepseek-ai/DeepSeek-V3: 671B main and 14B of multi-token prediction
    "glm-5": (754.0, 744.0),  # huggingface.co/zai-org/GLM-5: 754B params; technical report: 744B
    "qwen3.5-397b-a17b": (403.0, 397.0),  # huggingface.co/Qwen/Qwen3.5-397B-A17B: 403B params; 397B by name
    "llama-4-scout": (108.6, 107.8),  # huggingface.co/meta-llama/Llama-4-Scout-17B-16E: 109B params
    "llama-4-maverick": (401.6, 400.7),  # huggingface.co/meta-llama/Llama-4-Maverick-17B-128E: 402B params
    "minimax-m2.5": (229.0, 229.0),  # huggingface.co/MiniMaxAI/MiniMax-M2.5: 229B params, none for prediction
    "kimi-k2": (1_026.5, 1_026.5),  # huggingface.co/moonshotai/Kimi-K2-Instruct: 1T params
    "gpt-oss-120b": (116.8, 116.8),  # OpenAI, gpt-oss model card, arXiv 2508.10925, table 1: 116.83
    "gpt-oss-20b": (20.9, 20.9),  # the same: 20.91
    "opt-13b": (12.85, 12.85),  # huggingface.co/facebook/opt-13b
    "deepseek-v2-lite": (15.7, 15.7),  # arXiv 2405.04434, appendix B: 15.7B
    "qwen2.5-72b": (72.7, 72.7),  # arXiv 2412.15115: 72.7B
    "llama-3.2-1b": (1.24, 1.24),  # huggingface.co/meta-llama/Llama-3.2-1B: 1.24B params
}

# Active weights in billions as publishers count them: the embedding included.
ACTIVE = {
    "qwen3-next-80b-a3b": 3.874929408,  # computed from the tensors of Qwen/Qwen3-Coder-Next
    "gpt-oss-120b": 5.13,  # arXiv 2508.10925, table 1, which leaves the embedding out
    "gpt-oss-20b": 3.61,
    "deepseek-v3": 37.0,  # arXiv 2412.19437
    "kimi-k2": 32.0,  # arXiv 2507.20534
}


@pytest.mark.parametrize("name", sorted(TOTAL_SIZE))
def test_weights_are_those_of_the_checkpoint(name: str) -> None:
    assert 2 * CATALOG.model(name).parameters() == pytest.approx(TOTAL_SIZE[name], rel=0.01)


@pytest.mark.parametrize("name", sorted(PARAMS))
def test_weights_with_prediction_and_vision_apart(name: str) -> None:
    model = CATALOG.model(name)
    tensors, language = PARAMS[name]
    assert model.parameters() / 1e9 == pytest.approx(language, rel=0.01)
    everything = model.parameters() + model.mtp_parameters + model.vision_parameters
    assert everything / 1e9 == pytest.approx(tensors, rel=0.01)


@pytest.mark.parametrize("name", sorted(ACTIVE))
def test_active_weights(name: str) -> None:
    model = CATALOG.model(name)
    embedding = 0 if name.startswith("gpt-oss") else model.vocab * model.hidden
    assert (model.active_parameters() + embedding) / 1e9 == pytest.approx(ACTIVE[name], rel=0.1)
    if name == "qwen3-next-80b-a3b":
        assert (model.active_parameters() + embedding) / 1e9 == pytest.approx(ACTIVE[name], rel=0.001)


@pytest.mark.parametrize(
    ("name", "dtype", "full", "windowed", "state"),
    [
        # Bytes per token of one full layer, of one windowed layer, and bytes per request of one constant-state layer.
        ("llama-3.1-8b", "bf16", 4_096, None, 0),  # 2 · 8 · 128 · 2 B
        ("llama-3.1-8b", "fp8", 2_048, None, 0),
        ("gpt-oss-120b", "bf16", 2_048, 2_048, 0),  # 2 · 8 · 64 · 2 B
        ("llama-4-scout", "bf16", 4_096, 4_096, 0),
        ("deepseek-r1", "bf16", 1_152, None, 0),  # 576 values
        ("deepseek-v3.2", "bf16", None, 1_284, 0),  # 1,152 B, and 132 B of the indexer
        ("deepseek-v3.2", "fp8", None, 788, 0),  # 656 B in FlashMLA's fp8 format, and 132 B of the indexer
        # 64 · 128 · 128 · 4 B, and 3 tokens of 12,288 channels in bf16.
        ("qwen3.5-397b-a17b", "bf16", 2_048, None, 4_194_304 + 73_728),
        ("qwen3-next-80b-a3b", "bf16", 2_048, None, 1_048_576 + 49_152),
    ],
)  # fmt: skip
def test_kv_bytes_by_kind_of_layer(name: str, dtype: str, full: int | None, windowed: int | None, state: int) -> None:
    model = CATALOG.model(name)
    found: dict[str, set[float]] = {"full": set(), "windowed": set(), "state": set()}
    for layer in model.layers:
        attention = layer.attention
        if isinstance(attention, StateAttention):
            found["state"].add(attention.state_bytes(1))
            assert attention.kv_bytes(1, dtype) == 0
            continue
        kind = "full" if attention.window is None else "windowed"
        found[kind].add(attention.kv_bytes(1, dtype) + attention.index_bytes())
    assert found["full"] == ({full} if full is not None else set())
    assert found["windowed"] == ({windowed} if windowed is not None else set())
    assert found["state"] == ({state} if state else set())


@pytest.mark.parametrize(
    ("name", "kv_bytes", "state_bytes"),
    [
        ("qwen3.5-397b-a17b", 30_720, 45 * 4_268_032),  # "30 KiB per token" on pages that describe the model
        ("glm-5", 78 * 1_284, 0),
        ("glm-5.2", 57 * 1_152 + 21 * 1_284, 0),  # one indexer serves four layers
        ("opt-13b", 819_200, 0),  # 800 KB per token: PagedAttention, arXiv 2309.06180, section 3
        ("minimax-m2.5", 253_952, 0),
        ("kimi-k2.5", 70_272, 0),
    ],
)
def test_what_a_token_and_a_request_hold(name: str, kv_bytes: int, state_bytes: int) -> None:
    model = CATALOG.model(name)
    assert model.kv_bytes_per_token() == kv_bytes
    assert model.state_bytes() == state_bytes
    assert model.state_bytes(8) == state_bytes / 8


def test_all_published_configurations_are_read() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the published configurations are not here: {SHARED}")
    found = {path.stem: CATALOG.model(str(path)) for path in sorted(SHARED.glob("*.json"))}
    assert len(found) == 33
    noted = {name for name, model in found.items() if model.notes}
    approximated = {"Qwen--Qwen3.5-397B-A17B", "zai-org--GLM-5"}
    fp8 = "nvidia--Llama-3.1-70B-Instruct-FP8"
    assert noted == {*approximated, fp8}, "these alone are approximated; all keys are known"
    (note,) = found[fp8].notes
    assert "the name says FP8" in note and "no quantization_config" in note and "bf16" in note
    assert found["moonshotai--Kimi-K2.5"].quantised_parts == ("experts",)
    assert found["moonshotai--Kimi-K2.5"].weight_bytes() / 1e9 == pytest.approx(594, rel=0.005)  # "595 GB" on its page
    assert found["MiniMaxAI--MiniMax-M2.5"].native_weights == "fp8_block"


@pytest.mark.parametrize("name", CATALOG.names("models"))
def test_every_bundled_model_has_its_name_and_a_source(name: str) -> None:
    model = CATALOG.model(name)
    assert model.name == name
    assert model.source
    assert model.active_parameters() <= model.parameters()


def test_enough_models_are_bundled() -> None:
    wanted = {
        "mixtral-8x22b", "gpt-oss-20b", "qwen3-235b-a22b", "llama-4-scout", "llama-4-maverick", "yi-34b",
        "mistral-nemo-12b", "codellama-34b", "opt-13b", "minimax-m2.5", "glm-5", "kimi-k2", "kimi-k2.5",
    }  # fmt: skip
    names = set(CATALOG.names("models"))
    assert wanted <= names
    assert len(names) >= 50


def test_profiles_agree_with_the_configurations() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the published configurations are not here: {SHARED}")
    pairs = {
        "zai-org--GLM-5": "glm-5", "moonshotai--Kimi-K2.5": "kimi-k2.5", "moonshotai--Kimi-K2-Instruct": "kimi-k2",
        "Qwen--Qwen3.5-397B-A17B": "qwen3.5-397b-a17b", "MiniMaxAI--MiniMax-M2.5": "minimax-m2.5",
        "facebook--opt-13b": "opt-13b", "meta-llama--Llama-4-Maverick-17B-128E-Instruct": "llama-4-maverick",
        "deepseek-v2-lite": "deepseek-v2-lite", "mistralai--Mixtral-8x22B-v0.1": "mixtral-8x22b",
        "openai--gpt-oss-20b": "gpt-oss-20b", "codellama-34b-instruct-hf": "codellama-34b",
        "mistral-nemo-instruct-2407": "mistral-nemo-12b", "deepseek-ai--DeepSeek-V3": "deepseek-v3",
    }  # fmt: skip
    fields = (
        "layers", "hidden", "vocab", "tied_embeddings", "max_position", "native_weights", "quantised_parts",
        "position_rows", "mtp_parameters", "native_kv_cache",
    )  # fmt: skip
    for published, ours in pairs.items():
        theirs, model = CATALOG.model(str(SHARED / f"{published}.json")), CATALOG.model(ours)
        for field in fields:
            assert getattr(theirs, field) == getattr(model, field), f"{ours}.{field}"
