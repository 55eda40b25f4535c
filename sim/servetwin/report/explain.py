"""The terminal tables of ``servetwin explain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from servetwin.errors import printable
from servetwin.report.explain_pipeline import stages_view
from servetwin.report.layout import QUIET, facts, plain, warning_lines
from servetwin.report.units import flops_rate, gib, number, percent, rate, scaled

_COLOURS = {"compute": "green", "memory": "blue", "communication": "magenta", "overhead": "yellow"}


def print_explanation(document: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what ``servetwin.studies.explain.explain`` found.

    Args:
        document: its answer.
        console: where to print; standard output if not given.
    """
    (console or Console(highlight=False)).print(explanation_view(document))


def explanation_view(document: Mapping[str, Any]) -> Group:
    """The tables, for a rich console of any width."""
    pipeline = document["pipeline"]
    steps = _phases(document) if pipeline is None else stages_view(pipeline)
    parts: list[RenderableType] = [_heading(document), Text(), _operators(document), Text(), steps, Text()]
    parts += [_collectives(document), Text()] if pipeline is None and _exchanges(document) else []
    parts += [_drafting(document["speculation"]), Text()] if document["speculation"] else []
    parts += [_roofline(document), Text(), _memory(document)]
    if document["warnings"]:
        parts.append(Text())
    return Group(*parts, *warning_lines(document["warnings"]))


def _heading(document: Mapping[str, Any]) -> Text:
    inputs, step = document["inputs"], document["step"]
    text = Text()
    gpus = inputs["gpus_per_replica"]
    text.append(printable(inputs["model"]), style="bold")
    stages = f" in {inputs['stages']} stages" if inputs["stages"] > 1 else ""
    text.append(
        f" on {gpus} x {printable(inputs['hardware'])}{stages}, {inputs['engine']}, weights {inputs['weights']}"
    )
    text.append(f", KV cache {inputs['kv_cache']}")
    groups, ranks = inputs["parallel"]["context"], inputs["parallel"]["tensor"]
    text.append(f", {groups} context groups of {_counted(ranks, 'rank')}\n" if groups > 1 else "\n")
    text.append(_step(inputs), style=QUIET)
    if inputs["slowdown"] != 1:
        text.append(f"\nevery step takes {inputs['slowdown']:g} times as long: cluster.slowdown", style="yellow")
    if inputs["kernel_constants_of"] != inputs["hardware"]:
        text.append(
            f"\nkernels as on {inputs['kernel_constants_of']}: the calibration has none of this GPU", style="yellow"
        )
    text.append(f"\n{number(step['total_us'] / 1000)} ms", style="bold")
    text.append(f", bound by {step['bound']}: ")
    shares = [(name, step[f"{name}_us"] / step["total_us"]) for name in _COLOURS if step[f"{name}_us"]]
    for place, (name, share) in enumerate(shares):
        text.append(", " if place else "")
        text.append(f"{name} {percent(share)}", style=_COLOURS[name])
    text.append(f"; the hardware allows {number(step['floor_us'] / 1000)} ms")
    if document["speculation"]:
        text.append(f"; then {number(document['speculation']['draft_us'] / 1000)} ms of drafting")
    return text


def _step(inputs: Mapping[str, Any]) -> str:
    """What is in the step, in words."""
    parts = []
    batch, context, prefill = inputs["batch"], inputs["context"], inputs["prefill"]
    if batch:
        verified = inputs["verified_tokens_per_request"]
        verb = (
            f"verif{'y' if batch > 1 else 'ies'} {verified} tokens each"
            if verified > 1
            else "decode"
            if batch > 1
            else "decodes"
        )
        parts.append(f"{_counted(batch, 'request')} {verb} at {_counted(context, 'token')} of context")
    if prefill:
        before = f" behind {context:,} computed before" if context and not batch else ""
        parts.append(f"a prompt is prefilled by {_counted(prefill, 'token')}{before}")
    padded = f", padded to {inputs['padded_tokens']:,}" if inputs["padded_tokens"] != inputs["tokens"] else ""
    graph = "CUDA graph" if inputs["cuda_graph"] else "no CUDA graph"
    return f"{' and '.join(parts)}: {_counted(inputs['tokens'], 'token')}{padded}, {graph}"


