"""The scenario file: everything that a run depends on, validated, frozen, unknown keys refused.

A scenario as written may leave out what the engine decides by itself (``None``);
``servetwin.scenario.resolve`` fills it in. Physical figures carry their unit in the field's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeInt,
    SerializeAsAny,
    model_validator,
)

from servetwin.policies import Policy, parse_policy
from servetwin.policies.admission import Always
from servetwin.policies.routing import RoundRobin
from servetwin.policies.scheduling import FirstComeFirstServed
from servetwin.scenario.departures import Departure
from servetwin.scenario.part import MOST, Count, Part
from servetwin.scenario.slo import Slo
from servetwin.scenario.speculation import SpeculationOption
from servetwin.scenario.stragglers import Straggler
from servetwin.scenario.topology import TopologyOptions
from servetwin.scenario.transfer import TransferOptions
from servetwin.units import MAX_S
from servetwin.workload.spec import WorkloadSpec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_LONGEST_NAME = 100
"""A name is a part of file names, which file systems bound."""

Scheduling = Annotated[SerializeAsAny[Policy], BeforeValidator(partial(parse_policy, "scheduling"))]
Routing = Annotated[SerializeAsAny[Policy], BeforeValidator(partial(parse_policy, "routing"))]
Disaggregation = Annotated[SerializeAsAny[Policy], BeforeValidator(partial(parse_policy, "disaggregation"))]
AdmissionPolicy = Annotated[SerializeAsAny[Policy], BeforeValidator(partial(parse_policy, "admission"))]


def check_name(value: str) -> str:
    """A name that may be part of file names; raises ``ValueError`` for any other."""
    if not _NAME.fullmatch(value):
        raise ValueError("a name has letters, digits and _ . + - only, and starts with a letter or a digit")
    if len(value) > _LONGEST_NAME:
        raise ValueError(f"a name has at most {_LONGEST_NAME} characters; this one has {len(value):,}")
    return value


def name_of(stem: str) -> str:
    """The name of a scenario that has none, from that of its file.

    >>> name_of("my study (2)")
    'my-study-2'
    """
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", stem).strip("-_.+")[:_LONGEST_NAME] or "unnamed"


def _check_version(value: object) -> object:
    if isinstance(value, (int, float)):
        raise ValueError(
            'a version is text: write it in quotes, for 0.10 is the number 0.1: version: "0.15" in a file, '
            "--set 'engine.version=\"0.15\"' in a command"
        )
    if isinstance(value, str) and not re.fullmatch(r"\d{1,4}\.\d{1,4}(\.\d{1,4})?", value):
        raise ValueError('a version looks like "0.15" or "0.15.1"')
    return value


CALIBRATED = {"vllm": "0.15", "sglang": "0.5", "trtllm": "1.2"}
"""The version of each family that its constants were fitted to."""

Name = Annotated[str, AfterValidator(check_name)]
Replicas = Annotated[int, Field(ge=1, le=100_000)]
ModelReference = str | Mapping[str, Any]


class Engine(Part):
    """Which engine's rules and overheads.

    Attributes:
        name: the family of the engine: ``vllm``, or ``sglang`` and ``trtllm`` (TensorRT-LLM), which have overheads of
            their own but run by the rules of vLLM: an approximation.
        version: its version, which decides the defaults of vLLM; by default the one that was calibrated.
    """

    name: Literal["vllm", "sglang", "trtllm"] = "vllm"
    version: Annotated[str, BeforeValidator(_check_version)] = "0.15"

    @model_validator(mode="before")
    @classmethod
    def _calibrated_version(cls, data: Any) -> Any:
        """An engine that does not say its version has the one of its calibration."""
        if isinstance(data, Mapping) and data.get("version") is None:
            version = CALIBRATED.get(str(data.get("name", "vllm")))
            return data if version is None else {**data, "version": version}
        return data


class Physics(Part):
    """How steps are priced.

    Attributes:
        backend: ``roofline`` prices operators by the hardware's bounds and measured efficiencies, ``tables`` by the
            measurements of the optional package aiconfigurator-core.
        calibration: the set of global constants; by default that of the engine.
        jitter: coefficient of variation of a step's time; 0 = equal steps take equal time.
    """

    backend: Literal["roofline", "tables"] = "roofline"
    calibration: str | None = None
    jitter: float = Field(default=0.0, ge=0, le=1)


class Parallel(Part):
    """How a replica is spread over GPUs.

    Attributes:
        tensor: GPUs that share each layer.
        context: groups of ``tensor`` GPUs that share out the tokens of prompts (vLLM's prefill context parallelism).
        pipeline: groups of GPUs with the layers shared out among them, one behind the other; a replica has
            tensor × context × pipeline GPUs.
        uneven_heads: whether ``tensor`` need not divide the query heads, as vLLM demands.
    """

    tensor: Count = 1
    context: Count = 1
    pipeline: Count = 1
    uneven_heads: bool = False


class Precision(Part):
    """Number formats.

    Attributes:
        weights: of the weights; by default as the model's configuration says.
        kv_cache: of the KV cache; by default what the checkpoint asks for, else bf16.
    """

    weights: str | None = None
    kv_cache: str | None = None


class EngineOptions(Part):
    """The engine's settings, named as in vLLM where vLLM has them.

    ``None`` stands for vLLM's default, which depends on its version and on the GPU.

    Attributes:
        max_num_batched_tokens: token budget of a step [tokens].
        max_num_seqs: most requests running at once [requests].
        max_model_len: longest prompt + output [tokens]; ``auto`` is the longest that the KV cache holds.
        block_size: tokens per KV block [tokens].
        prefix_caching: whether full blocks are kept and found again.
        chunked_prefill: whether a prompt may be cut to what is left of the budget.
        long_prefill_token_threshold: most prompt tokens of one request in one step [tokens]; 0 = no limit.
        scheduler_reserve_full_isl: whether a request is admitted only if its whole prompt fits.
        watermark: share of the blocks kept free when a request is admitted while others are scheduled.
        async_scheduling: whether step n+1 is planned before the tokens of step n are known; in a pipeline, whether one
            more batch than stages is in flight; ``auto`` is by version.
        pipeline_batches: which running requests a batch of a pipeline takes: ``vllm`` all that are not in flight;
            ``balanced``, an option of servetwin's own, at most an even share of those that decode.
        gpu_memory_utilization: share of the GPU's memory that the engine may use.
        num_gpu_blocks_override: KV blocks, instead of what the memory holds; for tests and what-ifs.
        enforce_eager: no CUDA graphs.
        max_cudagraph_capture_size: the largest captured batch [tokens].
        scheduling: the policy of the waiting queue.
    """

    max_num_batched_tokens: Count | None = None
    max_num_seqs: Count | None = None
    max_model_len: Count | Literal["auto"] | None = None
    block_size: Count = 16
    prefix_caching: bool = True
    chunked_prefill: bool = True
    long_prefill_token_threshold: int = Field(default=0, ge=0, le=MOST)
    scheduler_reserve_full_isl: bool = True
    watermark: float = Field(default=0.0, ge=0, lt=1)
    async_scheduling: bool | Literal["auto"] = "auto"
    pipeline_batches: Literal["vllm", "balanced"] = "vllm"
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    num_gpu_blocks_override: int | None = Field(default=None, ge=2, le=MOST)
    enforce_eager: bool = False
    max_cudagraph_capture_size: Count | None = None
    scheduling: Scheduling = FirstComeFirstServed()


class Pool(Part):
    """Replicas of one kind.

    Attributes:
        name: its name in results.
        role: what its replicas do: ``prefill``, ``decode``, or ``both`` on the same replica.
        replicas: independent copies of the model.
        hardware: the GPU.
        model: the model, instead of the scenario's.
        parallel: GPUs of a replica.
        engine: the engine's settings.
        precision: number formats.
        speculation: speculative decoding; none by default.
        router: which of the replicas of its role gets a request, instead of the scenario's.
    """

    name: Name = "engines"
    role: Literal["both", "prefill", "decode"] = "both"
    replicas: Replicas | None = None
    hardware: str | None = None
    model: ModelReference | None = None
    parallel: Parallel = Parallel()
    engine: EngineOptions = EngineOptions()
    precision: Precision = Precision()
    speculation: SpeculationOption = None
    router: Routing | None = None


class Cluster(Part):
    """The replicas. What stands here beside ``pools`` holds for every pool that does not say otherwise.

    Attributes:
        replicas: replicas of each pool.
        hardware: the GPU.
        parallel: GPUs of a replica.
        engine: the engine's settings.
        precision: number formats.
        speculation: speculative decoding.
        pools: the pools; one called ``engines`` where none is given.
        topology: the servers, the network between them, and which GPUs each replica lies on.
        transfer: how KV cache gets from replicas that prefill to replicas that decode.
        slowdown: multiplies the time of every step; below 1 it would beat the hardware.
        stragglers: GPUs that are slower than the others of their replica.
        departures: replicas that leave during the run.
    """

    replicas: Replicas | None = None
    hardware: str | None = None
    parallel: Parallel | None = None
    engine: EngineOptions | None = None
    precision: Precision | None = None
    speculation: SpeculationOption = None
    pools: tuple[Pool, ...] = Field(default=(Pool(),), min_length=1, strict=False)
    topology: TopologyOptions | None = None
    transfer: TransferOptions | None = None
    slowdown: float = Field(default=1.0, ge=1, le=1000)
    stragglers: tuple[Straggler, ...] = Field(default=(), strict=False)
    departures: tuple[Departure, ...] = Field(default=(), strict=False)


class Run(Part):
    """How long, with which random numbers, and how the clock is advanced.

    Attributes:
        requests: stop the workload after so many requests; all that a trace has, otherwise 1,000.
        duration_s: stop the workload after so much simulated time [s].
        warmup_requests: first requests that the steady window leaves out.
        seed: of every random stream.
        stepping: ``skip-ahead``, ``every-step`` or ``every-operation``; the results are the same.
    """

    requests: Count | None = None
    duration_s: float | None = Field(default=None, gt=0, le=MAX_S)
    warmup_requests: NonNegativeInt = 0
    seed: NonNegativeInt = 0
    stepping: Literal["skip-ahead", "every-step", "every-operation"] = "skip-ahead"


class Scenario(Part):
    """All input of a run.

    Attributes:
        name: names the run's folder and the results.
        description: the question that the scenario answers.
        model: a bundled name or alias, the path of a Hugging Face ``config.json``, or its content.
        engine: whose rules.
        physics: how steps are priced.
        cluster: the replicas.
        router: which replica gets a request.
        disaggregation: whether a request is prefilled and decoded on different replicas, where there are such.
        admission: whether a request enters at all.
        workload: the requests.
        slo: what the service has promised.
        run: how long and how.
    """

    name: Name = "unnamed"
    description: str = ""
    model: ModelReference | None = None
    engine: Engine = Engine()
    physics: Physics = Physics()
    cluster: Cluster
    router: Routing = RoundRobin()
    disaggregation: Disaggregation | None = None
    admission: AdmissionPolicy = Always()
    workload: WorkloadSpec
    slo: Slo = Slo()
    run: Run = Run()
