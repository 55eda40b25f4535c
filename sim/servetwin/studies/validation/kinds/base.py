"""What every kind of case offers, and what several of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.trial import Trial

DRAWS = 12
"""Runs over which a case of a few hundred requests at random replicas is averaged: between two of them mean TPOT of
three replicas differs by a fifth."""


class Kind(ABC):
    """A kind of case.

    Attributes:
        name: what the field ``kind`` says.
    """

    name: ClassVar[str]

    @abstractmethod
    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """The runs that stand for a case.

        Args:
            case: the case, whose common fields were checked.
            catalog: where models and GPUs are found.

        Raises:
            NotYet: this version cannot simulate it.
            InputError: the case, or a recording that it names, is malformed.
        """


def tensor_of(case: Case) -> tuple[int, bool]:
    """The tensor-parallel degree of a case, and whether it is an assumption.

    LMBenchmark's H100 runs do not record it ("likely 4"). Two is taken, as in every run of the series that does:
    at their lowest load a token takes 28 ms, what two H100 need to read 141 GB of weights, and twice what four need.

    Raises:
        ScenarioError: there is none.
    """
    degree = case.need("tp")
    if isinstance(degree, int) and not isinstance(degree, bool) and degree > 0:
        return degree, False
    if isinstance(degree, str) and "tp unknown" in degree:
        return 2, True
    raise case.error("a degree of tensor parallelism is expected", "tp", found=degree, allowed="a whole number")


def recorded_options(case: Case) -> dict[str, Any]:
    """The engine's settings as far as the case records them; the KV room as measured, where it was."""
    config = case.find("engine_config") or {}
    options: dict[str, Any] = {
        name: config[name]
        for name in (
            "max_num_batched_tokens", "max_num_seqs", "max_model_len", "block_size", "prefix_caching",
            "chunked_prefill", "enforce_eager",
        )
        if isinstance(config.get(name), (int, bool))
    }  # fmt: skip
    if config.get("gpu_kv_blocks"):
        options["num_gpu_blocks_override"] = int(config["gpu_kv_blocks"])
    elif config.get("gpu_kv_tokens"):
        options["num_gpu_blocks_override"] = int(config["gpu_kv_tokens"]) // int(config.get("block_size") or 16)
    elif config.get("gpu_memory_utilization"):
        options["gpu_memory_utilization"] = float(config["gpu_memory_utilization"])
    if options.get("enforce_eager") is False:
        del options["enforce_eager"]
    return options
