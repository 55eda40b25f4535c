"""What a gateway predicts, worked by hand."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.oracle.levels import simulate
from tests.reference.simple_price import AffinePrice

from servetwin.cluster.predictions import MoveForecast, Predictions
from servetwin.cluster.prefill_book import PrefillBook
from servetwin.cluster.prefix_index import PrefixIndex
from servetwin.cluster.rules import PULL, PUSH, STREAM, Rules
from servetwin.engine.forecast import Forecast
from servetwin.engine.protocols import EngineSettings
from servetwin.fabric.flows import Fabric
from servetwin.fabric.transfer import Leg, Transfers
from servetwin.kernel import new_environment
from servetwin.request import Request
from servetwin.scenario.build import build
from servetwin.scenario.load import validate_mapping
from servetwin.specs import Link
from servetwin.testing import FakeFleet

SETTINGS: dict[str, Any] = {
    "max_num_batched_tokens": 100, "max_num_seqs": 4, "max_model_len": 1_000, "block_size": 10, "num_blocks": 51,
    "front_end_ps": 7, "front_end_per_token_ps": 1, "output_ps_per_request": 3,
}  # fmt: skip
#: A step takes 100, 10 for each token and 1 for each token of context.
PRICE = AffinePrice(base=100, token=10, context=(1,))


def forecast(**changes: Any) -> Forecast:
    return Forecast(EngineSettings(**(SETTINGS | changes)), PRICE)


# -- forecasts ---------------------------------------------------------------------------------------------------


def test_a_prompt_takes_as_many_steps_as_chunks() -> None:
    """250 tokens in chunks of 100: 100 + 1000, twice, and 100 + 500."""
    assert forecast().prefill_ps(250, cached=0) == 2 * 1100 + 600
    assert forecast(long_prefill_token_threshold=60).prefill_ps(250, cached=0) == 4 * 700 + 200


def test_whole_blocks_that_are_cached_are_not_computed() -> None:
    """Of 64 cached tokens the engine uses six blocks of ten; of a whole prompt all but the last block."""
    assert forecast().prefill_ps(100, cached=64) == 100 + 10 * 40
    assert forecast().prefill_ps(100, cached=100) == 100 + 10 * 10
    assert forecast(prefix_caching=False).prefill_ps(100, cached=64) == 1100


def test_a_decode_step_has_those_with_seats() -> None:
    """Three requests with 300 tokens: 100 + 30 + 300. Of eight with 800, four with 400."""
    assert forecast().decode_ps(3, 300) == 100 + 30 + 300
    assert forecast().decode_ps(8, 800) == 100 + 40 + 400


def test_the_stages_of_a_pipeline_share_the_requests_out() -> None:
    """Of three requests two are in the larger batch, with 200 of 300 tokens."""
    assert forecast(stages=2).decode_ps(3, 300) == 100 + 20 + 200


def test_room_is_all_blocks_but_the_null_block() -> None:
    assert forecast().room_tokens == 500


# -- the book ----------------------------------------------------------------------------------------------------


class _Clock:
    _now = 0


def book(clock: _Clock, **changes: Any) -> PrefillBook:
    return PrefillBook(cast(Any, clock), [forecast(**changes)], PrefixIndex(block_tokens=10))


def sent(where: PrefillBook, id: int, tokens: int) -> Request:
    request = Request(id, 0, tokens, 1)
    request.replica = 0
    where.sent(request, 0)
    return request


def test_the_queue_is_what_was_sent_less_the_time_that_the_first_has_had() -> None:
    """Prefills of 600 and 300. After 250 the first has 350 left; after 700 it should have ended, and counts nothing."""
    clock = _Clock()
    found = book(clock)
    assert found.queue_ps(0) == 0
    first, _ = sent(found, 0, 50), sent(found, 1, 20)
    queue = []
    for clock._now in (0, 250, 700):
        queue.append(found.queue_ps(0))
    assert queue == [900, 650, 300]
    clock._now = 720
    found.left(first)
    clock._now = 740
    assert found.queue_ps(0) == 280, "the second began when the first came back"


def test_the_stages_of_a_pipeline_prefill_several_at_once() -> None:
    found = book(_Clock(), stages=2)
    sent(found, 0, 50)
    assert found.queue_ps(0) == 300


# -- moving ------------------------------------------------------------------------------------------------------

GB = 10**9
#: One GPU sends to two, over the same trunk: 1,000 B per token, and 500 B of which half is protocol.
LEGS = (Leg((0, 1), 1.0, 1_000.0), Leg((0, 2), 0.5, 500.0))


def moves(mode: str, regenerates: bool = True) -> MoveForecast:
    env = new_environment()
    links = [Link("trunk", 20 * GB, 5e-9), Link("one", 10 * GB, 5e-9), Link("other", 5 * GB, 1e-9)]
    rules = Rules(
        mode=mode, regenerates=regenerates, decode_first=False, setup_ps=1_000, block_ps=10, block_size=16, lease_ps=1,
        on_failure="fail", retries=0, retry_ps=0, layers=4,
    )  # fmt: skip
    return MoveForecast(rules, Transfers(Fabric(env, links)), lambda a, b: LEGS, lambda b: LEGS[:1])


def test_the_busiest_link_says_how_long_it_takes() -> None:
    """30 tokens are two blocks, 32 tokens: 32,000 B and 16,000 B, half of which is protocol, so 32,000 B too.

    Trunk 64,000 B at 20 GB/s: 3,200 ns; one 3,200 ns; other 32,000 B at 5 GB/s: 6,400 ns. Ways of 10 ns and 6 ns.
    """
    alone = 6_400_000 + 10_000
    whole = alone + 1_000 + 2 * 10
    assert moves(PULL).exposed_ps(0, 1, 30, prefill_ps=0) == whole
    assert moves(STREAM).exposed_ps(0, 1, 30, prefill_ps=2_000_000) == whole - 2_000_000
    assert moves(STREAM).exposed_ps(0, 1, 30, prefill_ps=10**9) == whole // 4
    # From the CPU memory it is another 32,000 B over trunk and one.
    assert moves(PUSH).exposed_ps(0, 1, 30, prefill_ps=10**9) == whole // 4 + 3_200_000 + 10_000


# -- predictions -------------------------------------------------------------------------------------------------


def predictions(mode: str, regenerates: bool = True) -> Predictions:
    """Two replicas prefill (0, 1), two decode (2, 3); 1 and 2 have the fewer tokens, 1 one prefill of 20 tokens."""
    clock = _Clock()
    forecasts = [forecast() for _ in range(4)]
    line = PrefillBook(cast(Any, clock), forecasts, PrefixIndex(block_tokens=10))
    line.sent(Request(0, 0, 20, 1), 1)
    clock._now = 40
    prefill = FakeFleet([2, 1], tokens=[70, 20], indices=[0, 1])
    decode = FakeFleet([2, 1], tokens=[300, 400], indices=[2, 3])
    return Predictions(prefill, decode, line, forecasts, moves(mode, regenerates))


def test_tpot_is_a_step_with_all_that_is_there() -> None:
    """Two requests with 300 tokens, and one of 30: 100 + 3 · 10 + 330."""
    assert predictions(PULL).tpot_ps(Request(1, 0, 30, 99)) == 460


def test_ttft_of_a_token_from_the_prefill() -> None:
    """Front end 37, a queue of 300 of which 40 are over, own prefill 400, output 3: the transfer is of no concern."""
    assert predictions(PULL, regenerates=False).ttft_ps(Request(1, 0, 30, 99)) == 37 + 260 + 400 + 3


@pytest.mark.parametrize(("mode", "front_end"), [(PULL, 37), (STREAM, 0), (PUSH, 37)])
def test_ttft_of_a_token_from_the_decoding_replica(mode: str, front_end: int) -> None:
    """The transfer, the other front end where it comes after the prefill, a step of 460 and the output of three."""
    exposed = moves(mode).exposed_ps(1, 2, 30, prefill_ps=400)
    assert predictions(mode).ttft_ps(Request(1, 0, 30, 99)) == 700 + exposed + front_end + 460 + 9


@pytest.mark.parametrize("prompt", [90, 3_000, 20_000])
@pytest.mark.parametrize(("mode", "first_token"), [("pull", "decode"), ("pull", "prefill"), ("stream", "prefill")])
def test_in_an_idle_cluster_it_comes_to_pass(mode: str, first_token: str, prompt: int) -> None:
    """The only request of a run has the TTFT that was predicted for it, and every step after the transfer the TPOT."""
    scenario = validate_mapping(
        {
            "model": "llama-3.1-8b",
            "cluster": {
                "hardware": "h100-sxm", "pools": [{"name": "p", "role": "prefill"}, {"name": "d", "role": "decode"}],
                "transfer": {"mode": mode, "first_token": first_token},
            },
            "disaggregation": {"policy": "slo", "ttft_ms": 1e6},
            "workload": {"arrivals": {"rate_per_s": 1}, "prompts": prompt, "outputs": 2},
            "run": {"requests": 1},
        }
    )  # fmt: skip
    split = build(scenario).cluster.split
    assert split is not None
    request = Request(0, 0, prompt, 2)
    ttft_ps, tpot_ps = split._view.ttft_ps(request), split._view.tpot_ps(request)
    _, result = simulate(scenario)
    row = {name: int(result.table.column(name)[0]) for name in ("arrival_ps", "first_token_ps", "last_token_ps")}
    assert row["first_token_ps"] - row["arrival_ps"] == pytest.approx(ttft_ps, rel=1e-9)
    if first_token == "decode":
        # The second token has one token of context more.
        assert row["last_token_ps"] - row["first_token_ps"] == pytest.approx(tpot_ps, rel=1e-4)
