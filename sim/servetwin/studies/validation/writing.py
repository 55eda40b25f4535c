"""The files of ``validate``: validate.json, errors.csv, report.md."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servetwin.errors import InputError
from servetwin.report.validation_markdown import report
from servetwin.studies.validation.traits import COLUMNS as TRAITS

FILES = ("validate.json", "errors.csv", "report.md")

_COLUMNS = (
    "id",
    "kind",
    "set",
    *TRAITS,
    "stage",
    "metric",
    "scored",
    "predicted",
    "measured",
    "error_pct",
    "acceptance",
)


def write(document: Mapping[str, Any], out: Path) -> None:
    """Write the files, replacing those of the same name.

    Args:
        document: what ``build_document`` made.
        out: the folder, which is made if it does not exist.

    Raises:
        InputError: it cannot be written.
    """
    contents = (
        json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n",
        errors_csv(document),
        report(document),
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in zip(FILES, contents, strict=True):
            (out / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"the results cannot be written there: {error.strerror}", file=str(error.filename or out),
            allowed="a directory, which is made if it does not exist",
        ) from None  # fmt: skip


def errors_csv(document: Mapping[str, Any]) -> str:
    """Every predicted figure with its error, a row each."""
    text = io.StringIO()
    rows = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    rows.writeheader()
    for row in document["cases"]:
        rows.writerow({**row, "scored": int(row["scored"]), "set": row["set"] or ""})
    return text.getvalue()
