"""Runs published with Mooncake: transfers between two servers, and separate workers against two regular ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import DRAWS, recorded_options, tensor_of
from servetwin.studies.validation.kinds.workers import Workers, apart
from servetwin.studies.validation.serving import parts_of
from servetwin.studies.validation.trial import NotYet, Point, Trial, metrics_of

CHAT_TEMPLATE = 8
"""Tokens that the chat template of Qwen3 puts around a prompt of one turn (its tokenizer_config.json). The client asks
for the nominal length and sends it to the chat endpoint; the sizes of KV cache that the source lists are one block of
16 tokens more than the nominal prompts have."""

SHORTEST = 0.5
"""Lengths are uniform from this share of the nominal ones to all of it: ``--random-range-ratio 0.5`` of SGLang's
bench_serving, as its examples have it. E2E less TTFT is 371 times ITL at a nominal output of 512 in both of the
source's runs at 1 request/s, and 0.73 of 50 times 512 tokens at the listed tokens per second take the 46 s that 50
requests do; its default of 0 would give 256."""

CHUNK = 8192
"""``--chunked-prefill-size`` of SGLang by default. Smaller chunks would show in more than 1 % of the gaps between
tokens, and the p99 of the source shows none."""

_NICS = {25: "ib-hdr-200", 50: "roce-400"}
"""Profiles by the bandwidth of a NIC [GB/s]."""

_CONFIGURATION = re.compile(r"(?P<prefill>\d+)P(?P<decode>\d+)D|(?P<regular>\d+)_regular")


def transfer_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """A run for each length of prompt: one client sends request after request to one worker of each kind."""
    tensor, _ = tensor_of(case)
    parts = parts_of(case, catalog, parallel={"tensor": tensor})
    parts.options = recorded_options(case)
    parts.flags.append(f"the chat template adds {CHAT_TEMPLATE} tokens to each prompt")
    arrival = str(case.need("workload", "arrival"))
    found = re.search(r"concurrency (\d+), (\d+) prompts", arrival)
    if found is None:
        raise case.error("a closed loop is expected", "workload", "arrival", found=arrival)
    clients, requests = int(found[1]), int(found[2])
    nic = _nic(case)
    prefill, decode = (
        Workers(int(case.number_at(f"{role}_workers")), {"tensor": tensor}) for role in ("prefill", "decode")
    )
    trials = []
    for stage, measured in case.measured.items():
        length = re.fullmatch(r"prompt_(\d+)", stage)
        if length is None:
            raise case.error("a stage is called prompt_TOKENS", "measured", stage)
        workload = {
            "arrivals": {"process": "closed-loop", "concurrency": clients},
            "prompts": int(length[1]) + CHAT_TEMPLATE,
            "outputs": int(case.number_at("workload", "output_tokens")),
            "sampling": "greedy",
        }
        scenario = apart(parts, f"{case.id}-{stage}", workload, requests, prefill=prefill, decode=decode)
        scenario["cluster"]["topology"] = {"nic": nic}
        trials.append(Trial(scenario, (Point(stage, metrics_of(measured)),), flags=tuple(parts.flags)))
    return trials


def _nic(case: Case) -> str:
    """The profile of the NIC of each GPU, from the bandwidth of all NICs of a server."""
    text = str(case.need("hardware"))
    found = re.search(r"(\d+)x CX-\d.*\((\d+) GB/s nominal\)", text)
    profile = _NICS.get(int(found[2]) // int(found[1])) if found else None
    if profile is None:
        raise NotYet(f"the catalogue has no NIC of {text!r}")
    return profile


def is_comparison(case: Case) -> bool:
    """Whether the stages of a case are deployments, such as ``1P1D`` and ``2_regular``."""
    return bool(case.measured) and all(_CONFIGURATION.fullmatch(stage) for stage in case.measured)


def comparison_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """A run for each deployment under the same load."""
    tensor, _ = tensor_of(case)
    parts = parts_of(case, catalog, parallel={"tensor": tensor})
    parts.options = {**recorded_options(case), "prefix_caching": False, "max_num_batched_tokens": CHUNK}
    parts.flags.append(f"lengths are uniform from {SHORTEST} to 1.0 of the nominal ones")
    stages = case.need("workload", "stages")
    if not isinstance(stages, list) or len(stages) != 1:
        raise case.error("one stage is expected", "workload", "stages", found=stages)
    rate, requests = stages[0].get("rate_rps"), stages[0].get("n_requests")
    if not isinstance(rate, (int, float)) or not rate > 0 or not isinstance(requests, int):
        raise case.error("a rate and a number of requests are expected", "workload", "stages", "0", found=stages[0])
    workload = {
        "arrivals": {"rate_per_s": float(rate)},
        "prompts": _lengths(case, "prompt_tokens"),
        "outputs": _lengths(case, "output_tokens"),
        "sampling": "greedy",
    }
    trials = []
    for stage, measured in case.measured.items():
        found = _CONFIGURATION.fullmatch(stage)
        assert found is not None
        flags = list(parts.flags)
        if found["regular"]:
            parts.replicas = int(found["regular"])
            flags.append("the balancer before the replicas is not recorded: at random")
            scenario: dict[str, Any] = parts.scenario(f"{case.id}-{stage}", workload, requests)
            scenario["router"] = {"policy": "random"}
        else:
            flags.append("the network between the servers is not recorded: one link domain stands for it")
            prefill, decode = (Workers(int(found[role]), {"tensor": tensor}) for role in ("prefill", "decode"))
            scenario = apart(parts, f"{case.id}-{stage}", workload, requests, prefill=prefill, decode=decode)
        point = Point(stage, metrics_of(measured), deployment=stage)
        trials.append(Trial(scenario, (point,), flags=tuple(flags), draws=DRAWS))
    return trials


def _lengths(case: Case, field: str) -> Mapping[str, Any]:
    nominal = int(case.number_at("workload", field))
    return {"distribution": "uniform", "min": max(1, round(SHORTEST * nominal)), "max": nominal}
