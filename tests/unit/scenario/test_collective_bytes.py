"""What collectives send over each link in a whole run, against formulas written out here, step by step."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import servetwin
from servetwin.results import Result
from servetwin.scenario.build import build
from servetwin.scenario.load import validate_mapping

LAYERS, HIDDEN, VOCABULARY = 80, 8192, 128_256
"""Of Llama 3.1 70B; two bytes for each value that is exchanged."""

GRAPHS = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]


def scenario(parallel: dict[str, int], **topology: Any) -> dict[str, Any]:
    return {
        "name": "bytes",
        "model": "llama-3.1-70b",
        "engine": {"name": "vllm", "version": "0.15"},
        "cluster": {"hardware": "h100-sxm", "parallel": parallel, "topology": topology},
        "workload": {"arrivals": {"process": "poisson", "rate_per_s": 20}, "prompts": 400, "outputs": 30},
        "run": {"requests": 60},
    }


class Step(NamedTuple):
    """Tokens, prompt tokens among them, rows of logits; tokens with the padding of the captured graph."""

    tokens: int
    prefill: int
    rows: int
    padded: int


def steps(result: Result) -> Iterator[Step]:
    """Every step of the run. All prompts have 400 tokens and none is cut, so prompt tokens tell how many there are."""
    for chunk in result.segments.store:
        names = ("count", "tokens", "prefill_tokens", "decodes")
        for count, tokens, prefill, decodes in zip(*(chunk[name].tolist() for name in names), strict=True):
            assert prefill % 400 == 0
            padded = next((size for size in GRAPHS if size >= tokens), tokens)
            for _ in range(count):
                yield Step(tokens, prefill, decodes + prefill // 400, padded)


def carried(result: Result) -> dict[str, int]:
    """By link, the bytes of collectives."""
    links = result.links()
    assert not links["transfer_bytes_per_s"].any()
    return {str(name): int(total) for name, total in links.groupby("link")["collective_bytes"].sum().items()}


def ports(gpus: range, node: int = 0, kind: str = "link") -> set[str]:
    return {f"node{node}/gpu{gpu}/{kind}-{way}" for gpu in gpus for way in ("out", "in")}


def test_tensor_parallel_in_one_node() -> None:
    """A ring of four: of every all-reduce 2 · 3/4, of every gather 3/4 out of and into each GPU."""
    result = servetwin.run(scenario({"tensor": 4}))
    each = sum(
        2 * LAYERS * 2 * 3 * (2 * step.padded * HIDDEN) // 4 + 3 * (2 * step.rows * VOCABULARY) // 4
        for step in steps(result)
    )
    assert carried(result) == dict.fromkeys(ports(range(4)), each)
    rows = result.links()
    summed = (rows["collective_bytes_per_s"] * (rows["end_s"] - rows["start_s"])).groupby(rows["link"]).sum()
    assert summed.to_numpy() == pytest.approx(each)
    assert result.summary()["links"]["link"]["mean"] == pytest.approx(each / 450e9 / result.summary()["simulated_s"])


@pytest.mark.parametrize("controller", ["fixed", {"policy": "by-batch-size", "ranges": [[1, 4, 3], [5, 999, 1]]}])
def test_a_drafter_that_is_shared_out_sends_what_a_model_of_one_layer_sends(controller: Any) -> None:
    """A pass over the tokens of the step and K − 1 over its requests, whose graphs hold multiples of four tokens."""
    given = scenario({"tensor": 4})
    given["cluster"]["speculation"] = {"method": "eagle3", "k": 3, "acceptance": 0.6, "controller": controller}
    result = servetwin.run(given)
    graphs = [4, *GRAPHS[3:]]
    chosen = result.choices
    times, numbers = chosen._time_ps.tolist(), chosen._k.tolist()
    assert len(set(numbers)) == (1 if controller == "fixed" else 2)
    each = 0
    names = ("start_ps", "tokens", "prefill_tokens", "decodes", "drafted", "count")
    for row in (
        row for chunk in result.segments.store for row in zip(*(chunk[name].tolist() for name in names), strict=True)
    ):
        start, tokens, prefill, decodes, drafted, count = row
        assert count == 1
        requests = decodes + prefill // 400
        drafts = numbers[bisect_right(times, start) - 1]
        padded = next((size for size in graphs if size >= tokens), tokens)
        layers = [(LAYERS, padded), (1, padded)]
        layers += [(1, next(size for size in graphs if size >= requests))] * (drafts - 1)
        logits = [(VOCABULARY, requests + drafted)] + [(32_000, requests)] * drafts
        each += sum(2 * count * 2 * 3 * (2 * padded * HIDDEN) // 4 for count, padded in layers)
        each += sum(3 * (2 * rows * words) // 4 for words, rows in logits)
    assert carried(result) == dict.fromkeys(ports(range(4)), each)


def test_tensor_parallel_over_two_nodes() -> None:
    """Sixteen GPUs: by size a tree, a ring, or shards between the nodes; written out for each."""
    given = scenario({"tensor": 16}, nodes=2) | {"model": "llama-3.1-405b"}
    given["workload"] = given["workload"] | {"outputs": 10}
    result = servetwin.run(given)
    layers, hidden = 126, 16_384
    simulation = build(validate_mapping(given))
    # As the replica lies; the others are as if all GPUs were in one domain.
    prices = simulation.prices[-1]
    seen: Counter[str] = Counter()
    port = nic = 0.0
    for step in steps(result):
        message, logits = 2 * step.padded * hidden, 2 * step.rows * VOCABULARY
        how = prices.links.reduce.route(message)
        seen[how] += 1
        # Both ways up and down two trees with half of the message each, every byte with one of flags.
        inside, outside = {
            "ring": (7 / 8 * 30 / 16, 30 / 16 / 8),
            "tree": (7 / 8 * 2 * 2, 2 / 8),
            "hierarchical-ring": (7 / 8 * 2, 1 / 8),
            "hierarchical-tree": (7 / 8 * 2, 2 / 8),
        }[how]
        twice = 2 if prices.links.gather.algorithm(logits) == "ring-ll" else 1
        port += 2 * layers * inside * message + twice * 7 / 8 * 15 / 16 * logits
        nic += 2 * layers * outside * message + twice * 15 / 16 / 8 * logits
    assert len(seen) > 1
    found = carried(result)
    assert found.keys() == {
        name for node in (0, 1) for kind in ("link", "nic") for name in ports(range(8), node, kind)
    }  # fmt: skip
    for name, total in found.items():
        # Each kind of collectives of a step is rounded to whole bytes.
        assert total == pytest.approx(port if "/link-" in name else nic, abs=2 * sum(seen.values())), name


def test_pipeline_over_two_nodes() -> None:
    """Half of the layers on each node; every rank hands on its slice to the same rank of the other, one way."""
    given = scenario({"tensor": 8, "pipeline": 2}, nodes=2)
    result = servetwin.run(given)
    stages, nic = [0, 0], 0
    for step in steps(result):
        message = 2 * step.padded * HIDDEN
        for stage in (0, 1):
            stages[stage] += LAYERS * 2 * 7 * message // 8
        # Hidden states and residual; the second stage gathers the slices, and the logits.
        nic += 2 * message // 8
        stages[1] += 7 * 2 * message // 8 + 7 * 2 * step.rows * VOCABULARY // 8
    expected = {name: stages[node] for node in (0, 1) for name in ports(range(8), node)}
    expected |= {f"node{node}/gpu{gpu}/nic-{way}": nic for gpu in range(8) for node, way in ((0, "out"), (1, "in"))}
    assert carried(result) == expected


def test_pipeline_in_one_node() -> None:
    """One GPU a stage: hand-offs alone, each out of one port and into the next."""
    given = scenario({"pipeline": 4}) | {"model": "llama-3.1-8b"}
    result = servetwin.run(given)
    sent = sum(2 * 2 * step.padded * 4096 for step in steps(result))
    assert carried(result) == {
        **{f"node0/gpu{gpu}/link-out": sent for gpu in (0, 1, 2)},
        **{f"node0/gpu{gpu}/link-in": sent for gpu in (1, 2, 3)},
    }


def test_context_groups() -> None:
    """Two groups of four: each computes half of every prompt, and has the keys and values of the other half sent."""
    result = servetwin.run(scenario({"tensor": 4, "context": 2}))
    each = 0
    for step in steps(result):
        own = step.prefill // 2
        message = 2 * (step.padded - step.prefill + own) * HIDDEN
        each += 2 * LAYERS * 2 * 3 * message // 4 + 3 * 2 * step.rows * VOCABULARY // 4
        # Of eight key heads of 128 values a rank has two, keys and values in two bytes each.
        each += LAYERS * own * (2 * 128) * 2 * 2
    assert carried(result) == dict.fromkeys(ports(range(8)), each)


def test_over_the_spine() -> None:
    """Two racks of a node each: what goes over the NICs goes over the links of the leaves."""
    result = servetwin.run(scenario({"tensor": 16}, nodes=2, nodes_per_rack=1) | {"model": "llama-3.1-405b"})
    found = carried(result)
    nic = {total for name, total in found.items() if "/nic-" in name}
    spine = {total for name, total in found.items() if "/spine-" in name}
    assert len(nic) == len(spine) == 1
    # Each is rounded for itself: twice a step at most.
    assert spine.pop() == pytest.approx(8 * nic.pop(), abs=9 * result.summary()["steps"])
    assert {name for name in found if "spine" in name} == {
        f"rack{rack}/spine-{way}" for rack in (0, 1) for way in ("up", "down")
    }  # fmt: skip


def test_over_pcie() -> None:
    """Four L40S without NVLink: one domain each, joined by PCIe."""
    given = scenario({"tensor": 4}) | {"model": "llama-3.1-8b"}
    given["cluster"] = given["cluster"] | {"hardware": "l40s", "engine": {"max_model_len": 2048}}
    result = servetwin.run(given)
    assert carried(result).keys() == ports(range(4), kind="pcie")


@pytest.mark.parametrize(
    ("parallel", "topology"),
    [
        ({"tensor": 8}, {"nodes": 2, "placement": {"explicit": [[0, 1], [0, 1]]}, "nodes_per_rack": 1,
                         "background": [{"from": 0, "to": 1, "gigabytes": 0.3, "every_s": 0.007}]}),
        ({"tensor": 8, "pipeline": 2}, {"nodes": 4}),
        ({"tensor": 4, "context": 2}, {}),
    ],
)  # fmt: skip
def test_the_stepping_levels_agree(parallel: dict[str, int], topology: dict[str, Any], tmp_path: Path) -> None:
    """To the byte of the file."""
    given = scenario(parallel, **topology)
    given["cluster"]["replicas"] = 2
    written = []
    for level in ("skip-ahead", "every-step", "every-operation"):
        servetwin.run(given, out=tmp_path / level, run__stepping=level, run__requests=40)
        written.append((tmp_path / level / "links.parquet").read_bytes())
    assert written[0] == written[1] == written[2]


def test_only_the_links_that_count_as_shared_carry_anything() -> None:
    given = scenario({"tensor": 8}, nodes=2, nodes_per_rack=1, placement={"explicit": [[0, 1], [0, 1]]})
    given["cluster"]["replicas"] = 2
    layout = build(validate_mapping(given)).network.layout
    topology = layout.topology
    shared = {topology.links[link].name for gpus in layout.placed for link in topology.collective_links(gpus)}
    assert carried(servetwin.run(given)).keys() == shared


def test_a_replica_alone_on_its_gpu_sends_nothing() -> None:
    given = scenario({"tensor": 1}) | {"model": "llama-3.1-8b"}
    simulation = build(validate_mapping(given))
    assert simulation.exchanges == [] and not simulation.recorder.wants_chunks
    result = servetwin.run(given)
    assert result.links().empty and result.summary()["links"] == {}


def test_without_a_topology_there_are_no_links() -> None:
    given = scenario({"tensor": 4})
    del given["cluster"]["topology"]
    result = servetwin.run(given)
    assert result.links().empty and result.summary()["links"] == {}


def test_intervals_are_few_and_lie_next_to_each_other() -> None:
    links = servetwin.run(scenario({"tensor": 4}), run__requests=200).links()
    for _, rows in links.groupby("link"):
        assert len(rows) <= 2000
        assert (rows["start_s"].to_numpy()[1:] == rows["end_s"].to_numpy()[:-1]).all()
        assert (rows["utilisation"] <= 1).all()
        # All of one width, a round one, but for the last; what is idle is one interval.
        widths = np.rint(np.diff(rows["start_s"].to_numpy()) * 1e12).astype(np.int64)
        assert not (widths % widths.min()).any()
        assert int(str(widths.min()).rstrip("0")) in (1, 2, 5)


def test_tensor_groups_that_lie_differently() -> None:
    """All are priced like that with the fewest NICs abreast: no NIC has more to carry than that time allows."""
    parts = [(0, 3), (1, 3), (2, 2), (3, 7), (4, 1)]
    gpus = [[node, gpu] for node, count in parts for gpu in range(count)]
    given = scenario({"tensor": 8, "pipeline": 2}, node="dgx-a100", nodes=5, placement={"explicit": [gpus]})
    given["cluster"] |= {"hardware": "a100-sxm-80gb", "engine": {"max_num_batched_tokens": 16384}}
    given["workload"] = given["workload"] | {"prompts": 8000}
    result = servetwin.run(given, run__requests=20)
    found = carried(result)
    # The second group has one ring through one NIC of each node; the first has two.
    assert {name for name in found if name.endswith("nic-out") and "node3" in name} >= {"node3/gpu0/nic-out"}
    assert result.summary()["links"]["nic"]["link"].startswith(("node3/gpu0/", "node4/gpu0/"))
    assert result.summary()["links"]["nic"]["max"] <= 1
