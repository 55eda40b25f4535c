"""Speculative decoding: speed-ups by batch size, tokens per second of single requests, and what a step costs."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind, tensor_of
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.speedup import Inference, Prompt, SpeedupTrial
from servetwin.studies.validation.step_cost import StepCostTrial
from servetwin.studies.validation.trial import NotYet, Point, Trial

_DRAFTS = 3
"""Drafts in a row where a series does not say how many: the depth of its trees too."""

_METHODS = {"n-gram": "ngram", "EAGLE-3": "eagle3", "EAGLE": "eagle", "draft-model": "draft-model"}
_DRAFT_MODELS = {"qwen3-8b": "qwen3-0.6b"}
"""``scripts/profile-qwen3-8b-draft-model.sh`` of github.com/SpecDecode-Bench/vllm."""

_BRANCHING = {6: 2, 21: 4}
"""Branches of a node, by nodes of the tree (caption of figure 2, arXiv 2601.11580)."""

_COLUMNS = {"eagle3": "eagle3_accept_len", "ngram": "ngram_accept_len"}
"""Columns of the recordings of accepted lengths."""

_RECORDING = "../speculation/{model}_h100_{dataset}_acceptance.jsonl.gz"
_RECORDED_MODELS = {"llama-3.1-8b": "llama31_8b"}

_PROMPTS, _DRAWN = 100, 12
"""Prompts of a series: as many as the benchmark's figure has, and where acceptance is inferred, some of them."""

_LONGEST = 8192
"""Answers that reach the limit are left out of the figure [tokens]."""

_BUDGET = 16_384
"""Tokens of a step: vLLM's default where it is called from Python on a large GPU [tokens]."""

_PROPOSALS = {"gsm8k": 0.2, "sharegpt": 0.2, "instructcoder": 0.8, "cnn-dailymail": 0.4}
"""How often n-grams are found where none is accepted: ``simulator.py`` of github.com/SpecDecode-Bench/simulator."""

_LENGTHS = {"gsm8k": (94, 166), "sharegpt": (355, 560), "instructcoder": (171, 180), "cnn-dailymail": (900, 350)}
"""Prompt and answer [tokens] of models that were not recorded: those of Llama-3.1-8B, without the answers that reached
the limit; of CNN/DailyMail counted in eight of its requests in github.com/SpecDecode-Bench/simulator."""

_RATIOS = {"gsm8k": 0.6, "sharegpt": 0.83, "instructcoder": 0.92, "cnn-dailymail": 0.8}
"""How often a token found in the text stands after one that does: of Llama-3.1-8B in the table of acceptance (position
3 over position 1, the root); of CNN/DailyMail between them."""

_MT_BENCH = (90, 300)
"""Prompt and answer of MT-Bench [tokens], about."""

_SINGLE = re.compile(r"(eagle[13])_k(\d+)")
_LENGTHS_OF_20780 = {("eagle1", 2): 2.1, ("eagle1", 4): 2.39, ("eagle1", 7): 2.47, ("eagle3", 2): 2.36}
"""Accepted lengths of the same drafters on the same data set, github.com/vllm-project/vllm/issues/20780."""

_OF_20780 = "acceptance as measured in vLLM issue 20780 with the same drafters and data set"


class Speculation(Kind):
    """Speed-ups over decoding without drafts, and decoding of single requests with drafts."""

    name: ClassVar[str] = "spec_decode"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """A run for each series; of single requests, for each number of drafts."""
        tensor, _ = tensor_of(case)
        if case.find("parallel"):
            raise NotYet("needs experts shared out over GPUs")
        parts = parts_of(case, catalog, parallel={"tensor": tensor})
        if case.find("workload", "batch") == 1:
            return _single_requests(case, parts)
        return [_series(case, parts, name, measured) for name, measured in case.measured.items()]


class SpeculationCost(Kind):
    """What steps of so many requests take on the GPU, with a context and without."""

    name: ClassVar[str] = "spec_decode_cost"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """One trial; nothing is simulated, steps are priced."""
        tensor, _ = tensor_of(case)
        parts = parts_of(case, catalog, parallel={"tensor": tensor})
        points, steps = [], {}
        for name, context, less in (("graphed_step_ms_ctx0", 0, False), ("delta_ms_ctx0_to_8192", 8192, True)):
            for requests, milliseconds in (case.find("measured", name) or {}).items():
                stage = f"{name} {requests}"
                points.append(Point(stage, {"tpot_ms.mean": float(milliseconds)}))
                steps[stage] = (int(requests[1:]), context, less)
        scenario = parts.scenario(case.id, _one_prompt(Prompt(1, 1)), 1)
        return [StepCostTrial(scenario, tuple(points), flags=tuple(parts.flags), steps=steps)]


@dataclass(frozen=True, slots=True)
class _Way:
    """How a series drafts."""

    speculation: dict[str, Any]
    method: str


