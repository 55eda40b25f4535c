"""Model descriptions: our compact YAML, or a Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from servetwin.catalog.fields import Fields
from servetwin.catalog.huggingface import looks_like_huggingface, model_from_huggingface
from servetwin.catalog.yaml_file import read_mapping
from servetwin.specs import DenseMlp, GroupedAttention, LatentAttention, Layer, ModelSpec, MoeMlp
from servetwin.specs.layers import QUANTISABLE, WEIGHT_DTYPES


def read_model(path: Path) -> ModelSpec:
    """The model in a file: one of our profiles or a Hugging Face configuration.

    A directory stands for the ``config.json`` inside it.

    Raises:
        CatalogError: where the file is malformed or describes something that is not modelled.
    """
    if path.is_dir():
        path = path / "config.json"
    name = path.parent.name if path.name == "config.json" else path.stem
    return model_from_mapping(read_mapping(path, "model"), file=str(path), name=name)


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
        return model_from_huggingface(fields, name)
    return _from_profile(fields, name)


def _from_profile(fields: Fields, name: str) -> ModelSpec:
    native = "bf16"
    parts: tuple[str, ...] = ()
    if fields.has("weights"):
        weights = fields.inner("weights")
        native = weights.choice("dtype", WEIGHT_DTYPES)
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
    model = ModelSpec(
        name=fields.text("name", name),
        hidden=fields.integer("hidden"),
        vocab=fields.integer("vocab"),
        layers=tuple(_layer(item) for item in fields.items("layers")),
        tied_embeddings=fields.flag("tied_embeddings"),
        max_position=fields.integer("max_position"),
        native_weights=native,
        quantised_parts=parts,
        source=source,
    )
    fields.done()
    return model


def _layer(fields: Fields) -> Layer:
    layer = Layer(fields.integer("count"), _attention(fields.inner("attention")), _mlp(fields.inner("mlp")))
    fields.done()
    return layer


def _attention(fields: Fields) -> GroupedAttention | LatentAttention:
    heads = fields.integer("heads")
    attention: GroupedAttention | LatentAttention
    if fields.choice("kind", ("grouped", "latent"), "grouped") == "latent":
        attention = LatentAttention(
            heads=heads,
            q_rank=fields.integer("q_rank") if fields.has("q_rank") else None,
            kv_rank=fields.integer("kv_rank"),
            nope_dim=fields.integer("nope_dim"),
            rope_dim=fields.integer("rope_dim"),
            v_dim=fields.integer("v_dim"),
        )
        fields.take("q_rank", None)
    else:
        attention = GroupedAttention(
            heads=heads,
            kv_heads=fields.integer("kv_heads"),
            head_dim=fields.integer("head_dim"),
            window=fields.integer("window") if fields.has("window") else None,
            chunked=fields.flag("chunked"),
            gated=fields.flag("gated"),
        )
        fields.take("window", None)
        if heads % attention.kv_heads:
            raise fields.error(
                "the query heads must be a multiple of the KV heads", "kv_heads", found=attention.kv_heads
            )
    fields.done()
    return attention


def _mlp(fields: Fields) -> DenseMlp | MoeMlp:
    mlp: DenseMlp | MoeMlp
    if fields.choice("kind", ("dense", "moe"), "dense") == "moe":
        mlp = MoeMlp(
            experts=fields.integer("experts"),
            top_k=fields.integer("top_k"),
            intermediate=fields.integer("intermediate"),
            shared_intermediate=fields.integer("shared_intermediate", 0, least=0),
        )
        if mlp.top_k > mlp.experts:
            raise fields.error("a token cannot visit more experts than there are", "top_k", found=mlp.top_k)
    else:
        mlp = DenseMlp(fields.integer("intermediate"), fields.flag("gated", True))
    fields.done()
    return mlp
