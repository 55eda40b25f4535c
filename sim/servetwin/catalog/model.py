"""Model descriptions: our compact YAML, or a Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servetwin.catalog.fields import Fields
from servetwin.catalog.huggingface import huggingface_name, looks_like_huggingface, model_from_huggingface
from servetwin.catalog.yaml_file import read_mapping
from servetwin.paths import is_folder
from servetwin.specs import (
    Attention,
    DenseMlp,
    GroupedAttention,
    LatentAttention,
    Layer,
    ModelSpec,
    MoeMlp,
    StateAttention,
)
from servetwin.specs.dtypes import KV_DTYPES, WEIGHT_DTYPES
from servetwin.specs.layers import QUANTISABLE
from servetwin.specs.model import approximations

CONFIG = "config.json"
QUANTISATION = "hf_quant_config.json"
"""Where NVIDIA's ModelOpt says how the weights beside it are quantised."""


def read_model(path: Path) -> ModelSpec:
    """The model in a file: one of our profiles or a Hugging Face configuration.

    A directory stands for the ``config.json`` inside it.

    Raises:
        CatalogError: where the file is malformed or describes something that is not modelled.
    """
    if is_folder(path):
        path = path / CONFIG
    return model_from_mapping(read_model_mapping(path), file=str(path), name=_file_name(path))


def read_model_mapping(path: Path) -> dict[str, Any]:
    """The content of a model's file, with what its place says: a name, and the quantisation in a file beside it.

    Raises:
        CatalogError: where a file is malformed.
    """
    if is_folder(path):
        path = path / CONFIG
    data = read_mapping(path, "model")
    if not looks_like_huggingface(data):
        return data if data.get("name") is not None else {**data, "name": _file_name(path)}
    quantisation = path.parent / QUANTISATION
    if path.name == CONFIG and not data.get("quantization_config") and quantisation.is_file():
        inner = Fields(read_mapping(quantisation, "quantisation"), str(quantisation)).inner("quantization")
        if inner.has("quant_algo"):
            data["quantization_config"] = {
                "quant_method": "modelopt",
                "quant_algo": inner.text("quant_algo"),
                "kv_cache_quant_algo": inner.take("kv_cache_quant_algo", None),
                "exclude_modules": inner.entries("exclude_modules"),
                "quantized_layers": inner.take("quantized_layers", None),
            }
    given = huggingface_name(data)
    # A path on the machine of whoever made the checkpoint is no name.
    data["_name_or_path"] = given if given and path.name == CONFIG else _file_name(path)
    return data


def _file_name(path: Path) -> str:
    return (path.absolute().parent.name or "model") if path.name == CONFIG else path.stem


def model_from_mapping(data: Mapping[str, object], *, file: str, name: str = "custom", path: str = "") -> ModelSpec:
    """The model that a mapping describes, in either form.

    Args:
        data: the mapping.
        file: the file it stands in, for messages.
        name: the model's name where the mapping gives none.
        path: where in the file the mapping stands, for messages.

    Raises:
        CatalogError: where a field is missing, unknown or wrong.
    """
    fields = Fields(data, file, path)
    if looks_like_huggingface(data):
        return model_from_huggingface(fields, huggingface_name(data) or name)
    return _from_profile(fields, name)


