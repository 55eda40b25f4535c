"""What a gateway predicts for a request that has arrived, by the prices of steps and the bandwidths of links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servetwin.cluster.prefill_book import PrefillBook
from servetwin.cluster.protocols import REQUESTS, TOKENS, FleetView
from servetwin.cluster.rules import PULL, PUSH, STREAM, Rules
from servetwin.engine.forecast import Forecast
from servetwin.fabric.transfer import Leg, Transfers
from servetwin.request import Request


class MoveForecast:
    """How long it takes to hand KV cache over, over links that nobody else uses.

    Args:
        rules: how it is handed over.
        transfers: sends over the links.
        legs: by pair of replicas, the legs from one to the other; into the CPU memory of its server where ``push``.
        onward: by replica, the legs from the CPU memory of its server; ``push`` only.
    """

    def __init__(
        self, rules: Rules, transfers: Transfers, legs: Callable[[int, int], Sequence[Leg]],
        onward: Callable[[int], Sequence[Leg]],
    ) -> None:  # fmt: skip
        self.rules = rules
        self._transfers = transfers
        self._legs = legs
        self._onward = onward

    def exposed_ps(self, source: int, target: int, tokens: int, prefill_ps: int) -> int:
        """From the end of a prefill until its KV cache is on the decoding replica, which had nothing of it [ps].

        What is sent while the prefill runs, which takes ``prefill_ps`` [ps], is hidden behind it, but for the last
        layer.
        """
        rules = self.rules
        whole = self._alone_ps(self._legs(source, target), tokens) + rules.setup_ps
        whole += rules.block_ps * -(-tokens // rules.block_size)
        if rules.mode == PULL:
            return whole
        exposed = max(whole - prefill_ps, whole // rules.layers)
        if rules.mode == PUSH:
            exposed += self._alone_ps(self._onward(target), tokens)
        return exposed

    def _alone_ps(self, legs: Sequence[Leg], tokens: int) -> int:
        size = self.rules.block_size
        last = -(-tokens // size) * size
        return self._transfers.alone_ps(legs, [leg.moved(0, last, tokens) for leg in legs])


class Predictions:
    """What the gateway knows is what it has sent and what has come back; no engine is asked, no output length read.

    Source: algorithm 1 of Mooncake (arXiv 2407.00079), where a regression over (length, cached prefix) gives the
    times that prices of steps give here.

    Args:
        prefill: the replicas that prefill.
        decode: those that decode.
        book: the prefills under way.
        forecasts: by replica, what requests take.
        moves: what handing over takes.
    """

    def __init__(
        self, prefill: FleetView, decode: FleetView, book: PrefillBook, forecasts: Sequence[Forecast],
        moves: MoveForecast,
    ) -> None:  # fmt: skip
        self._prefill = prefill
        self._decode = decode
        self._book = book
        self._forecasts = forecasts
        self._moves = moves

    def ttft_ps(self, request: Request) -> int:
        """The TTFT of a request that is split between the replicas with the fewest tokens [ps].

        front end + prefills before it + its own, with what is cached there + its output; and if the decoding replica
        yields the first token, what of the transfer the prefill does not hide + front end there (with ``stream`` it
        runs beside the prefill) + one decode step with all that is there + its output. Nobody waits for KV cache, for
        a seat, or for the end of a step.
        """
        tokens = request.prompt_tokens
        source = self._prefill.least(TOKENS)
        forecast, book = self._forecasts[source], self._book
        prefill = book.prefill_ps(request, source)
        total = forecast.front_end_ps(tokens) + book.queue_ps(source) + prefill + forecast.output_ps(1)
        moves = self._moves
        if not moves.rules.regenerates:
            return total
        target = self._decode.least(TOKENS)
        there = self._forecasts[target]
        total += moves.exposed_ps(source, target, tokens, prefill)
        if moves.rules.mode != STREAM:
            total += there.front_end_ps(tokens)
        return total + self._step_ps(request, target) + there.output_ps(self._decode.value(target, REQUESTS) + 1)

    def tpot_ps(self, request: Request) -> int:
        """A decode step with the request and all that is there, on the replica with the fewest tokens [ps]."""
        return self._step_ps(request, self._decode.least(TOKENS))

    def _step_ps(self, request: Request, target: int) -> int:
        fleet = self._decode
        return self._forecasts[target].decode_ps(
            fleet.value(target, REQUESTS) + 1, fleet.value(target, TOKENS) + request.prompt_tokens
        )
