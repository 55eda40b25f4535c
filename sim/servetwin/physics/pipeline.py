"""The price of a step on each stage of a pipeline, and of handing it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servetwin.physics.operators import ACTIVATION_BYTES
from servetwin.physics.protocols import Phase, StepPrice, StepShape, StepTime
from servetwin.physics.roofline import picoseconds

HANDED_ON = 2
"""Tensors that a stage hands on: the hidden states and the residual stream, which the next norm adds up."""


def hand_off_s(
    tokens: int, share: float, *, hidden: int, tensor: int, send: Callable[[float, float], float],
    gather: Callable[[float, float], float],
) -> float:  # fmt: skip
    """Time from the end of a step on one stage until the next stage has its input [s].

    ``m = 2 · tokens · hidden · 2 B``: hidden states and residual in bf16. Each of the ``tensor`` ranks has all of it
    and sends a slice of ``m / tensor`` to its peer in the next stage; the ranks there gather the slices.

    Source: vLLM ``v1/worker/gpu_worker.py`` (``send_tensor_dict`` with ``all_gather_group``),
        ``distributed/parallel_state.py``; ``IntermediateTensors`` of ``model_executor/models/llama.py``.

    Args:
        tokens: tokens of the step.
        share: of the bandwidth of its links.
        hidden: width of the residual stream.
        tensor: ranks of each stage.
        send: seconds to send so many bytes to a peer with a share of the links [s].
        gather: seconds to gather so many bytes, those of all ranks together, between the ranks of a stage [s].
    """
    moved = HANDED_ON * ACTIVATION_BYTES * tokens * hidden
    return send(moved / tensor, share) + (gather(moved, share) if tensor > 1 else 0.0)


class PipelineStepTime:
    """Prices steps of a model whose layers lie on several stages; implements ``StagedStepTime``.

    Every stage is priced as a model of its own. Each pays the engine's own time in full: vLLM runs a worker process for
    every GPU, which prepares its inputs by itself. An approximation: the constant was fitted to engines of one stage,
    whose scheduler and sampler are part of it.

    Args:
        whole: prices the model on one stage; answers what a step needs at least.
        stages: prices each stage.
        hand_off: seconds until a step of so many tokens is handed on with such a share of the links, for each stage
            but the last [s].
    """

    def __init__(
        self, whole: StepTime, stages: Sequence[StepTime], hand_off: Sequence[Callable[[int, float], float]]
    ) -> None:
        self.windows: tuple[int, ...] = whole.windows
        self._whole = whole
        self._stages = list(stages)
        self._kinds = [_kinds(whole.windows, stage.windows) for stage in stages]
        self._hand_off = list(hand_off)
        self._handed: dict[tuple[int, float], tuple[int, ...]] = {}

    def stages(self, shape: StepShape) -> list[StepPrice]:
        """What the step takes on each stage, in order."""
        return [
            stage.price(shape if kinds is None else _of_kinds(shape, kinds))
            for stage, kinds in zip(self._stages, self._kinds, strict=True)
        ]

    def hand_offs(self, shape: StepShape) -> tuple[int, ...]:
        """How long the step's output travels from each stage but the last to the next [ps].

        The tokens that pad a captured graph travel too.
        """
        sent = shape.padded_tokens, shape.link_share
        found = self._handed.get(sent)
        if found is None:
            found = self._handed[sent] = tuple(picoseconds(seconds(*sent)) for seconds in self._hand_off)
        return found

    def price(self, shape: StepShape) -> StepPrice:
        """What the stages compute for the step, all together [ps]."""
        prices = self.stages(shape)
        return StepPrice(
            sum(price.compute_ps for price in prices),
            sum(price.memory_ps for price in prices),
            sum(price.communication_ps for price in prices),
            sum(price.host_ps for price in prices),
            sum(price.compute_growth_ps for price in prices),
            sum(price.memory_growth_ps for price in prices),
            host_growth_ps=sum(price.host_growth_ps for price in prices),
            lasts=min(price.lasts for price in prices),
        )

    def stage_phases(self, stage: int, shape: StepShape) -> list[Phase]:
        """The step on one stage in order; the sum is exactly its price."""
        kinds = self._kinds[stage]
        return self._stages[stage].phases(shape if kinds is None else _of_kinds(shape, kinds))

    def phases(self, shape: StepShape) -> list[Phase]:
        """The step on one stage after the other."""
        return [phase for stage in range(len(self._stages)) for phase in self.stage_phases(stage, shape)]

    def work(self, tokens: int, requests: int, context: int, attended: int) -> tuple[float, float]:
        """See ``StepTime``: what the step needs at least does not depend on where its layers lie."""
        return self._whole.work(tokens, requests, context, attended)


def _kinds(whole: tuple[int, ...], stage: tuple[int, ...]) -> tuple[int, ...] | None:
    """The attention kinds of the whole model that a stage has; None where it has all."""
    return None if stage == whole else (0, *(whole.index(window) + 1 for window in stage))


def _of_kinds(shape: StepShape, kinds: tuple[int, ...]) -> StepShape:
    """The shape as a stage with only these attention kinds sees it."""
    return StepShape(
        shape.tokens, shape.padded_tokens, shape.graph, shape.requests, shape.decodes,
        tuple(shape.context[kind] for kind in kinds), tuple(shape.growing[kind] for kind in kinds), shape.chunks,
        shape.drafted, shape.link_share, shape.stretch, shape.drafts,
    )  # fmt: skip
