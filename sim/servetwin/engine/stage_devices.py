"""The stages of a pipeline as processes: every phase of a step is an event on a resource of its stage.

Used at the stepping level ``every-operation`` only.
"""

from __future__ import annotations

from collections.abc import Generator

from simpy.events import Event, EventPriority

from servetwin.engine.device import Device
from servetwin.engine.lane import Lane
from servetwin.errors import InvariantError
from servetwin.kernel import Environment, Nap
from servetwin.physics.protocols import Phase, StagedStepTime


class StageDevices:
    """The GPUs of all stages, and the links between them.

    Args:
        env: the environment.
        priority: rank of its events among simultaneous ones.
        step_time: prices the steps.
        stages: stages of the pipeline.
        gpus: GPUs of each stage.

    Attributes:
        devices: the GPUs of each stage.
    """

    def __init__(
        self, env: Environment, priority: EventPriority, step_time: StagedStepTime, stages: int, gpus: int
    ) -> None:
        self._env = env
        self._priority = priority
        self._step_time = step_time
        self.devices = [Device(env, priority, gpus) for _ in range(stages)]
        #: For each stage, goes off when it is done with the step launched last.
        self._free = [self._gone_off() for _ in range(stages)]
        self._back: dict[Lane, Event] = {}

    def launch(self, lane: Lane) -> None:
        """The lane's step enters the first stage, or waits before it."""
        shape = lane.step.shape_after(lane.done)
        phases = [self._step_time.stage_phases(stage, shape) for stage in range(len(self.devices))]
        before = self._free
        self._free = [Event(self._env) for _ in self.devices]
        self._env.process(self._fly(phases, lane.hand_offs, before, self._free))
        self._back[lane] = self._env.process(self._check(lane, self._free[-1]))

    def back(self, lane: Lane) -> Event:
        """The event that goes off when the lane's step has left the last stage."""
        return self._back.pop(lane)

    def _fly(
        self, phases: list[list[Phase]], hand_offs: list[int], before: list[Event], after: list[Event]
    ) -> Generator[Event, None, None]:
        nap = Nap(self._env, self._priority)
        for stage, device in enumerate(self.devices):
            yield before[stage]
            yield device.execute(phases[stage])
            after[stage].succeed()
            if hand_offs[stage]:
                yield nap.until(self._env.now + hand_offs[stage])

    def _check(self, lane: Lane, left: Event) -> Generator[Event, None, None]:
        """The events must take as long as the arithmetic of the other levels says."""
        yield left
        if self._env.now != lane.end_ps:
            raise InvariantError(f"a step left the last stage at {self._env.now} ps instead of {lane.end_ps}")

    def _gone_off(self) -> Event:
        event = Event(self._env)
        event.succeed()
        return event
