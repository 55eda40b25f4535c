"""The report of ``servetwin validate``, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from servetwin.report.validation_rows import MAIN, Groups, error_rows, main_only


def report(document: Mapping[str, Any]) -> str:
    """The report, as Markdown."""
    parts = [
        "# Validation",
        _opening(document),
        "## Errors by kind",
        "Mean and median over cases of the absolute error, mean signed error (simulated − measured) in %, cases.",
        _errors(document["kinds"], "kind"),
        "## Errors by set",
        _errors(document["sets"], "set"),
        "## Other simulators",
        "Errors in % on the cases that both they and servetwin predict, with the mean error of servetwin on the same.",
        _peers(document["peers"]),
        *_published(document["published_peers"]),
        "## The ten worst cases",
        "By the metric that matters for their kind: "
        + ", ".join(f"{kind}: {metric}" for kind, metric in document["primary_metrics"].items())
        + ".",
        _markdown(
            ("case", "kind", "metric", "error [%]", "signed [%]", "points"),
            [
                (row["id"], row["kind"], row["metric"], _one(row["mape"]), _sign(row["signed_mean"]), row["points"])
                for row in document["worst"]
            ],
        ),
        *_per_request(document["per_request"]),
        "## Every case",
        "Scored stages; `errors.csv` has every stage and statistic.",
        _cases(document["cases"]),
        "## Without a score",
        f"{len(document['not_yet'])} cases wait for what this version cannot simulate:",
        _reasons(document["not_yet"]),
        f"{len(document['excluded'])} cases are excluded, for their file says that they are not usable for scoring:",
        "\n".join(f"- `{row['id']}`: {row['reason']}" for row in document["excluded"]) or "- none",
        *_unpredicted(document["unpredicted"]),
        "## Assumptions",
        _counted(document["assumptions"]),
        "## What the runs say about themselves",
        _counted(document["warnings"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _opening(document: Mapping[str, Any]) -> str:
    counts = document["counts"]
    text = (
        f"servetwin {document['version']}, seed {document['seed']}. {counts['cases']} cases: "
        f"{counts['scored']} scored, {counts['not_yet']} not yet possible, {counts['excluded']} excluded; "
        f"{counts['runs']} runs."
    )
    if document["overrides"]:
        text += f" Changed: {', '.join(f'`{change}`' for change in document['overrides'])}."
    if document["interrupted"]:
        text += (
            f"\n\n**Interrupted** after {counts['runs']} of {counts['runs_planned']} runs; unfinished: "
            f"{', '.join(f'`{name}`' for name in counts['unfinished'])}."
        )
    return text


def _errors(groups: Groups, name: str) -> str:
    cells = (_mean, _median, _signed, _number)
    return _markdown((name, "metric", "MAPE mean", "median", "signed", "n"), error_rows(groups, cells))


def _peers(found: Groups) -> str:
    groups = {simulator: metrics for simulator, metrics in main_only(found).items() if metrics}
    cells = (_mean, _median, _signed, _number, lambda row: _one(row["servetwin_mape_mean"]))
    head = ("simulator", "metric", "MAPE mean", "median", "signed", "n", "servetwin")
    return _markdown(head, error_rows(groups, cells))


def _published(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    table = _markdown(
        ("set", "simulator", "metric", "n", "MAPE mean", "median", "p90", "signed"),
        [
            (row["case_set"], row["simulator"], row["metric"], round(row["n_experiments"]), _one(row["mape_mean_pct"]),
             _one(row["mape_median_pct"]), _one(row["mape_p90_pct"]), _sign(row["mean_signed_error_pct"]))
            for row in rows
        ],
    )  # fmt: skip
    return ["As collected in the table beside the cases, on their publishers' own selections:", table]


def _per_request(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    table = _markdown(
        ("case", "stage", "median error of E2E [%]", "requests"),
        [(row["id"], row["stage"], _one(row["median_error_pct"]), row["n"]) for row in rows],
    )
    return ["## Single requests", "Runs that replay recorded requests: the absolute error of each one's E2E.", table]


def _cases(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        (row["id"], row["stage"], row["metric"], f"{row['predicted']:.5g}", f"{row['measured']:.5g}",
         _sign(row["error_pct"]))
        for row in rows
        if row["scored"] and row["metric"] in MAIN
    ]  # fmt: skip
    return _markdown(("case", "stage", "metric", "simulated", "measured", "error [%]"), cells)


def _reasons(rows: Sequence[Mapping[str, Any]]) -> str:
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row["reason"], []).append(row["id"])
    return (
        "\n".join(
            f"- {reason} ({len(ids)}): {', '.join(f'`{name}`' for name in ids)}" for reason, ids in by_reason.items()
        )
        or "- none"
    )


def _unpredicted(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    return [
        f"{len(rows)} points of cases that are scored have no prediction:",
        "\n".join(f"- `{row['id']}` {row['stage']}: {row['reason']}" for row in rows),
    ]


def _counted(rows: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(f"- {row['text']} ({row['cases']} cases)" for row in rows) or "- none"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _mean(row: Mapping[str, Any]) -> str:
    return _one(row["mape_mean"])


def _median(row: Mapping[str, Any]) -> str:
    return _one(row["mape_median"])


def _signed(row: Mapping[str, Any]) -> str:
    return _sign(row["signed_mean"])


def _number(row: Mapping[str, Any]) -> str:
    return str(row["n"])


def _one(value: float) -> str:
    return f"{value:.1f}"


def _sign(value: float) -> str:
    return f"{value:+.1f}"
