"""What an engine would need for requests of which only the lengths are known, by the prices of its steps."""

from __future__ import annotations

from servetwin.engine.protocols import EngineSettings
from servetwin.engine.steps import padding
from servetwin.physics.protocols import StepShape, StepTime


class Forecast:
    """Forecasts for replicas that are alike. Nothing is asked of a running engine.

    Args:
        settings: the engine's settings.
        step_time: prices its steps.

    Attributes:
        room_tokens: KV cache of a replica [tokens].
    """

    __slots__ = ("_padded", "_price", "_settings", "_windows", "room_tokens")

    def __init__(self, settings: EngineSettings, step_time: StepTime) -> None:
        self._settings = settings
        self._price = step_time.price
        self._windows = step_time.windows
        self._padded = padding(settings.graph_sizes)
        self.room_tokens = (settings.num_blocks - 1) * settings.block_size

    @property
    def stages(self) -> int:
        """Stages of the pipeline: so many prefills can be under way at once."""
        return self._settings.stages

    def front_end_ps(self, tokens: int) -> int:
        """From the arrival of a prompt to the waiting queue [ps]."""
        return self._settings.front_end_ps + self._settings.front_end_per_token_ps * tokens

    def output_ps(self, requests: int) -> int:
        """From the end of a step of so many requests until its tokens are visible [ps]."""
        return self._settings.output_ps_per_request * requests

    def prefill_ps(self, tokens: int, cached: int) -> int:
        """The steps of a prompt that has the engine to itself [ps].

        Args:
            tokens: its length.
            cached: tokens from the first on that are in the prefix cache; the engine uses whole blocks of them, and
                computes one token at least.
        """
        settings = self._settings
        size = settings.block_size
        done = min(cached, tokens - 1) // size * size if settings.prefix_caching else 0
        most = settings.max_num_batched_tokens
        if 0 < settings.long_prefill_token_threshold < most:
            most = settings.long_prefill_token_threshold
        total = 0
        while done < tokens:
            chunk = min(tokens - done, most)
            total += self._step_ps(chunk, 1, 0, 0, ((chunk, done),))
            done += chunk
        return total

    def decode_ps(self, requests: int, context: int) -> int:
        """A step that gives every request a token, without drafts [ps].

        Those beyond ``max_num_seqs`` wait. The stages of a pipeline share the requests out evenly. Windows are taken as
        if all requests had the same context.

        Args:
            requests: requests on the replica, at least one.
            context: their tokens, the last of which the step computes.
        """
        settings = self._settings
        size = -(-min(requests, settings.max_num_seqs) // settings.stages)
        return self._step_ps(size, size, size, context * size // requests, ())

    def _step_ps(
        self, tokens: int, requests: int, decodes: int, context: int, chunks: tuple[tuple[int, int], ...]
    ) -> int:
        padded = self._padded
        graph = tokens < len(padded)
        contexts = [context]
        growing = [decodes]
        for window in self._windows:
            contexts.append(min(context, decodes * window))
            growing.append(decodes if context < decodes * window else 0)
        shape = StepShape(
            tokens, padded[tokens] if graph else tokens, graph, requests, decodes, tuple(contexts), tuple(growing),
            chunks,
        )  # fmt: skip
        return self._price(shape).total_ps
