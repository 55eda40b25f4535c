"""KV caches beyond one engine's memory: tiers, and routing to where a prefix lies."""

from __future__ import annotations

import re
from typing import ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind
from servetwin.studies.validation.kinds.lmbench import lmbench_trials
from servetwin.studies.validation.trial import NotYet, Trial


class KvCache(Kind):
    """LMBenchmark runs and reports on tiers. Those without tiers and without a router run today."""

    name: ClassVar[str] = "kv_cache"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """The runs of a case that needs neither tiers nor routing by prefix."""
        engine = str(case.need("engine")).lower()
        off = re.search(r"lmcache off\b", engine) is not None
        if re.search(r"p2p|nixl", engine):
            raise NotYet("needs KV blocks fetched from another replica")
        if re.search(r"lmcache|mooncake|offload|pega", engine) and not off:
            raise NotYet("needs a KV cache outside the GPU (tiers)")
        if case.find("workload", "generator") != "LMCache/LMBenchmark":
            raise NotYet("needs a KV cache outside the GPU (tiers)")
        replicas = case.find("replicas")
        if isinstance(replicas, int) and replicas > 1 and "no routing" not in engine and "llm-d" in engine:
            raise NotYet("needs a router that knows which replica holds a prefix")
        return lmbench_trials(case, catalog)
