"""The summary of a check in Markdown, for a pull request or the summary page of a CI job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from servetwin.report.check_rows import ASSERTIONS, METRICS, SECTIONS, beside, counts, found, metric_rows, verdict
from servetwin.report.markdown import table

_MARKS = {"passed": "✅", "failed": "❌", "not finished": "⚠️"}
_FOLDED = ("unclear", "changed_metrics")
"""Tables that nobody has to read."""


def summary(document: Mapping[str, Any]) -> str:
    """The summary, as Markdown."""
    word = verdict(document)
    parts = [f"### {_MARKS[word]} servetwin check: {document['suite']} {word}", f"{counts(document)}."]
    if document["description"]:
        parts.insert(1, document["description"])
    failed = [one for one in document["assertions"] if not one["passed"]]
    if failed:
        rows = [(one["name"], f"`{one['assertion']}`", found(one)) for one in failed]
        parts += ["**does not hold**", table(ASSERTIONS, rows, texts=3)]
    for key, title in SECTIONS:
        parts += _metrics(document, key, title)
    texts = beside(document)
    if texts:
        parts.append("\n".join(f"- {text}" for text in texts))
    return "\n\n".join(parts) + "\n"


def _metrics(document: Mapping[str, Any], key: str, title: str) -> Iterator[str]:
    rows, left_out = metric_rows(document, key)
    if not rows:
        return
    lines = [(name, f"`{metric}`", *figures) for name, metric, *figures in rows]
    more = f"\n\nand {left_out:,} more" if left_out else ""
    if key in _FOLDED:
        yield f"<details><summary>{title}: {len(document[key]):,}</summary>"
        yield table(METRICS, lines, texts=2) + more
        yield "</details>"
    else:
        yield f"**{title}**"
        yield table(METRICS, lines, texts=2) + more
