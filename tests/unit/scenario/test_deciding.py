"""Policies of disaggregation, and their fields, that cannot have an effect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

import servetwin
from servetwin.cluster.protocols import LOCAL, SPLIT, SplitView
from servetwin.errors import ScenarioError
from servetwin.policies import PolicyContext, registry
from servetwin.policies.disaggregation import SplitPolicy
from servetwin.request import Request
from servetwin.scenario.load import LoadedScenario, validate_mapping
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.store import to_mapping

Load = Callable[..., LoadedScenario]

POOLS = [{"name": "p", "role": "prefill"}, {"name": "d", "role": "decode"}]
MIXED = [*POOLS, {"name": "m"}]


@pytest.fixture
def split(base: dict[str, Any]) -> dict[str, Any]:
    """Two pools; every request is split."""
    base["cluster"] = {"hardware": "h100-sxm", "pools": POOLS}
    return base


REFUSED = {
    "no mixed pool": ({"disaggregation": "mixed-overflow"}, "disaggregation.policy", "there are none"),
    "a mixed pool of no use": ({"cluster": {"pools": MIXED}}, "cluster.pools.2.role", "no request gets there"),
    "drafts": (
        {
            "disaggregation": {"policy": "slo", "tpot_ms": 10},
            "cluster": {"speculation": {"method": "ngram", "k": 2, "acceptance": 0.5}},
        },
        "disaggregation.tpot_ms",
        "how many drafts",
    ),
    "prefill first": (
        {"disaggregation": {"policy": "uncached-length", "tokens": 10, "order": "prefill-first"}},
        "disaggregation.order",
        "decode-first",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_together(name: str, split: dict[str, Any], load_it: Load) -> None:
    change, path, words = REFUSED[name]
    with pytest.raises(ScenarioError, match=words) as caught:
        load_it(deep_merge(split, change))
    assert caught.value.path == path


def test_an_slo_on_ttft_goes_with_drafts(split: dict[str, Any], load_it: Load) -> None:
    drafts = {"speculation": {"method": "ngram", "k": 2, "acceptance": 0.5}}
    load_it(deep_merge(split, {"disaggregation": {"policy": "slo", "ttft_ms": 10}, "cluster": drafts}))


#: What a file says, the field without effect, and the resolved policy without it.
IDLE = {
    "splits-nothing": (
        {"disaggregation": {"policy": "uncached-length", "tokens": 0}},
        "disaggregation.tokens",
        {"policy": "never", "order": "prefill-first"},
    ),
    "transfer-of-nothing": (
        {"disaggregation": "never", "cluster": {"transfer": {"mode": "stream"}}},
        "cluster.transfer.mode",
        {"policy": "never", "order": "prefill-first"},
    ),
    "order-of-one-instant": (
        {"disaggregation": {"policy": "always", "order": "decode-first"}, "cluster": {"transfer": {"mode": "push"}}},
        "disaggregation.order",
        {"policy": "always", "order": "prefill-first"},
    ),
}


@pytest.mark.parametrize("name", IDLE)
def test_in_a_file_it_is_an_error(name: str, split: dict[str, Any], load_it: Load) -> None:
    change, path, _ = IDLE[name]
    with pytest.raises(ScenarioError, match="no effect") as caught:
        load_it(deep_merge(split, change))
    assert caught.value.path == path


@pytest.mark.parametrize("name", IDLE)
def test_from_an_override_it_is_a_warning_and_stays_out_of_the_resolved_scenario(
    name: str, split: dict[str, Any], load_it: Load
) -> None:
    change, _, policy = IDLE[name]
    written = deep_merge(split, change)
    override = f"disaggregation={written.pop('disaggregation')}"
    loaded = load_it(written, override.replace("'", ""))
    assert [text.rpartition("(check ")[2] for text in loaded.warnings] == [f"{name})"]
    resolved = to_mapping(loaded.scenario)
    assert resolved["disaggregation"] == policy
    assert to_mapping(load_it(resolved).scenario) == resolved


def test_never_has_no_order(split: dict[str, Any], load_it: Load) -> None:
    split["disaggregation"] = {"policy": "never", "order": "decode-first"}
    with pytest.raises(ScenarioError, match="no request is split"):
        load_it(split)


@pytest.mark.parametrize(
    "change",
    [
        {"disaggregation": "never", "cluster": {"transfer": {"mode": "pull", "retries": 0}}},
        {"disaggregation": {"policy": "always", "order": "decode-first"}},
        {
            "disaggregation": {"policy": "uncached-length", "tokens": 10, "order": "decode-first"},
            "cluster": {"transfer": {"mode": "stream"}},
        },
        {"disaggregation": "mixed-overflow", "cluster": {"pools": MIXED}},
    ],
)
def test_defaults_and_what_has_an_effect_pass(change: dict[str, Any], split: dict[str, Any], load_it: Load) -> None:
    assert load_it(deep_merge(split, change)).warnings == ()


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"policy": "length-and-queue", "queue": 20}, "disaggregation.queue has no effect: it allows 20 requests"),
        ({"policy": "length-and-queue", "tokens": 500_000}, "length-and-queue splits nothing: no prompt has 500,001"),
        ({"policy": "uncached-length", "tokens": 131_072}, "uncached-length splits nothing: no prompt has 131,072"),
    ],
)
def test_limits_that_nobody_reaches(policy: dict[str, Any], words: str, split: dict[str, Any]) -> None:
    found = servetwin.run(split | {"disaggregation": policy}).summary()["warnings"]
    assert [text for text in found if words in text and text.endswith("(check decider-never-reached)")]


# -- policies of one's own -----------------------------------------------------------------------------------------


class Own(SplitPolicy):
    """Answers what it is told to, or asks the view for something first. Source: none."""

    policy: Literal["own"] = "own"
    answer: str = SPLIT
    asks: str = ""

    def build(self, context: PolicyContext) -> OwnDecider:
        return OwnDecider(self.answer, self.asks)


class OwnDecider:
    def __init__(self, answer: str, asks: str) -> None:
        self.answer: Any = 7 if answer == "7" else answer
        self.asks = asks

    def decide(self, request: Request, view: SplitView) -> str:
        if self.asks:
            getattr(view, self.asks)(request)
        found: str = self.answer
        return found


class Reader(Own):
    """Reads the cache. Source: none."""

    policy: Literal["reader"] = "reader"  # type: ignore[assignment]
    reads_cache: ClassVar[bool] = True
    predicts: ClassVar[bool] = True


@pytest.fixture(autouse=True)
def own_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**registry._POLICIES["disaggregation"], "own": Own, "reader": Reader}
    monkeypatch.setitem(registry._POLICIES, "disaggregation", known)


@pytest.mark.parametrize("answer", ["mixed", "nothing", "", "7", "reject"])
def test_an_answer_that_there_is_not(answer: str, split: dict[str, Any]) -> None:
    """Nobody does both here, and a rejection has a reason."""
    with pytest.raises(ScenarioError, match="the disaggregation policy 'own' decides on what there is not") as caught:
        servetwin.run(split | {"disaggregation": {"policy": "own", "answer": answer}})
    assert caught.value.found == f"decide returned {'7' if answer == '7' else repr(answer)}"
    assert caught.value.allowed == "'split', 'local', or 'reject: ' and a reason"


@pytest.mark.parametrize("asks", ["cached_tokens", "ttft_ps", "tpot_ps"])
def test_whoever_asks_must_say_so(asks: str, split: dict[str, Any]) -> None:
    """The gateway keeps no books that nobody has announced to read."""
    with pytest.raises(TypeError, match="must say so"):
        servetwin.run(split | {"disaggregation": {"policy": "own", "asks": asks}})
    policy = {"policy": "reader", "asks": asks, "answer": LOCAL, "order": "decode-first"}
    assert servetwin.run(split | {"disaggregation": policy}).summary()["completed"] == 20
    with pytest.raises(ScenarioError, match="asks what the decoding replica has cached"):
        servetwin.run(split | {"disaggregation": policy | {"order": "prefill-first"}})


def test_each_router_is_asked_once(split: dict[str, Any], tmp_path: Path) -> None:
    """With ``decode-first`` the replica that was chosen before the decision is the one that decodes."""
    split["cluster"]["pools"] = [{**pool, "replicas": 3} for pool in POOLS]
    split["router"] = "round-robin"
    for policy in (
        {"policy": "always", "order": "decode-first"},
        {"policy": "reader", "answer": LOCAL, "order": "decode-first"},
        {"policy": "uncached-length", "tokens": 1},
    ):
        table = servetwin.run(validate_mapping(split | {"disaggregation": policy})).requests()
        assert table["replica"].tolist() == [3 + number % 3 for number in range(20)]