def _series(case: Case, parts: Parts, name: str, measured: Mapping[str, Any]) -> Trial:
    """A series of speed-ups by batch size."""
    way = _way(case, parts, name)
    dataset = str(case.need("workload", "dataset")).lower()
    if dataset not in _LENGTHS:
        raise NotYet(f"the lengths of prompts and answers of {dataset} are not known")
    prompts = _recorded_prompts(case, parts.model, dataset, way.method)
    flags = list(parts.flags)
    speedups = {stage: float(row["speedup_x"]) for stage, row in measured.items() if "speedup_x" in row}
    batches = {f"{name} {stage}": int(stage.removeprefix("batch_")) for stage in speedups}
    inference = None
    proposal = _PROPOSALS[dataset] if way.method == "ngram" else None
    if not prompts:
        first = speedups.get("batch_1")
        if first is None:
            raise NotYet("acceptance is not known, and there is no batch of one from which it follows")
        inference = Inference(first, _RATIOS[dataset] if way.method == "ngram" else None, proposal)
        prompts = (Prompt(*_LENGTHS[dataset]),) * _DRAWN
        flags.append("acceptance inferred from the speed-up of a batch of one; lengths of Llama-3.1-8B on the data set")
    points = tuple(
        Point(f"{name} {stage}", {"speedup": value}, scored=inference is None or stage != "batch_1")
        for stage, value in speedups.items()
    )
    parts.options = {"prefix_caching": False, "max_num_batched_tokens": _BUDGET}
    return SpeedupTrial(
        parts.scenario(f"{case.id}-{name}", _one_prompt(prompts[0]), 1), points, flags=tuple(flags),
        acceptance="measured" if inference is None else "inferred", speculation=way.speculation, batches=batches,
        prompts=prompts, inference=inference, proposal=proposal,
    )  # fmt: skip


def _one_prompt(prompt: Prompt) -> dict[str, Any]:
    """The workload of a batch of one."""
    lengths = {"prompts": prompt.prompt_tokens, "outputs": prompt.output_tokens}
    return {"arrivals": {"process": "all-at-once"}, **lengths, "sampling": "greedy"}


def _way(case: Case, parts: Parts, name: str) -> _Way:
    """How a series drafts, from its name: ``n-gram k=5``, ``EAGLE-3``, ``EAGLE tree k=21``, …"""
    found = re.fullmatch(r"(n-gram|EAGLE-3|EAGLE|draft-model)(?: (chain|tree))?(?: k=(\d+))?", name)
    if found is None:
        raise NotYet(f"series of {name!r} are not known")
    method = _METHODS[found[1]]
    number = int(found[3] or _DRAFTS)
    speculation: dict[str, Any] = {"method": method, "k": _DRAFTS if found[2] == "tree" else number}
    if found[2] == "tree":
        speculation["tree"] = {"nodes": number, "branching": _BRANCHING.get(number, 2)}
    if method == "draft-model":
        if parts.model not in _DRAFT_MODELS:
            raise NotYet(f"the draft model of {parts.model} is not recorded")
        speculation["model"] = _DRAFT_MODELS[parts.model]
    return _Way(speculation, method)


def _recorded_prompts(case: Case, model: str, dataset: str, method: str) -> tuple[Prompt, ...]:
    """The prompts of a data set as recorded with a model, as far as the figure has them; () = not recorded."""
    if model not in _RECORDED_MODELS or method not in _COLUMNS:
        return ()
    file = case.beside(_RECORDING.format(model=_RECORDED_MODELS[model], dataset=dataset))
    if not file.exists():
        return ()
    found: list[Prompt] = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            accepted = tuple(row[_COLUMNS[method]])
            if 1 < len(accepted) < _LONGEST and len(found) < _PROMPTS:
                found.append(Prompt(int(row["prompt_tokens"]), len(accepted), accepted))
    return tuple(found)


def _single_requests(case: Case, parts: Parts) -> list[Trial]:
    """Single requests one after the other; how many tokens were accepted is measured with them, or elsewhere."""
    trials = []
    for stage, measured in case.measured.items():
        for label, method, drafts, length, metrics in _rows(stage, measured):
            name = f"{stage} {label}".strip()
            flags = list(parts.flags)
            if length is None:
                length = _LENGTHS_OF_20780.get((method, drafts)) if drafts else 1.0
                if length is None:
                    raise NotYet(f"the acceptance of {name} is not known")
                flags += [_OF_20780] if drafts else []
            scenario = _one_by_one(parts, f"{case.id}-{name}")
            if drafts:
                rate = _rate(length, drafts)
                method = {"eagle1": "eagle"}.get(method, method)
                scenario["cluster"]["speculation"] = {"method": method, "k": drafts, "acceptance": rate}
            acceptance = "measured" if drafts else ""
            trials.append(Trial(scenario, (Point(name, metrics),), flags=tuple(flags), acceptance=acceptance))
    return trials


_Row = tuple[str, str, int, float | None, dict[str, float]]
"""What is behind the stage's name, the method, drafts, accepted length, and what was measured."""


def _rows(stage: str, measured: Mapping[str, Any]) -> Sequence[_Row]:
    """The rows of a stage: of ``k3``, one for each drafter; of ``eagle1_k2`` and ``vanilla``, itself."""
    if re.fullmatch(r"k\d+", stage):
        return [
            (method, method, int(stage[1:]), float(measured[f"{method}_accept_len"]),
             {"tpot_ms.mean": float(measured[f"{method}_tpot_ms"])})
            for method in ("eagle1", "eagle3")
        ]  # fmt: skip
    metrics = {}
    if "tpot_ms" in measured:
        metrics["tpot_ms.mean"] = float(measured["tpot_ms"])
    if "output_tok_s" in measured:
        metrics["output_throughput"] = float(measured["output_tok_s"])
    found = _SINGLE.fullmatch(stage)
    return [("", found[1] if found else "", int(found[2]) if found else 0, None, metrics)]


def _one_by_one(parts: Parts, name: str) -> dict[str, Any]:
    """A scenario in which one request runs at a time."""
    parts.options = {"prefix_caching": False, "max_num_seqs": 1}
    return parts.scenario(name, _one_prompt(Prompt(*_MT_BENCH)), 40)


def _rate(length: float, drafts: int) -> float:
    """How often a token stands, where ``1 + a + … + a^K`` of ``drafts`` tokens do in the mean.

    >>> round(_rate(1.75, 2), 3)
    0.5
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(middle**position for position in range(drafts + 1)) < length:
            low = middle
        else:
            high = middle
    return round(low, 9)