def _counted(number: int, what: str, plural: str = "") -> str:
    """A number of things, in the singular where there is one.

    >>> _counted(1, "token"), _counted(2000, "token")
    ('1 token', '2,000 tokens')
    """
    return f"{number:,} {what if number == 1 else plural or f'{what}s'}"


def _operators(document: Mapping[str, Any]) -> Table:
    table = plain()
    table.add_column("operator", overflow="fold")
    # On the roofline every price has the same origin; with tables that matters more than the intensity.
    origins = {operator["provenance"] for operator in document["operators"]} != {"roofline"}
    for name in ("layers", "µs", "share", "bound by", "price from" if origins else "FLOP/B", "efficiency"):
        table.add_column(name, justify="left" if name in ("bound by", "price from") else "right", no_wrap=True)
    for operator in document["operators"]:
        efficiency = operator["efficiency"]
        table.add_row(
            Text(operator["name"], style="bold"),
            f"{operator['layers']:,}",
            number(operator["total_us"]),
            percent(operator["share"]),
            Text(operator["bound"], style=_COLOURS[operator["bound"]]),
            operator["provenance"] if origins else number(operator["flops_per_byte"]),
            percent(efficiency),
        )
    step = document["step"]
    floor = percent(step["floor_us"] / step["total_us"])
    intensity = "" if origins else number(_flops_per_byte(document))
    table.add_row("all", "", number(step["total_us"]), "100.0%", "", intensity, floor)
    return table


def _flops_per_byte(document: Mapping[str, Any]) -> float:
    value: float = document["intensity"]["flops_per_byte"]
    return value


def _phases(document: Mapping[str, Any]) -> Text:
    text = Text("phases  ", style=QUIET)
    for place, phase in enumerate(document["phases"]):
        count = f" x {phase['count']}" if phase["count"] > 1 else ""
        each = phase["us"] / phase["count"]
        one = " each" if phase["count"] > 1 else ""
        text.append(" · " if place else "", style=QUIET)
        text.append(f"{phase['kind']}{count} on {phase['resource']} {number(each)} µs{one}", style="default")
    return text


