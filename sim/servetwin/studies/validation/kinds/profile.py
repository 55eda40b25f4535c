"""Iteration profiles: a batch of equal requests, its prefill, its decode steps and all of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind, tensor_of
from servetwin.studies.validation.serving import parts_of
from servetwin.studies.validation.trial import Point, Trial

_SHAPE = re.compile(r"in(\d+)_bs(\d+)_out(\d+)")
_METRICS = {"prefill_ms": "ttft_ms.mean", "decode_step_ms": "tpot_ms.mean", "e2e_ms": "e2e_ms.mean"}


class IterationProfile(Kind):
    """Splitwise's profiles. The batch's prefill counts as TTFT, its mean decode step as TPOT.

    The whole batch is prefilled in one step, as that engine did; a prompt and answer that exceed the model's longest
    context cannot be simulated.
    """

    name: ClassVar[str] = "iteration_profile"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """A run for each shape."""
        tensor, _ = tensor_of(case)
        parts = parts_of(case, catalog, parallel={"tensor": tensor})
        trials = []
        for stage, measured in case.measured.items():
            found = _SHAPE.fullmatch(stage)
            if found is None or not isinstance(measured, Mapping):
                raise case.error("a row of a profile is called inTOKENS_bsREQUESTS_outTOKENS", "measured", stage)
            prompt, batch, output = (int(text) for text in found.groups())
            parts.options = {
                "max_num_batched_tokens": max(2048, prompt * batch),
                "max_num_seqs": batch,
                "max_model_len": prompt + output,
                "prefix_caching": False,
            }
            workload = {
                "arrivals": {"process": "all-at-once"}, "prompts": prompt, "outputs": output, "sampling": "greedy",
            }  # fmt: skip
            metrics = {
                metric: float(measured[name])
                for name, metric in _METRICS.items()
                if isinstance(measured.get(name), (int, float))
            }
            scenario = parts.scenario(f"{case.id}-{stage}", workload, batch)
            point = Point(stage, metrics, since="engine", whole_batch=True)
            trials.append(Trial(scenario, (point,), flags=tuple(parts.flags)))
        return trials
