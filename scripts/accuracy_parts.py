"""The parts of the page about accuracy, each from the document that ``servetwin validate`` writes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from accuracy_notes import Notes, Target

from servetwin.report.markdown import one, signed, table
from servetwin.report.validation_markdown import order_blocks, speedup_blocks
from servetwin.report.validation_rows import (
    LABELS,
    TEXTS,
    Groups,
    case_rows,
    cases_by,
    error_rows,
    main_only,
    shown,
    wide_rows,
)  # fmt: skip
from servetwin.studies.validation.scoring import mape

Document = Mapping[str, Any]

PARTS: dict[str, Callable[[Document, Notes], str]] = {}
"""The parts by the names that the template calls them."""

_PUBLISHED = {
    "ttft_mean": "TTFT", "ttft_p99": "TTFT p99", "tpot_mean_vs_true_output_len": "TPOT", "e2e_mean": "E2E",
}  # fmt: skip
"""Metrics of the table of published accuracies that are the same as ours."""

_TITLES = {
    "serving": "Serving", "concurrency_sweep": "Concurrency sweeps", "throughput_table": "Throughput tables",
    "iteration_profile": "Single steps", "pd": "Disaggregation and what it was compared with",
    "pd_sweep": "Disaggregated sweeps", "kv_cache": "KV tiers", "spec_decode": "Speculative decoding",
    "spec_decode_cost": "Cost of verification",
}  # fmt: skip


def _part(name: str) -> Callable[[Callable[[Document, Notes], str]], Callable[[Document, Notes], str]]:
    def register(function: Callable[[Document, Notes], str]) -> Callable[[Document, Notes], str]:
        PARTS[name] = function
        return function

    return register


@_part("run")
def _run(document: Document, _: Notes) -> str:
    counts, day = document["counts"], date.fromisoformat(document["date"])
    return (
        f"servetwin {document['version']}, {day.day} {day:%B %Y}, seed {document['seed']}: **{counts['cases']} cases = "
        f"{counts['scored']} scored + {counts['not_yet']} waiting + {counts['excluded']} excluded**, "
        f"{counts['runs']:,} runs."
    )


@_part("command")
def _command(document: Document, _: Notes) -> str:
    return shlex.join(document["command"])


@_part("targets")
def _targets(document: Document, notes: Notes) -> str:
    rows = [_target_row(target, document["scores"]) for target in notes.targets]
    return table(("cases", "metric", "statistic", "error [%]", "target [%]", "n", ""), rows, texts=3)


def _target_row(target: Target, scores: Iterable[Mapping[str, Any]]) -> tuple[object, ...]:
    found = _over([score for score in scores if target.takes(score)], target.metric)
    words = (target.what, LABELS[target.metric], target.statistic)
    if found is None:
        return (*words, "–", f"{target.at_most:g}", 0, "not scored")
    error = found[target.key]
    return (*words, one(error), f"{target.at_most:g}", found["n"], "met" if error <= target.at_most else "**missed**")


def _over(scores: Sequence[Mapping[str, Any]], metric: str) -> dict[str, float | int] | None:
    """The errors of some cases in a metric; None if none of them has it."""
    errors = [score["errors"][metric] for score in scores if metric in score["errors"]]
    return mape([(error["mape"], error["signed_mean"]) for error in errors]) if errors else None


@_part("sets and kinds")
def _sets_and_kinds(document: Document, _: Notes) -> str:
    sets = {f"set `{name}`": found for name, found in document["sets"].items()}
    kinds = {f"`{name}`": found for name, found in document["kinds"].items()}
    cells = (
        lambda row: one(row["mape_mean"]), lambda row: one(row["mape_median"]),
        lambda row: signed(row["signed_mean"]), lambda row: str(row["n"]),
    )  # fmt: skip
    rows = [
        (group, LABELS.get(metric, metric), *numbers)
        for group, metric, *numbers in error_rows(main_only({**sets, **kinds}), cells)
    ]
    return table(("set or kind", "metric", "mean", "median", "signed", "n"), _named_once(rows), texts=2)


def _named_once(rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """The rows, each group named in its first one only."""
    last = None
    for group, *cells in rows:
        yield ("" if group == last else group, *cells)
        last = group


@_part("engines")
def _engines(document: Document, _: Notes) -> str:
    return _wide("engine", document["engines"], document)


@_part("hardware")
def _hardware(document: Document, _: Notes) -> str:
    return _wide("hardware", document["hardware"], document)


@_part("architectures")
def _architectures(document: Document, _: Notes) -> str:
    return _wide("architecture", document["architectures"], document)


def _wide(column: str, groups: Groups, document: Document) -> str:
    metrics = shown(groups, ["e2e_ms.p99"])
    rows = wide_rows(groups, metrics, _three, cases_by(document["scores"], column))
    coded = ((f"`{group}`", *cells) for group, *cells in rows)
    return table((column, *(LABELS[metric] for metric in metrics), "cases"), coded)


def _three(row: Mapping[str, Any]) -> str:
    return f"{one(row['mape_mean'])} / {one(row['mape_median'])} / {signed(row['signed_mean'])}"


@_part("engine by architecture")
def _crossed(document: Document, _: Notes) -> str:
    primary = document["primary_metrics"]
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for score in document["scores"]:
        groups.setdefault((score["kind"], score["engine"], score["architecture"]), []).append(score)
    rows = []
    for kind in document["kinds"]:
        for key in sorted(key for key in groups if key[0] == kind):
            found = _over(groups[key], primary[kind]) if kind in primary else None
            if found is not None:
                words = (f"`{kind}`", f"`{key[1]}`", f"`{key[2]}`", LABELS[primary[kind]])
                numbers = (one(found["mape_mean"]), one(found["mape_median"]), signed(found["signed_mean"]))
                rows.append((*words, *numbers, found["n"]))
    head = ("kind", "engine", "architecture", "metric", "mean", "median", "signed", "n")
    return table(head, rows, texts=4)


@_part("peers")
def _peers(document: Document, _: Notes) -> str:
    groups = {name: found for name, found in main_only(document["peers"]).items() if found}
    metrics = [metric for metric in shown(groups) if LABELS[metric] in _PUBLISHED.values()]
    rows = wide_rows(groups, metrics, lambda row: f"{one(row['mape_mean'])} / {one(row['servetwin_mape_mean'])}")
    return table(("simulator", *(LABELS[metric] for metric in metrics), "n"), rows)


@_part("published")
def _published(document: Document, _: Notes) -> str:
    found: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in document["published_peers"]:
        found.setdefault((row["case_set"], row["simulator"]), {})[row["metric"]] = row
    rows = [
        (
            case_set, simulator,
            *(one(metrics[metric]["mape_mean_pct"]) if metric in metrics else "–" for metric in _PUBLISHED),
            max(round(row["n_experiments"]) for row in metrics.values()),
        )
        for (case_set, simulator), metrics in found.items()
        if set(metrics) & set(_PUBLISHED)
    ]  # fmt: skip
    if not rows:
        return "The table of published accuracies was not beside the cases."
    return table(("experiments", "simulator", *_PUBLISHED.values(), "n"), rows, texts=2)


@_part("worst")
def _worst(document: Document, notes: Notes) -> str:
    scores = {score["id"]: score for score in document["scores"]}
    lines: list[str] = []
    places: dict[str | None, int] = {}
    for place, row in enumerate(document["worst"], 1):
        score = scores[row["id"]]
        error = f"{LABELS[row['metric']]} {signed(row['signed_mean'])} %"
        if row["points"] > 1:
            error += f" over {row['points']} points (absolute {one(row['mape'])} %)"
        why = notes.why(row["id"], row["signed_mean"])
        first = places.setdefault(why, place)
        if why is None:
            why = "**Not analysed.**"
        elif first != place:
            why = f"As number {first}."
        words = f"{score['model']} in {score['precision']}, {score['hardware']}, {score['engine']}"
        lines.append(f"{place}. `{row['id']}` ({words}): {error}. {why}")
    return "\n".join(lines)


@_part("single requests")
def _single_requests(document: Document, _: Notes) -> str:
    cases: dict[str, list[Mapping[str, Any]]] = {}
    for row in document["per_request"]:
        cases.setdefault(row["id"], []).append(row)
    rows = []
    for case, found in cases.items():
        errors = [row["median_error_pct"] for row in found]
        span = one(errors[0]) if len(errors) == 1 else f"{one(min(errors))} – {one(max(errors))}"
        rows.append((f"`{case}`", span, len(found), f"{sum(row['n'] for row in found):,}"))
    return table(("case", "median error of E2E [%]", "runs", "requests"), rows)


@_part("cases")
def _cases(document: Document, _: Notes) -> str:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for score in document["scores"]:
        title = _TITLES.get(score["kind"], score["kind"])
        if score["set"] is not None:
            title += f", set {score['set']}"
        groups.setdefault(title, []).append(score)
    parts = []
    for title, scores in sorted(groups.items(), key=lambda item: _order(item[1][0], document)):
        head, rows = case_rows(scores, document["primary_metrics"], signed)
        parts += [f"### {title}", table(head, rows, texts=TEXTS)]
    return "\n\n".join(parts)


def _order(score: Mapping[str, Any], document: Document) -> tuple[int, bool]:
    return list(document["kinds"]).index(score["kind"]), score["set"] in (None, "other")


@_part("waiting")
def _waiting(document: Document, _: Notes) -> str:
    return _by_reason(document["not_yet"])


@_part("excluded")
def _excluded(document: Document, _: Notes) -> str:
    said = (row["reason"].partition(": ")[2].replace("_", " ") or "nothing" for row in document["excluded"])
    return _by_reason([{**row, "reason": reason} for row, reason in zip(document["excluded"], said, strict=True)])


def _by_reason(rows: Sequence[Mapping[str, Any]]) -> str:
    """Reasons with their kinds and numbers of cases, the most frequent first."""
    kinds: dict[str, Counter[str]] = {}
    for row in rows:
        kinds.setdefault(row["reason"], Counter())[row["kind"]] += 1
    ordered = sorted(kinds.items(), key=lambda item: (-item[1].total(), item[0]))
    cells = [(reason, ", ".join(f"`{kind}`" for kind in found), found.total()) for reason, found in ordered]
    return table(("reason", "kinds", "cases"), [*cells, ("**all**", "", len(rows))], texts=2)


@_part("unpredicted")
def _unpredicted(document: Document, _: Notes) -> str:
    found: dict[str, Counter[str]] = {}
    for row in document["unpredicted"]:
        found.setdefault(row["reason"], Counter())[row["id"]] += 1
    if not found:
        return "Every point of the scored cases has a prediction."
    cells = [(reason, ", ".join(ids), ids.total()) for reason, ids in found.items()]
    return table(("points of scored cases without a prediction", "of", "points"), cells, texts=2)


@_part("assumptions")
def _assumptions(document: Document, _: Notes) -> str:
    rows = [(row["text"], row["cases"]) for row in (*document["assumptions"], *document["warnings"])]
    return table(("assumed, or said by the runs about themselves", "cases"), rows)


@_part("not modelled")
def _not_modelled(_: Document, notes: Notes) -> str:
    return "\n".join(f"- {text}" for text in notes.not_modelled)


@_part("speed-ups")
def _speedups(document: Document, _: Notes) -> str:
    scores = document["speedups"]
    return "\n\n".join(speedup_blocks(scores)) if scores else "None was measured."


@_part("orders")
def _orders(document: Document, _: Notes) -> str:
    rows = document["orders"]
    return "\n\n".join(order_blocks(rows)) if rows else "None was measured."


def other_run(document: Document, notes: Notes) -> str:
    """A section about a run with other settings."""
    counts = document["counts"]
    title = ", ".join(f"`{change}`" for change in document["overrides"]) or "`" + shlex.join(document["command"]) + "`"
    opening = (
        f"`{shlex.join(document['command'])}`: {counts['cases']} cases, {counts['scored']} scored, "
        f"{counts['not_yet']} waiting, {counts['excluded']} excluded."
    )
    crossed = _crossed(document, notes)
    return "\n\n".join((
        f"## With {title}", opening, _targets(document, notes), _sets_and_kinds(document, notes), crossed,
        "The ten worst cases:", _worst(document, notes),
    ))  # fmt: skip
