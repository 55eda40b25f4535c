"""The report of ``servetwin validate``, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servetwin.report.markdown import one, signed, table
from servetwin.report.validation_rows import MAIN, TEXTS, Groups, case_rows, error_rows, main_only


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
        "## Errors by engine, hardware and architecture",
        "Of all kinds together, in the metrics of the short tables.",
        _errors(main_only(document["engines"]), "engine"),
        _errors(main_only(document["hardware"]), "hardware"),
        _errors(main_only(document["architectures"]), "architecture"),
        "## Other simulators",
        "Errors in % on the cases that both they and servetwin predict, with the mean error of servetwin on the same.",
        _peers(document["peers"]),
        *_published(document["published_peers"]),
        "## The ten worst cases",
        "By the metric that matters for their kind: "
        + ", ".join(f"{kind}: {metric}" for kind, metric in document["primary_metrics"].items())
        + ".",
        table(
            ("case", "kind", "metric", "error [%]", "signed [%]", "points"),
            [
                (row["id"], row["kind"], row["metric"], one(row["mape"]), signed(row["signed_mean"]), row["points"])
                for row in document["worst"]
            ],
            texts=3,
        ),
        *_per_request(document["per_request"]),
        *(("## Speed-ups by drafts", *speedup_blocks(document["speedups"])) if document["speedups"] else ()),
        *(("## Order of deployments", *order_blocks(document["orders"])) if document["orders"] else ()),
        "## Every case",
        "Signed errors in %, the mean over the scored points of the case; and the mean absolute error in the metric by "
        "which its kind is ordered.",
        _rows(document),
        "## Every point",
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
    return table((name, "metric", "MAPE mean", "median", "signed", "n"), error_rows(groups, cells), texts=2)


def _peers(found: Groups) -> str:
    groups = {simulator: metrics for simulator, metrics in main_only(found).items() if metrics}
    cells = (_mean, _median, _signed, _number, lambda row: one(row["servetwin_mape_mean"]))
    head = ("simulator", "metric", "MAPE mean", "median", "signed", "n", "servetwin")
    return table(head, error_rows(groups, cells), texts=2)


def _published(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    found = table(
        ("set", "simulator", "metric", "n", "MAPE mean", "median", "p90", "signed"),
        [
            (row["case_set"], row["simulator"], row["metric"], round(row["n_experiments"]), one(row["mape_mean_pct"]),
             one(row["mape_median_pct"]), one(row["mape_p90_pct"]), signed(row["mean_signed_error_pct"]))
            for row in rows
        ],
        texts=3,
    )  # fmt: skip
    return ["As collected in the table beside the cases, on their publishers' own selections:", found]


def _per_request(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    found = table(
        ("case", "stage", "median error of E2E [%]", "requests"),
        [(row["id"], row["stage"], one(row["median_error_pct"]), row["n"]) for row in rows],
        texts=2,
    )
    return ["## Single requests", "Runs that replay recorded requests: the absolute error of each one's E2E.", found]


def speedup_blocks(scores: Mapping[str, Any]) -> list[str]:
    """How well speed-ups by drafts are predicted, apart by where their acceptance comes from: paragraphs and tables.

    Args:
        scores: ``speedups`` of the document; not empty.
    """
    found = {how: scores[how] for how in ("measured", "inferred") if scores[how]["n"]}
    parts = [
        "Errors in units of the speed-up. Acceptance: measured with the drafter on the data set, or inferred for a "
        "series from its speed-up at a batch of one, which is then not scored.",
        table(
            ("acceptance", "absolute error", "signed", "points", "on the wrong side of 1"),
            [
                (how, f"{row['mae']:.3f}", f"{row['bias']:+.3f}", row["n"], len(row["wrong_side"]))
                for how, row in found.items()
            ],
        ),
    ]
    wrong = [point for row in found.values() for point in row["wrong_side"]]
    if wrong:
        parts += [
            "A gain predicted to be a loss, or the other way round, where the measurement is more than 0.05 from 1:",
            "\n".join(
                f"- `{point['id']}` {point['stage']}: {point['predicted']:.3f}, measured {point['measured']:.3f}"
                for point in wrong
            ),
        ]
    if scores["rates"]:
        parts += [
            "Acceptance inferred, one number a series: how often a drafted token stands after all before it; of "
            "methods that find drafts in the text, how often the first one does.",
            table(("series", "acceptance"), [(name, f"{rate:.3f}") for name, rate in scores["rates"].items()]),
        ]
    return parts


def order_blocks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whether deployments under the same load come out in the right order: a sentence, and a table of every pair.

    Args:
        rows: ``orders`` of the document; not empty.
    """
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("right", "wrong", "tie")}
    return [
        f"Of {len(rows)} pairs of deployments under the same load, {counts['right']} come out in the measured order, "
        f"{counts['wrong']} in the other; {counts['tie']} differ by no more than repetitions of a run do.",
        table(
            ("deployment", "and", "stage", "metric", "order", "measured", "simulated", "noise [%]"),
            [
                (*row["deployments"], row["stage"], row["metric"], row["verdict"], _pair(row["measured"]),
                 _pair(row["predicted"]), one(row["noise_pct"]))
                for row in rows
            ],
            texts=5,
        ),
    ]  # fmt: skip


def _pair(figures: Sequence[float]) -> str:
    return " : ".join(f"{figure:,.4g}" if figure < 1000 else f"{figure:,.0f}" for figure in figures)


def _rows(document: Mapping[str, Any]) -> str:
    head, rows = case_rows(document["scores"], document["primary_metrics"], signed)
    return table(head, rows, texts=TEXTS)


def _cases(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        (row["id"], row["stage"], row["metric"], f"{row['predicted']:.5g}", f"{row['measured']:.5g}",
         signed(row["error_pct"]), row.get("acceptance", ""))
        for row in rows
        if row["scored"] and row["metric"] in MAIN
    ]  # fmt: skip
    head = ("case", "stage", "metric", "simulated", "measured", "error [%]", "acceptance")
    return table(head, cells, texts=3)


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


def _mean(row: Mapping[str, Any]) -> str:
    return one(row["mape_mean"])


def _median(row: Mapping[str, Any]) -> str:
    return one(row["mape_median"])


def _signed(row: Mapping[str, Any]) -> str:
    return signed(row["signed_mean"])


def _number(row: Mapping[str, Any]) -> str:
    return str(row["n"])
