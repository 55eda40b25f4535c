"""Which GPU of one replica has what a GPU of another needs of a KV cache.

The layers lie on the stages of a pipeline, the KV heads on the ranks of a tensor group; with more ranks than heads a
head is on several of them, and a latent vector (MLA) or the keys of an indexer on all. A rank reads each of them once,
from one rank that has it; where several have it, those that read take them in turn.

Source: vLLM's ``NixlConnector`` (``v1/nixl/pull_worker.py``): with more ranks on the decoding side each reads its slice
of the heads, with fewer it reads from several, and a latent vector from one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from servetwin.physics.stages import depth_order, stage_layers
from servetwin.specs import Attention, GroupedAttention, LatentAttention, ModelSpec


@dataclass(frozen=True, slots=True)
class Spread:
    """How a replica is spread over its GPUs.

    Attributes:
        tensor: ranks that share out each layer.
        stages: stages of the pipeline.
        context: groups of ``tensor`` ranks that have computed, and keep, equal parts of the tokens of a prompt.
    """

    tensor: int
    stages: int = 1
    context: int = 1


@dataclass(slots=True)
class KvPart:
    """What one GPU gets from another.

    Attributes:
        source, target: the GPUs, numbered within their replicas, stage after stage.
        bytes_per_token: of layers that keep the whole sequence [B].
        windows: window [tokens] → bytes of a token in it, of layers that keep no more [B].
        constant_bytes: states, however long the sequence is [B].
    """

    source: int
    target: int
    bytes_per_token: float = 0.0
    windows: dict[int, float] = field(default_factory=dict)
    constant_bytes: float = 0.0


def kv_parts(model: ModelSpec, source: Spread, target: Spread, kv_cache: str) -> list[KvPart]:
    """Who sends what to whom.

    Args:
        model: the model.
        source: the replica that prefills.
        target: the replica that decodes.
        kv_cache: precision of the KV cache.
    """
    parts: dict[tuple[int, int], KvPart] = {}
    for (source_stage, target_stage, kind), count in _layers(model, source.stages, target.stages).items():
        attention = model.layers[kind].attention
        for rank in range(target.tensor):
            for giver, share in _givers(attention, source, rank, target.tensor):
                place = source_stage * source.tensor + giver, target_stage * target.tensor + rank
                part = parts.setdefault(place, KvPart(*place))
                each = count * share * (attention.kv_bytes(1, kv_cache) + attention.index_bytes())
                if attention.keeps_cache:
                    part.bytes_per_token += each
                elif attention.window is not None:
                    part.windows[attention.window] = part.windows.get(attention.window, 0.0) + each
                part.constant_bytes += count * share * attention.state_bytes(1)
    return [parts[place] for place in sorted(parts)]


def _layers(model: ModelSpec, sources: int, targets: int) -> Counter[tuple[int, int, int]]:
    """How many layers of each kind lie on each pair of stages."""
    stages = zip(_stages(model, sources), _stages(model, targets), depth_order(model.layers), strict=True)
    return Counter(stages)


def _stages(model: ModelSpec, stages: int) -> list[int]:
    """The stage of each layer, in order of depth."""
    counts = stage_layers(model.num_layers, stages)
    return [stage for stage, count in enumerate(counts) for _ in range(count)]


def _givers(attention: Attention, source: Spread, rank: int, targets: int) -> Iterator[tuple[int, float]]:
    """From which ranks a rank gets its part of the cache of a layer, and which share of the whole from each."""
    sources = source.tensor
    if isinstance(attention, LatentAttention):
        shares = [(rank % sources, 1.0)]
    else:
        heads = attention.kv_heads if isinstance(attention, GroupedAttention) else attention.heads
        shares = []
        for head in range(*_heads(heads, rank, targets)):
            holders = [giver for giver in range(sources) if head in range(*_heads(heads, giver, sources))]
            shares.append((holders[rank % len(holders)], 1 / heads))
    for group in range(source.context):
        for giver, share in shares:
            yield group * sources + giver, share / source.context


def _heads(heads: int, rank: int, ranks: int) -> tuple[int, int]:
    """The first head of a rank, and the first behind those that it has."""
    return rank * heads // ranks, -(-(rank + 1) * heads // ranks)
