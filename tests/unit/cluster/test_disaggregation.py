"""What a hand-over takes, and that none loses a request."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.reference.naive_fabric import Transfer, arrivals

from servetwin.catalog.find import Catalog
from servetwin.results.result import Result
from servetwin.scenario.build import Simulation, build
from servetwin.scenario.load import validate_mapping
from servetwin.units import PS_PER_S

PS_PER_MS = PS_PER_S // 1000


LONG = {"arrivals": {"rate_per_s": 60}, "prompts": {"distribution": "uniform", "min": 100, "max": 1500},
        "outputs": {"distribution": "uniform", "min": 20, "max": 80}}  # fmt: skip


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """With a calibration ``free``, where the front end and the output cost nothing."""
    folder = tmp_path_factory.mktemp("catalog")
    text = (Path(__file__).parents[3] / "hardware_profiles/calibrations/default.yaml").read_text()
    for field in ("per_request", "per_prompt_token"):
        text = re.sub(rf"(front_end:(?:\n +\S.*)*?\n +{field}:) \S+ \S+", r"\1 0 us", text)
    text = re.sub(r"(output:(?:\n +\S.*)*?\n +per_request:) \S+ \S+", r"\1 0 us", text)
    text = text.replace("name: default", "name: free").replace("aliases: [vllm, vllm-0.15]\n", "")
    (folder / "calibrations").mkdir()
    (folder / "calibrations" / "free.yaml").write_text(text)
    return Catalog([folder])


def scenario(
    transfer: dict[str, Any] | None = None, *, prompts: Any = 1000, outputs: Any = 20, requests: int = 1,
    prefill: dict[str, Any] | None = None, decode: dict[str, Any] | None = None, **other: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "model": "llama-3.1-8b",
        "cluster": {
            "hardware": "h100-sxm",
            "pools": [
                {"name": "prefill", "role": "prefill", **(prefill or {})},
                {"name": "decode", "role": "decode", **(decode or {})},
            ],
            "transfer": transfer or {},
        },
        "workload": {"arrivals": {"process": "bursts", "size": requests, "interval_s": 1000}, "prompts": prompts,
                     "outputs": outputs},
        "run": {"requests": requests},
    } | other  # fmt: skip


def run(
    mapping: dict[str, Any], catalog: Catalog | None = None, prepare: Callable[[Simulation], None] = lambda _: None
) -> tuple[Simulation, Result]:
    """Build and run with every account checked; blocks are all free in the end."""
    simulation = build(validate_mapping(mapping, catalog), catalog=catalog, strict=True)
    prepare(simulation)
    end_ps = simulation.cluster.run()
    cluster = simulation.cluster
    result = simulation.recorder.result(
        end_ps=end_ps, ledgers=cluster.ledger(end_ps), events=cluster.events, steps=cluster.steps
    )
    for replica in cluster.replicas:
        rank = replica.executor.rank
        assert rank.pool.free == rank.pool.total
        assert not rank.kept and not rank.aside and not rank.tokens_held and not rank.generated
    assert simulation.network.fabric is not None
    simulation.network.fabric.audit()
    return simulation, result


def columns(result: Result, *names: str) -> list[list[int]]:
    return [result.table.column(name).tolist() for name in names]


# -- limits -----------------------------------------------------------------------------------------------------------


def aggregated(mapping: dict[str, Any]) -> dict[str, Any]:
    cluster = {key: value for key, value in mapping["cluster"].items() if key not in ("pools", "transfer")}
    return {**mapping, "cluster": cluster}


@pytest.mark.parametrize("mode", ["pull", "stream", "push"])
@pytest.mark.parametrize("prompt", [1, 15, 16, 17, 1000, 1024, 20_000])
def test_free_hand_over_takes_the_time_of_an_aggregated_engine(mode: str, prompt: int, catalog: Catalog) -> None:
    """With a link that takes no time and ``first_token: prefill``, the first token comes as from an idle engine."""
    physics = {"calibration": "free"}
    split = scenario({"mode": mode, "link": "instant", "first_token": "prefill"}, prompts=prompt, physics=physics)
    _, result = run(split, catalog)
    _, whole = run_whole(aggregated(split), catalog)
    assert columns(result, "first_token_ps") == columns(whole, "first_token_ps")


@pytest.mark.parametrize("mode", ["pull", "stream", "push"])
@pytest.mark.parametrize("prompt", [2, 15, 16, 17, 1000, 1024, 20_000])
def test_a_regenerated_first_token_takes_one_decode_step_more(mode: str, prompt: int, catalog: Catalog) -> None:
    """With ``first_token: decode`` and nothing else to pay, it is exactly a step of one request over its prompt."""
    physics = {"calibration": "free"}
    split = scenario({"mode": mode, "link": "instant", "first_token": "decode"}, prompts=prompt, physics=physics)
    simulation, result = run(split, catalog)
    _, whole = run_whole(aggregated(split), catalog)
    decode = simulation.cluster.replicas[1].executor.rank.steps._decode_price(1)
    step_ps = decode[1] + decode[2] * prompt + decode[3] + decode[4] * prompt + decode[6]
    (first,), (whole_first,) = columns(result, "first_token_ps"), columns(whole, "first_token_ps")
    assert first[0] == whole_first[0] + step_ps


def run_whole(mapping: dict[str, Any], catalog: Catalog) -> tuple[Simulation, Result]:
    simulation = build(validate_mapping(mapping, catalog), catalog=catalog)
    end_ps = simulation.cluster.run()
    cluster = simulation.cluster
    ledgers = cluster.ledger(end_ps)
    return simulation, simulation.recorder.result(end_ps=end_ps, ledgers=ledgers, events=0)


# -- what is moved, and how long that takes ---------------------------------------------------------------------------


def test_a_pull_takes_setup_latency_and_bytes_over_bandwidth() -> None:
    """Llama-3.1-8B has 128 KiB a token; 1,000 tokens are 63 blocks of 16; over NVLink 0.78 of 450 GB/s get through."""
    _, result = run(scenario({"setup_ms": 2}))
    (start,), (end,), (moved,) = (result.hand_overs.column(n).tolist() for n in ("start_ps", "end_ps", "moved_bytes"))
    assert moved == 63 * 16 * 128 * 1024
    wire = -(-moved // 0.78)
    seconds = 2e-3 + 10e-6 + wire / 450e9
    assert (end - start) / PS_PER_S == pytest.approx(seconds, rel=1e-9)


def test_the_tokens_that_the_decoding_replica_has_are_not_sent() -> None:
    """The second request of a prefix group finds the prefix where the first has decoded."""
    mapping = scenario(prompts=100, requests=2)
    mapping["workload"] |= {
        "prefixes": {"groups": 1, "tokens": 320},
        "arrivals": {"process": "constant", "rate_per_s": 1},
    }
    _, result = run(mapping)
    moved, found = (result.hand_overs.column(name).tolist() for name in ("moved_bytes", "found_tokens"))
    assert found == [0, 320]
    assert moved[0] - moved[1] == 320 * 128 * 1024


@pytest.mark.parametrize("mode", ["stream", "push"])
def test_layers_are_sent_while_others_are_computed(mode: str) -> None:
    """Exposed is the last layer, and what the link is slower than the prefill."""
    prompt, layers, each = 8000, 32, 128 * 1024
    _, result = run(scenario({"mode": mode, "setup_ms": 0, "link": "ib-ndr-400"}, prompts=prompt))
    (done,), (scheduled,) = columns(result, "prefill_done_ps", "scheduled_ps")
    (start,), (end,) = (result.hand_overs.column(name).tolist() for name in ("start_ps", "end_ps"))
    wire_s = prompt * each / (0.72 * 50e9)
    prefill_s = (done - scheduled) / PS_PER_S
    exposed = max(0.0, wire_s - prefill_s * (layers - 1) / layers - wire_s / layers) + wire_s / layers
    if mode == "stream":
        assert start < done
        assert (end - done) / PS_PER_S == pytest.approx(exposed, rel=0.01)
    else:
        # From CPU memory over PCIe 5, after the request has come to the decoding replica.
        assert end > done + prompt * each / 64e9 * PS_PER_S


@pytest.mark.parametrize("copies", [2, 3, 5])
def test_transfers_share_the_link_fairly(copies: int) -> None:
    """So many equal prompts are prefilled in one step, and their transfers take so many times as long."""
    _, one = run(scenario({"link": "ethernet-25", "setup_ms": 0}, prompts=200))
    _, many = run(scenario({"link": "ethernet-25", "setup_ms": 0}, prompts=200, requests=copies))
    (start,), (end,) = (one.hand_overs.column(name).tolist() for name in ("start_ps", "end_ps"))
    starts, ends = (many.hand_overs.column(name).tolist() for name in ("start_ps", "end_ps"))
    assert len(set(starts)) == 1 and len(set(ends)) == 1
    latency_ps = 50_000_000
    assert ends[0] - starts[0] - latency_ps == pytest.approx(copies * (end - start - latency_ps), abs=copies)


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("topology", [False, True])
def test_staggered_transfers_take_what_max_min_sharing_says(replicas: int, topology: bool) -> None:
    """To the picosecond, by an independent account in fractions; and no link carries more than it can."""
    mapping = scenario({"setup_ms": 0} if topology else {"setup_ms": 0, "link": "ethernet-25"}, requests=40,
                       prefill={"replicas": replicas}, decode={"replicas": replicas}, workload=LONG)  # fmt: skip
    mapping["workload"] = LONG | {"arrivals": {"rate_per_s": 40}}
    if topology:
        # Each replica on a server of its own; prefilling and decoding ones in racks of their own.
        mapping["cluster"]["topology"] = {
            "nodes": 2 * replicas, "placement": {"explicit": [[[node, 0]] for node in range(2 * replicas)]},
            "nodes_per_rack": replicas, "oversubscription": 4, "nic": "ethernet-25",
        }  # fmt: skip
    simulation, result = run(mapping)
    fabric, ways = simulation.network.fabric, simulation.network.ways
    assert fabric is not None and ways is not None
    table = result.hand_overs
    names = ("source", "target", "start_ps", "end_ps", "moved_bytes")
    rows = list(zip(*(table.column(name).tolist() for name in names), strict=True))
    flows = []
    for source, target, start, _, moved in rows:
        (leg,) = ways.legs(source, target)
        flows.append(Transfer(start, leg.path, math.ceil(moved / leg.efficiency)))
    capacities = {link.index: link.bytes_per_s for link in fabric.links}
    latencies = {link.index: link.latency_ps for link in fabric.links}
    assert arrivals(flows, capacities, latencies) == [row[3] for row in rows]
    for link in fabric.links:
        assert all(rate <= link.bytes_per_s for rate in link.change_rates)


def test_the_blocks_of_a_prefill_are_kept_until_they_are_fetched() -> None:
    """While the slow link sends, nothing else fits into the prefilling replica: the second prefill waits for it."""
    mapping = scenario({"link": "ethernet-25"}, prompts=1000, requests=2, prefill={"engine": {
        "num_gpu_blocks_override": 70, "max_model_len": 1100}})  # fmt: skip
    _, result = run(mapping)
    kept, freed, ends = (result.hand_overs.column(name).tolist() for name in ("kept_ps", "freed_ps", "end_ps"))
    (scheduled,) = columns(result, "scheduled_ps")
    assert freed == ends
    assert kept[0] < freed[0] == scheduled[1]
    row = result.ledger()["pools"]["prefill"]["seconds"]
    assert row["transfer_wait"] == pytest.approx((freed[0] - kept[0]) / PS_PER_S, rel=1e-6)


# -- nothing is lost --------------------------------------------------------------------------------------------------


def outcomes(result: Result) -> dict[str, int]:
    return {name: int(result.table.with_outcome(name).sum()) for name in ("completed", "failed", "rejected")}


@pytest.mark.parametrize("mode", ["pull", "stream", "push"])
@pytest.mark.parametrize("first_token", ["prefill", "decode"])
def test_a_full_decoding_replica_loses_nobody(mode: str, first_token: str) -> None:
    mapping = scenario({"mode": mode, "first_token": first_token}, prompts=500, outputs=100, requests=30, decode={
        "engine": {"num_gpu_blocks_override": 80, "max_model_len": 700}})  # fmt: skip
    _, result = run(mapping)
    assert outcomes(result) == {"completed": 30, "failed": 0, "rejected": 0}
    assert result.summary()["output_tokens"] == 3000


@pytest.mark.parametrize("mode", ["pull", "stream", "push"])
def test_a_failed_transfer_is_begun_again_then_computed_again(mode: str) -> None:
    transfer = {"mode": mode, "failure_rate": 0.5, "retries": 1, "retry_after_ms": 2}
    _, result = run(scenario(transfer, requests=40))
    assert outcomes(result)["completed"] == 40
    attempts = result.hand_overs.column("attempts").tolist()
    lost = result.hand_overs.column("end_ps") < 0
    assert {1, 2} == set(attempts) and 0 < lost.sum() < 40
    (again,) = columns(result, "recomputed_tokens")
    assert [tokens > 0 for tokens in again] == lost.tolist()
    assert result.ledger()["total"]["seconds"]["recompute"] > 0


@pytest.mark.parametrize("mode", ["pull", "stream", "push"])
def test_a_failed_transfer_may_fail_the_request(mode: str) -> None:
    _, result = run(scenario({"mode": mode, "failure_rate": 0.5, "on_failure": "fail"}, requests=40))
    found = outcomes(result)
    assert found["completed"] + found["failed"] == 40 and 5 < found["failed"] < 35
    reasons = {result.table.names(2)[code] for code in result.table.column("label").tolist()} - {""}
    assert reasons == {"the transfer of its KV cache has failed"}


@pytest.mark.parametrize("on_failure", ["recompute", "fail"])
def test_a_lease_that_expires_loses_nobody(on_failure: str) -> None:
    """The decoding replica is full for longer than the prefilling one keeps the blocks."""
    mapping = scenario({"lease_s": 0.05, "on_failure": on_failure}, prompts=500, outputs=100, requests=30, decode={
        "engine": {"num_gpu_blocks_override": 80, "max_model_len": 700}})  # fmt: skip
    _, result = run(mapping)
    table = result.hand_overs
    expired = (table.column("start_ps") < 0) & (table.column("kept_ps") >= 0)
    assert expired.sum() > 5
    kept, freed = table.column("kept_ps")[expired], table.column("freed_ps")[expired]
    assert set((freed - kept).tolist()) == {50 * PS_PER_MS}
    found = outcomes(result)
    assert found["completed" if on_failure == "recompute" else "failed"] >= expired.sum()
    assert sum(found.values()) == 30


def test_replicas_that_wait_for_each_other_are_freed_by_the_lease() -> None:
    """A prefilling replica full of kept blocks, and a decoding one whose queue waits for more than there is."""
    mapping = scenario({"lease_s": 2}, prompts={"distribution": "uniform", "min": 100, "max": 1000}, outputs=30,
                       requests=30, prefill={"engine": {"num_gpu_blocks_override": 70, "max_model_len": 1100}},
                       decode={"engine": {"num_gpu_blocks_override": 70, "max_model_len": 1100}})  # fmt: skip
    _, result = run(mapping)
    assert outcomes(result)["completed"] == 30


def test_requests_too_long_for_either_side_are_rejected_with_the_reason() -> None:
    small = {"engine": {"num_gpu_blocks_override": 70, "max_model_len": 1100}}
    for pools in ({"prefill": small}, {"decode": small}):
        _, result = run(scenario(prompts=1200, outputs=10, **pools))
        assert outcomes(result)["rejected"] == 1
        assert "max_model_len 1100" in result.table.names(2)[0]


def test_a_hand_over_at_the_end_of_a_run_is_recorded_as_unfinished() -> None:
    simulation = build(validate_mapping(scenario({"link": "ethernet-25"}, prompts=4000)), strict=True)
    end_ps = simulation.cluster.run(300 * PS_PER_MS)
    cluster = simulation.cluster
    result = simulation.recorder.result(end_ps=end_ps, ledgers=cluster.ledger(end_ps), events=0)
    frame = result.requests()
    assert frame["outcome"].tolist() == ["unfinished"]
    assert frame["transfer_start_s"].notna().all() and frame["transfer_end_s"].isna().all()
    assert frame["prefill_done_s"].notna().all()


def leaving(
    replica: int, *, mode: str = "pull", first_token: str = "decode", at_s: float = 0.3, **transfer: Any
) -> Any:
    """60 requests over two replicas of each role, one of which leaves in the middle of transfers."""
    mapping = scenario(
        {"mode": mode, "first_token": first_token, "link": "ethernet-25", **transfer}, requests=60,
        prefill={"replicas": 2}, decode={"replicas": 2}, workload=LONG,
    )  # fmt: skip
    mapping["cluster"]["departures"] = [{"replica": replica, "at_s": at_s}]
    return mapping


@pytest.mark.parametrize(
    ("mode", "order"),
    [("pull", "prefill-first"), ("pull", "decode-first"), ("stream", "prefill-first"), ("push", "prefill-first")],
)
@pytest.mark.parametrize("first_token", ["prefill", "decode"])
@pytest.mark.parametrize("replica", [0, 3])
def test_a_replica_that_leaves_in_mid_transfer_loses_nobody(
    mode: str, first_token: str, replica: int, order: str
) -> None:
    mapping = leaving(replica, mode=mode, first_token=first_token)
    _, result = run(mapping | {"disaggregation": {"policy": "always", "order": order}})
    assert outcomes(result) == {"completed": 60, "failed": 0, "rejected": 0}
    (recomputed,) = columns(result, "recomputed_tokens")
    assert any(recomputed)
    pools = result.ledger()["pools"]
    assert pools["prefill" if replica == 0 else "decode"]["seconds"]["down"] > 0
    assert pools["decode" if replica == 0 else "prefill"]["seconds"]["down"] == 0


@pytest.mark.parametrize("replica", [0, 3])
def test_a_replica_that_leaves_may_fail_requests(replica: int) -> None:
    _, result = run(leaving(replica, on_failure="fail"))
    found = outcomes(result)
    assert found["failed"] > 0 and found["completed"] + found["failed"] == 60


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_the_last_replica_of_a_role_leaves(role: str) -> None:
    """Without a prefilling replica the decoding ones do both; without a decoding one everything under way fails."""
    mapping = leaving(0)
    first = 0 if role == "prefill" else 2
    mapping["workload"] = LONG | {"arrivals": {"rate_per_s": 300}}
    at_s = 0.15 if role == "prefill" else 2.0
    mapping["cluster"]["departures"] = [{"replica": first + each, "at_s": at_s} for each in (0, 1)]
    _, result = run(mapping)
    found = outcomes(result)
    assert sum(found.values()) == 60 and found["completed"] > 0
    reasons = {result.table.names(2)[code] for code in result.table.column("label").tolist()} - {""}
    assert reasons == {"no replica is left"}
    if role == "prefill":
        assert found["completed"] > found["failed"]


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_without_one_side_the_mixed_pool_takes_over_from_the_other(role: str) -> None:
    """Without prefilling replicas the decoding ones do both; without decoding ones those that do both anyway."""
    mapping = leaving(0)
    mapping["cluster"]["pools"].append({"name": "mixed"})
    mapping["disaggregation"] = "mixed-overflow"
    first = 0 if role == "prefill" else 2
    mapping["cluster"]["departures"] = [{"replica": first + each, "at_s": 0.3, "drain": True} for each in (0, 1)]
    _, result = run(mapping)
    (replicas,), (routed,) = [columns(result, "replica")], [columns(result, "routed_ps")]
    late = {replica for replica, at in zip(replicas[0], routed[0], strict=True) if at > 0.5 * PS_PER_S}
    assert late == ({2, 3} if role == "prefill" else {4})


def test_a_replica_that_drains_ends_what_it_has() -> None:
    mapping = leaving(3)
    mapping["cluster"]["departures"] = [{"replica": 3, "at_s": 0.3, "drain": True}]
    _, result = run(mapping)
    assert outcomes(result)["completed"] == 60
    (replicas,), (routed,) = [columns(result, "replica")], [columns(result, "routed_ps")]
    assert not any(columns(result, "recomputed_tokens")[0])
    late = [replica for replica, at in zip(replicas[0], routed[0], strict=True) if at > 0.5 * PS_PER_S]
    assert late and set(late) == {2}


@pytest.mark.parametrize("drain", [False, True])
def test_replicas_that_do_both_leave_too(drain: bool) -> None:
    mapping = aggregated(leaving(0))
    mapping["cluster"] |= {"replicas": 2, "departures": [{"replica": 1, "at_s": 0.4, "drain": drain}]}
    _, result = run_whole(mapping, None)
    assert outcomes(result)["completed"] == 60
    assert result.ledger()["total"]["seconds"]["down"] > 0 or drain