def _exchanges(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [operator for operator in document["operators"] if operator["collective"]]


def _collectives(document: Mapping[str, Any]) -> Text:
    """Each kind of collective: how many, of which size, how they are done, what one takes and reaches."""
    text = Text("collectives  ", style=QUIET)
    for place, operator in enumerate(_exchanges(document)):
        one = operator["collective"]
        text.append(" · " if place else "", style=QUIET)
        text.append(
            f"{operator['name']} {one['calls']} x {scaled(one['message_bytes'], 'B')}, {one['algorithm']}, "
            f"{number(one['us'])} µs each, {rate(one['bus_bytes_per_s'])} on the bus",
            style="default",
        )
    return text


def _drafting(speculation: Mapping[str, Any]) -> Table:
    """What drafting takes, and from how many tokens of a step on it pays."""
    table = facts()
    passes = " · ".join(
        f"{_counted(one['count'], 'pass', 'passes')} of {number(one['us'] / one['count'])} µs"
        for one in speculation["passes"]
    )
    drafts = _counted(speculation["drafts"], "token")
    table.add_row(
        "drafting",
        f"{number(speculation['draft_us'])} µs",
        f"{drafts} by {printable(speculation['drafter'])}: {passes}",
    )
    without = f"without speculation {number(speculation['plain_us'] / 1000)} ms"
    table.add_row("step with drafting", f"{number(speculation['total_us'] / 1000)} ms", without)
    pays_from, tokens = speculation["pays_from_tokens"], speculation["tokens_per_step"]
    if pays_from is None:
        return table
    yields = "as recorded" if tokens is None else f"{tokens:.2f} at this acceptance"
    table.add_row("pays from", f"{pays_from:.2f} tokens", f"per request and step; {yields}")
    if speculation["speedup"] is not None:
        gain = speculation["speedup"]
        table.add_row(
            "speed-up",
            Text(f"{gain:.2f}", style="green" if gain > 1 else "red"),
            "of decoding, where all requests have drafts",
        )
    return table


def _roofline(document: Mapping[str, Any]) -> Table:
    intensity = document["intensity"]
    table = facts()
    ridge = number(intensity["ridge_flops_per_byte"])
    side = "below" if intensity["flops_per_byte"] < intensity["ridge_flops_per_byte"] else "above"
    stands = f"{side} the ridge of {ridge}: the floor is {intensity['bound']}"
    table.add_row(
        "roofline, one GPU" if _alike(document) else "roofline, one GPU a stage",
        f"{number(intensity['flops_per_byte'])} FLOP/B",
        stands,
    )
    table.add_row(
        "arithmetic", flops_rate(intensity["achieved_flops_per_s"]),
        f"{percent(intensity['share_of_peak_flops'])} of {flops_rate(intensity['peak_flops_per_s'])}",
    )  # fmt: skip
    table.add_row(
        "HBM", rate(intensity["achieved_bytes_per_s"]),
        f"{percent(intensity['share_of_peak_bandwidth'])} of {rate(intensity['peak_bytes_per_s'])}",
    )  # fmt: skip
    floors = ", ".join(
        f"{name} {number(intensity[f'{name}_floor_us'] / 1000)} ms"
        for name in ("compute", "memory", "communication")
        if intensity[f"{name}_floor_us"]
    )
    table.add_row("floor", f"{number(intensity['floor_us'] / 1000)} ms", floors)
    return table


def _alike(document: Mapping[str, Any]) -> bool:
    """Whether all GPUs of a replica do the same."""
    return document["pipeline"] is None


def _memory(document: Mapping[str, Any]) -> Table:
    memory, inputs = document["memory"], document["inputs"]
    table = facts()
    utilization = memory["utilization"]
    used = "" if utilization is None else f"of which the engine may use {percent(utilization)}"
    table.add_row("memory, one GPU" if _alike(document) else "memory, fullest GPU", gib(memory["gpu_bytes"]), used)
    table.add_row("weights", gib(memory["weights_bytes"]), "")
    if memory["drafter_bytes"]:
        table.add_row("of it the drafter", gib(memory["drafter_bytes"]), "")
    per_token = memory["kv_bytes_per_token"] / 1024
    rest = "KV cache" if per_token else "left over"
    why = "as num_gpu_blocks_override says" if utilization is None else ""
    for key, name in (("overhead_bytes", "activations, graphs"), ("state_bytes", "states"), ("kv_bytes", rest)):
        if memory[key]:
            table.add_row(name, gib(memory[key]), why if key == "kv_bytes" else "")
    verdict = "fits" if memory["fits"] else Text("does not fit", style="bold red")
    if not per_token:
        seats = memory["max_requests_with_state"]
        table.add_row("room", _counted(seats, "request"), "of any length: nothing is kept per token")
        table.add_row("needed", _counted(inputs["batch"] + (1 if inputs["prefill"] else 0), "request"), verdict)
        return table
    table.add_row("room", _counted(memory["kv_capacity_tokens"], "token"), f"{number(per_token)} KiB each")
    table.add_row("needed", _counted(memory["kv_needed_tokens"], "token"), verdict)
    if inputs["batch"]:
        table.add_row("at most", *_at_most(inputs, memory))
    return table


def _at_most(inputs: Mapping[str, Any], memory: Mapping[str, Any]) -> tuple[str, str]:
    """How many requests of that length fit, and how long that many may be; the engine may allow less."""
    batch, context, most = inputs["batch"], memory["max_context_at_batch"], memory["max_batch_at_context"]
    others = f"or {batch:,} of {context:,}" if context else f"and {batch:,} do not fit, however short"
    limits = ""
    if most > memory["max_num_seqs"]:
        limits += f"; max_num_seqs lets {memory['max_num_seqs']:,} run"
    if max(context, inputs["context"]) > memory["max_model_len"]:
        limits += f"; max_model_len is {memory['max_model_len']:,}"
    return _counted(most, "request"), f"of {_counted(inputs['context'], 'token')}, {others}{limits}"
