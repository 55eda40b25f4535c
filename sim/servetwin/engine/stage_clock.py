"""When the steps in flight leave the stages of a pipeline.

A stage takes the steps in the order in which they were scheduled. Step ``n`` starts on stage ``s`` when the stage is
done with step ``n - 1`` and the output of stage ``s - 1`` has arrived:
``start(n, s) = max(end(n - 1, s), end(n, s - 1) + hand-off)``.
"""

from __future__ import annotations

from servetwin.engine.lane import Lane
from servetwin.engine.plan import PlannedStep
from servetwin.physics.protocols import StagedStepTime

_Linear = tuple[list[int], list[int], list[int]]
"""A step of so many decodes, whatever their context: on each stage, what it takes without context and for each token of
context; the hand-offs [ps]."""


class StagePrices:
    """Puts the price of planned steps on each stage into lanes.

    A step that only decodes in a captured graph, of a model with one kind of attention, has a price that is linear in
    the context: it is asked for once for each number of requests, as in ``StepMaker``.

    Args:
        step_time: prices the steps.
    """

    __slots__ = ("_decodes", "_linear", "_step_time")

    def __init__(self, step_time: StagedStepTime) -> None:
        self._step_time = step_time
        self._decodes: dict[int, _Linear] = {}
        self._linear = not step_time.windows

    def fill(self, lane: Lane, step: PlannedStep, noisy: bool) -> None:
        """``step`` is the lane's, with its price on each stage.

        Args:
            lane: receives the prices.
            step: a step that the lane's batch is in.
            noisy: whether every step has a time of its own.
        """
        lane.step = step
        lane.done = 0
        shape = step.shape
        if step.prefill_tokens or noisy or not self._linear or not shape.graph or shape.link_share != 1.0:
            prices = self._step_time.stages(shape)
            lane.spans = [price.total_ps for price in prices]
            lane.growths = [price.growth_ps for price in prices]
            lane.hand_offs = [*self._step_time.hand_offs(shape), 0]
            return
        size, context = shape.decodes, step.context
        base, slopes, hand_offs = self._decodes.get(size) or self._decode_price(step)
        lane.spans = [fixed + slope * context for fixed, slope in zip(base, slopes, strict=True)]
        lane.growths = [slope * size for slope in slopes]
        lane.hand_offs = hand_offs

    def _decode_price(self, step: PlannedStep) -> _Linear:
        """The shape that steps of one size share has no context."""
        shape = step.shape
        prices = self._step_time.stages(shape)
        found = self._decodes[shape.decodes] = (
            [price.total_ps for price in prices],
            [price.growth_ps // shape.decodes for price in prices],
            [*self._step_time.hand_offs(shape), 0],
        )
        return found


def launch(lane: Lane, ends: list[int], now: int) -> list[int]:
    """Let the lane's step enter the first stage.

    Args:
        lane: the lane, with its prices; told when its step leaves each stage.
        ends: when the stages are done with the step before [ps].
        now: when it is scheduled [ps].

    Returns:
        When the stages are done with it [ps].
    """
    done = lane.done
    own: list[int] = []
    left = arrives = now
    exposed = 0
    for stage, span in enumerate(lane.spans):
        begins = ends[stage]
        if begins < arrives:
            # What the stage waits for while nothing but the hand-off is under way.
            exposed += arrives - max(begins, left)
            begins = arrives
        left = begins + span + done * lane.growths[stage]
        arrives = left + lane.hand_offs[stage]
        own.append(left)
    lane.ends = own
    lane.end_ps = left
    lane.exposed_ps = exposed
    return own
