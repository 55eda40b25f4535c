"""What a Hugging Face ``config.json`` says about a model: its shapes and its precision.

Nothing is wrong silently: what changes the work of a step and is not modelled is refused, and what is approximated or
not known is named in the notes of the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from servetwin.catalog.fields import Fields
from servetwin.catalog.hf_keys import key_notes, refuse_unpriced, renamed
from servetwin.catalog.hf_layers import Block, read_layers
from servetwin.catalog.hf_quantisation import Quantisation, read_quantisation
from servetwin.catalog.hf_state import STATE_KEYS
from servetwin.specs import Layer, ModelSpec, StateAttention
from servetwin.specs.model import approximations

#: Model types whose output matrix is the embedding matrix unless the configuration says otherwise. Their class in
#: ``transformers/models/TYPE/configuration_TYPE.py`` has ``tie_word_embeddings = True`` (gemma, gemma2, gemma3, cohere,
#: cohere2, ernie4_5, ernie4_5_moe, smollm3, starcoder2, falcon_mamba, gpt_bigcode), or does not name it in versions 4,
#: where the base class ``PretrainedConfig`` says True (opt, gpt2, bloom, falcon, mamba). The classes of the other known
#: types say False, among them gpt_neox, phi, mamba2, jamba, granite, qwen2 and qwen3, whose small models state it.
_TIED_BY_DEFAULT = (
    "opt", "gpt2", "gpt_bigcode", "gemma", "gemma2", "gemma3", "gemma3_text", "bloom", "falcon", "cohere", "cohere2",
    "ernie4_5", "ernie4_5_moe", "smollm3", "starcoder2", "mamba", "falcon_mamba",
)  # fmt: skip

#: Rows of learned position tables beyond the longest sequence.
_POSITION_ROWS = {"opt": 2, "gpt2": 0, "gpt_bigcode": 0}


#: The longest sequence where the configuration gives none [tokens].
_LONGEST = 2048

#: Words in the name of a checkpoint that say how it is quantised.
_QUANTISED_NAME = re.compile(
    r"(?<![a-z0-9])(fp8|nvfp4|mxfp4|mxfp8|fp4|int4|int8|awq|gptq|w4a16|w4a8|w8a8|w8a16)(?![a-z0-9])", re.IGNORECASE
)


def looks_like_huggingface(data: Mapping[str, object]) -> bool:
    """Whether a mapping is a Hugging Face configuration rather than one of our profiles."""
    return any(key in data for key in ("hidden_size", "text_config", "model_type", "architectures"))


def huggingface_name(data: Mapping[str, object]) -> str:
    """The name that a configuration gives itself, without the organisation; empty where it gives a path or none."""
    name = data.get("_name_or_path")
    if not isinstance(name, str) or name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        return ""
    return name.strip("/ ").rsplit("/", 1)[-1]


def model_from_huggingface(fields: Fields, name: str) -> ModelSpec:
    """The model that a configuration describes.

    Raises:
        CatalogError: where a needed field is missing or wrong, or the model does something that is not modelled.
    """
    fields = renamed(fields)
    text = renamed(fields.inner("text_config")) if fields.has("text_config") else fields
    model_type = str(text.take("model_type", fields.take("model_type", "")))
    refuse_unpriced(text, fields, model_type)
    hidden = text.integer("hidden_size")
    if text.take("word_embed_proj_dim", hidden) != hidden:
        raise text.error(
            "embeddings of another width than the layers are not modelled", "word_embed_proj_dim",
            found=text.take("word_embed_proj_dim"),
        )  # fmt: skip
    blocks = read_layers(text, model_type, hidden)
    _check_states(text, blocks)
    tied = text.take("tie_word_embeddings", fields.take("tie_word_embeddings", model_type in _TIED_BY_DEFAULT))
    quantised = _quantisation(text, fields, blocks, hidden)
    longest = text.integer("max_position_embeddings", _LONGEST)
    vocab = text.integer("vocab_size")
    layers = _grouped(blocks)
    return ModelSpec(
        name=name,
        hidden=hidden,
        vocab=vocab,
        layers=layers,
        tied_embeddings=bool(tied),
        max_position=longest,
        native_weights=quantised.weights or _dtype(text, fields),
        quantised_parts=quantised.parts,
        native_kv_cache=quantised.kv_cache,
        position_rows=longest + _POSITION_ROWS[model_type] if model_type in _POSITION_ROWS else 0,
        mtp_parameters=_mtp(text, model_type, blocks, hidden, vocab),
        vision_parameters=_vision(fields),
        notes=(
            *approximations(layers),
            *quantised.notes,
            *_gaps(text, fields, name),
            *key_notes(text, fields, model_type),
        ),
        source=f"Hugging Face configuration {fields.file}",
    )


def _gaps(text: Fields, fields: Fields, name: str) -> list[str]:
    """Sentences about what the configuration leaves out, and what was assumed."""
    notes = []
    if not text.has("max_position_embeddings"):
        notes.append(
            f"the configuration has no max_position_embeddings: {_LONGEST:,} tokens are taken as the longest sequence"
        )
    said = _QUANTISED_NAME.search(f"{name} {_place(fields.file)}")
    if said and not any(one.take("quantization_config", None) for one in (text, fields)):
        notes.append(
            f"the name says {said[1]}, and the configuration has no quantization_config: the weights are priced in "
            f"{_dtype(text, fields)}"
        )
    return notes


def _place(file: str) -> str:
    """The name that a file gives to the model in it: a ``config.json`` has that of its directory."""
    path = Path(file)
    return path.parent.name if path.name == "config.json" else path.stem


def _grouped(blocks: Sequence[Block]) -> tuple[Layer, ...]:
    """Equal layers put together, in the order in which each kind first occurs."""
    groups: dict[Block, int] = {}
    for block in blocks:
        groups[block] = groups.get(block, 0) + 1
    return tuple(Layer(count, attention, mlp) for (attention, mlp), count in groups.items())


def _check_states(text: Fields, blocks: Sequence[Block]) -> None:
    """Refuse keys of constant-state layers that no layer came of."""
    if any(isinstance(attention, StateAttention) for attention, _ in blocks):
        return
    for key in STATE_KEYS:
        if text.has(key) and text.take(key) not in (0, [], {}):
            raise text.error("this model uses constant-state layers of a kind that is not modelled", key)


def _quantisation(text: Fields, fields: Fields, blocks: Sequence[Block], hidden: int) -> Quantisation:
    config = text.take("quantization_config", None) or fields.take("quantization_config", None)
    if not config:
        return Quantisation("", ())
    return read_quantisation(fields, config, [Layer(1, attention, mlp) for attention, mlp in blocks], hidden)


def _dtype(text: Fields, fields: Fields) -> str:
    name = text.take("torch_dtype", None) or fields.take("torch_dtype", "bfloat16")
    return "fp16" if name == "float16" else "bf16"


def _mtp(text: Fields, model_type: str, blocks: Sequence[Block], hidden: int, vocab: int) -> int:
    """Weights of the layers that predict further tokens: like the last layer that attends, and a projection.

    DeepSeek's checkpoints hold a copy of the embedding and of the output matrix with each, which counts. MiniMax's
    name such modules (``num_mtp_modules``) and hold none (github.com/MiniMax-AI/MiniMax-M2.5, issue 8).
    """
    attending = [block for block in blocks if not isinstance(block[0], StateAttention)] or list(blocks)
    attention, mlp = attending[-1]
    layer = attention.parameters(hidden) + sum(mlp.parts(hidden).values()) + 2 * hidden
    projection = 2 * hidden * hidden
    copies = 2 * vocab * hidden if model_type.startswith("deepseek") else 0
    each = text.integer("num_nextn_predict_layers", 0, least=0) * (layer + projection + copies)
    further = text.integer("mtp_num_hidden_layers", 0, least=0)
    return each + (further * layer + projection if further else 0)


def _vision(fields: Fields) -> int:
    """Weights of the vision tower, about: the layers of a plain vision transformer."""
    if not fields.has("vision_config"):
        return 0
    vision = fields.inner("vision_config")
    sizes = {}
    for name, keys in {
        "hidden": ("vt_hidden_size", "hidden_size", "embed_dim", "width"),
        "layers": ("vt_num_hidden_layers", "num_hidden_layers", "depth", "layers"),
        "inner": ("vt_intermediate_size", "intermediate_size"),
    }.items():
        found = next((vision.take(key) for key in keys if vision.has(key)), None)
        sizes[name] = found if isinstance(found, int) and not isinstance(found, bool) else 0
    inner = sizes["inner"] or 4 * sizes["hidden"]
    return int(sizes["layers"] * (4 * sizes["hidden"] ** 2 + 2 * sizes["hidden"] * inner))