def _from_profile(fields: Fields, name: str) -> ModelSpec:
    native, kv_cache = "bf16", "bf16"
    parts: tuple[str, ...] = ()
    if fields.has("weights"):
        weights = fields.inner("weights")
        native = weights.choice("dtype", WEIGHT_DTYPES)
        kv_cache = weights.choice("kv_cache", KV_DTYPES, "bf16")
        parts = weights.strings("quantised")
        for part in parts:
            if part not in QUANTISABLE:
                raise weights.error(
                    "this is no part that can be quantised", "quantised", found=part, allowed=QUANTISABLE
                )
        weights.done()
    fields.strings("aliases")
    source = f"{fields.text('source', '')} ({fields.take('date', '')})" if fields.has("source") else ""
    fields.take("date", None)
    layers = tuple(_layer(item) for item in fields.items("layers"))
    model = ModelSpec(
        name=fields.text("name", name),
        hidden=fields.integer("hidden"),
        vocab=fields.integer("vocab"),
        layers=layers,
        tied_embeddings=fields.flag("tied_embeddings"),
        max_position=fields.integer("max_position"),
        native_weights=native,
        quantised_parts=parts,
        native_kv_cache=kv_cache,
        position_rows=fields.integer("position_rows", 0, least=0),
        mtp_parameters=fields.integer("mtp_parameters", 0, least=0),
        vision_parameters=fields.integer("vision_parameters", 0, least=0),
        notes=(*approximations(layers), *fields.strings("notes")),
        source=source,
    )
    fields.done()
    return model


def _layer(fields: Fields) -> Layer:
    layer = Layer(fields.integer("count"), _attention(fields.inner("attention")), _mlp(fields.inner("mlp")))
    fields.done()
    return layer


def _attention(fields: Fields) -> Attention:
    kind = fields.choice("kind", ("grouped", "latent", "state"), "grouped")
    read = {"grouped": _grouped, "latent": _latent, "state": _state}[kind]
    attention = read(fields)
    fields.done()
    return attention


def _latent(fields: Fields) -> Attention:
    top_k = fields.integer("top_k") if fields.has("top_k") else None
    # A layer without an indexer attends what the layer before it chose.
    index_heads = fields.integer("index_heads", 0, least=0) if top_k else 0
    for name in ("q_rank", "top_k"):
        fields.take(name, None)
    return LatentAttention(
        heads=fields.integer("heads"),
        q_rank=fields.integer("q_rank") if fields.has("q_rank") else None,
        kv_rank=fields.integer("kv_rank"),
        nope_dim=fields.integer("nope_dim"),
        rope_dim=fields.integer("rope_dim"),
        v_dim=fields.integer("v_dim"),
        top_k=top_k,
        index_heads=index_heads,
        index_dim=fields.integer("index_dim") if index_heads else 0,
    )


def _state(fields: Fields) -> Attention:
    convolved = fields.integer("convolved", 0, least=0)
    return StateAttention(
        heads=fields.integer("heads"),
        inputs=fields.integer("inputs"),
        inner=fields.integer("inner"),
        state=fields.integer("state"),
        value_bytes=fields.integer("value_bytes", 2),
        convolved=convolved,
        kernel=fields.integer("kernel", 4) if convolved else 0,
        extra=fields.integer("extra", 0, least=0),
    )


def _grouped(fields: Fields) -> Attention:
    heads, kv_heads = fields.integer("heads"), fields.integer("kv_heads")
    if heads % kv_heads:
        raise fields.error("the query heads must be a multiple of the KV heads", "kv_heads", found=kv_heads)
    fields.take("window", None)
    return GroupedAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=fields.integer("head_dim"),
        window=fields.integer("window") if fields.has("window") else None,
        chunked=fields.flag("chunked"),
        gated=fields.flag("gated"),
    )


def _mlp(fields: Fields) -> DenseMlp | MoeMlp:
    mlp: DenseMlp | MoeMlp
    if fields.choice("kind", ("dense", "moe"), "dense") == "moe":
        mlp = MoeMlp(
            experts=fields.integer("experts"),
            top_k=fields.integer("top_k"),
            intermediate=fields.integer("intermediate"),
            shared_intermediate=fields.integer("shared_intermediate", 0, least=0),
            gated=fields.flag("gated", True),
        )
        if mlp.top_k > mlp.experts:
            raise fields.error("a token cannot visit more experts than there are", "top_k", found=mlp.top_k)
    else:
        mlp = DenseMlp(fields.integer("intermediate", least=0), fields.flag("gated", True))
    fields.done()
    return mlp
