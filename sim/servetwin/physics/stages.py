"""How a pipeline cuts a model into stages, and what fits into the memory of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from servetwin.errors import CapacityError
from servetwin.physics.memory import KvRoom, kv_room
from servetwin.specs import Layer, ModelSpec

_MOST_STAGES = 64
"""Longer pipelines are no advice."""


def stage_layers(layers: int, stages: int) -> tuple[int, ...]:
    """How many layers each stage has.

    All have ``layers // stages``. What remains goes, one layer each, to the stages before the last one, backwards: the
    last has the output matrix besides, and where the remainder is small the first, which has the embedding, gets none.

    Source: vLLM ``vllm/distributed/utils.py``, ``get_pp_indices``.

    >>> stage_layers(80, 4), stage_layers(61, 4), stage_layers(7, 2)
    ((20, 20, 20, 20), (15, 15, 16, 15), (4, 3))

    Args:
        layers: layers of the model, at least one for each stage.
        stages: stages of the pipeline.
    """
    each, left = divmod(layers, stages)
    counts = [each] * stages
    for place in range(2, left + 2):
        counts[-place] += 1
    return tuple(counts)


def check_pipeline(model: ModelSpec, stages: int) -> None:
    """Refuse a pipeline with more stages than layers.

    Raises:
        CapacityError: with the largest number.
    """
    if stages > model.num_layers:
        raise CapacityError(
            f"every stage has a layer at least, and {model.name} has {model.num_layers}",
            path="parallel.pipeline",
            found=stages,
            allowed=f"at most {model.num_layers}",
        )


def stage_models(model: ModelSpec, stages: int) -> tuple[ModelSpec, ...]:
    """The stages as models of their own: some layers, the first with the embedding, the last with the output matrix.

    The catalogue knows how many layers of each kind a model has, not their order: kinds are taken to be spread evenly
    over its depth, an approximation where a model begins with layers of another kind. A vision tower lies on the first
    stage. Tied matrices are stored twice, on the first stage and on the last.

    Args:
        model: the model.
        stages: stages of the pipeline; one is the model itself.
    """
    if stages == 1:
        return (model,)
    order = depth_order(model.layers)
    parts = []
    start = 0
    for stage, count in enumerate(stage_layers(model.num_layers, stages)):
        chosen = Counter(order[start : start + count])
        start += count
        first, last = stage == 0, stage == stages - 1
        parts.append(
            replace(
                model,
                layers=tuple(
                    replace(layer, count=chosen[kind]) for kind, layer in enumerate(model.layers) if chosen[kind]
                ),
                vision_parameters=model.vision_parameters if first else 0,
                embeds=model.embeds and first,
                has_output=model.has_output and last,
            )
        )
    return tuple(parts)


def depth_order(layers: tuple[Layer, ...]) -> list[int]:
    """The kind of each layer in order of depth, every kind spread evenly."""
    places = [
        ((2 * index + 1) / (2 * layer.count), kind) for kind, layer in enumerate(layers) for index in range(layer.count)
    ]
    return [kind for _, kind in sorted(places)]


def stage_rooms(stages: Sequence[ModelSpec], tensor: int, **settings: Any) -> list[KvRoom]:
    """The room of one rank of each stage; the pipeline has as many blocks as the stage with the fewest.

    Source: vLLM ``v1/core/kv_cache_utils.py``: all workers get the smallest number of blocks.

    Args:
        stages: the stages, see ``stage_models``.
        tensor: ranks that share out each stage.
        settings: what ``memory.kv_room`` is told besides.

    Raises:
        CapacityError: as ``memory.kv_room``, with the smallest degree at which the weights of the stage fit.
    """
    rooms = []
    for place, stage in enumerate(stages):
        try:
            rooms.append(kv_room(stage, tensor=tensor, **settings))
        except CapacityError as error:
            if len(stages) > 1:
                error.found = f"stage {place + 1} of {len(stages)}: {error.found}"
            raise
    return rooms


def smallest_pipeline(model: ModelSpec, tensor: int, **settings: Any) -> int | None:
    """The smallest degree up to 64 at which a KV block fits on every stage; None where there is none.

    Args:
        model: the whole model.
        tensor: ranks that share out each stage.
        settings: what ``memory.kv_room`` is told besides.
    """
    for degree in range(1, min(_MOST_STAGES, model.num_layers) + 1):
        try:
            stage_rooms(stage_models(model, degree), tensor, advise=False, **settings)
        except CapacityError:
            continue
        return degree
    return None
