"""What doubling the GPUs of a replica gains on real H100s, beside what it gains here."""

from __future__ import annotations

from functools import cache
from typing import Any

from splitting_runs import CATALOG, table

import servetwin
from servetwin.scenario.load import validate_mapping

MEASURED_TPOT_MS = {
    4: {2: 17.407, 4: 11.776, 8: 9.114},
    16: {2: 19.740, 4: 13.192, 8: 11.392},
    64: {2: 28.769, 4: 19.515, 8: 15.455},
}
"""Requests in flight → tensor degree → time per output token [ms].

Llama-3.1-70B in fp8 on H100 SXM with vLLM, nominally 1,024 prompt and 1,024 output tokens, 29 October 2025.
Source: InferenceMAX of SemiAnalysis, github.com/SemiAnalysisAI/InferenceX, from github.com/ai-dynamo/aiconfigurator.
"""

TURNS = 10
"""Requests that each place in flight serves, one after the other."""


def scenario(in_flight: int, tensor: int) -> dict[str, Any]:
    """The scenario of a measurement; lengths are 0.8 to 1.0 of the nominal ones, as that benchmark draws them."""
    lengths = {"distribution": "uniform", "min": 819, "max": 1024}
    return {
        "name": "measured",
        "model": "llama-3.1-70b-fp8",
        "cluster": {
            "hardware": "h100-sxm",
            "parallel": {"tensor": tensor},
            "engine": {"max_model_len": 4096, "prefix_caching": False},
        },
        "workload": {
            "arrivals": {"process": "closed-loop", "concurrency": in_flight},
            "prompts": lengths,
            "outputs": lengths,
        },
        "run": {"requests": TURNS * in_flight},
    }


@cache
def simulated_ms(in_flight: int, tensor: int) -> float:
    """Mean time per output token of the same load [ms]."""
    found = servetwin.run(validate_mapping(scenario(in_flight, tensor), CATALOG)).summary()
    return float(found["tpot_ms.mean"])


def measured_table() -> str:
    """Measured and simulated, and what each doubling gains, in Markdown."""
    head = (
        "in flight", "tensor", "measured TPOT, ms", "simulated, ms", "error", "faster than half, measured", "simulated",
    )  # fmt: skip
    rows = []
    for in_flight, by_degree in MEASURED_TPOT_MS.items():
        for tensor, measured in by_degree.items():
            ours, half = simulated_ms(in_flight, tensor), tensor // 2
            gains = ("–", "–")
            if half in by_degree:
                gains = (f"{by_degree[half] / measured:.2f} ×", f"{simulated_ms(in_flight, half) / ours:.2f} ×")
            error = 100 * (ours / measured - 1)
            rows.append([str(in_flight), str(tensor), f"{measured:.2f}", f"{ours:.2f}", f"{error:+.1f} %", *gains])
    return table(head, rows, left=0)
