"""One engine as a textbook queue: a fixed step time, a number of seats, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from servetwin.engine.executor import Executor
from servetwin.engine.protocols import EngineSettings
from servetwin.kernel import ARRIVAL, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.physics.protocols import Phase, StepPrice, StepShape
from servetwin.request import Request


class PerToken:
    """A step costs a fixed time, or a time per token of its prefill chunks."""

    windows: tuple[int, ...] = ()

    def __init__(self, step_ps: int, token_ps: int) -> None:
        self.step_ps = step_ps
        self.token_ps = token_ps

    def price(self, shape: StepShape) -> StepPrice:
        return StepPrice(self.step_ps + self.token_ps * (shape.tokens - shape.decodes), 0, 0, 0)

    def phases(self, shape: StepShape) -> list[Phase]:
        return [Phase("step", "sm", 1, self.price(shape).total_ps)]

    def work(self, tokens: int, requests: int, context: int, attended: int) -> tuple[float, float]:
        return float(tokens), float(context)


class Fcfs:
    fcfs = True
    reads_cache = False

    def order(self, request: Request, cached_tokens: int) -> None:
        return None

    def victim(self, request: Request) -> None:
        return None


class Log:
    """Keeps what a test of queueing needs: the finished requests."""

    segment_limit = 1 << 16
    wants_phases = False
    wants_chunks = False

    def __init__(self) -> None:
        self.segments = bytearray()
        self.done: list[Request] = []

    def flush_segments(self) -> None:
        self.segments.clear()

    def gap(self, gap_ps: int, start_ps: int) -> None:
        pass

    def phases(self, replica: int, start_ps: int, phases: list[object]) -> None:
        pass

    def finished(self, request: Request) -> None:
        self.done.append(request)


@dataclass
class Observed:
    """Per request, in seconds: how long it waited for a seat, and how long it was in the system."""

    wait_s: np.ndarray
    stay_s: np.ndarray
    arrival_s: np.ndarray


def observe(
    arrivals_s: np.ndarray, prompts: np.ndarray, outputs: np.ndarray, seats: int, step_ps: int, token_ps: int
) -> Observed:
    """Run the requests through one engine with ``seats`` seats, synchronous scheduling and no front end."""
    env = new_environment()
    log = Log()
    settings = EngineSettings(
        max_num_batched_tokens=1 << 40, max_num_seqs=seats, max_model_len=1 << 40, block_size=16, num_blocks=1 << 40,
        prefix_caching=False, depth=0,
    )  # fmt: skip
    executor = Executor(
        env, 0, PerToken(step_ps, token_ps), settings, Fcfs(), log, lambda request, visible_ps: log.finished(request)
    )
    for number, (arrival, prompt, output) in enumerate(
        zip(arrivals_s.tolist(), prompts.tolist(), outputs.tolist(), strict=True)
    ):
        request = Request(number, round(arrival * 1e12), int(prompt), int(output))
        call_at(env, request.arrival_ps, priority(ARRIVAL, number), lambda request=request: executor.submit(request))
    env.run()
    done = sorted(log.done, key=lambda request: request.id)
    assert len(done) == len(arrivals_s)
    arrival = np.array([request.arrival_ps for request in done]) / 1e12
    scheduled = np.array([request.scheduled_ps for request in done]) / 1e12
    last = np.array([request.last_token_ps for request in done]) / 1e12
    return Observed(scheduled - arrival, last - arrival, arrival)


def batch_means(values: np.ndarray, batches: int = 20) -> tuple[float, float]:
    """Mean and half-width of its 99.9 % confidence interval, by batch means (t = 3.88 for 19 degrees of freedom)."""
    means = np.array([part.mean() for part in np.array_split(values, batches)])
    return float(means.mean()), float(3.88 * means.std(ddof=1) / np.sqrt(batches))
