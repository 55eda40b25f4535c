"""The files of a check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servetwin.errors import InputError
from servetwin.results.store import write_text
from servetwin.studies.check.running import Finished

DOCUMENT, JUNIT, SUMMARY = "check.json", "junit.xml", "summary.md"
RUNS = "runs"
"""The folder with the summary of each run: ``NAME-SEED.json``."""


def as_json(document: Mapping[str, Any]) -> str:
    """A document as text."""
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)


def write_file(path: Path, text: str) -> None:
    """Write a text where the user wants it; a file is replaced once the text is complete.

    Raises:
        InputError: it cannot be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            # A pipe or a device is written to, not replaced, and so is what a link leads to: /dev/stdout is one.
            path.write_text(text, encoding="utf-8")
        else:
            write_text(path, text)
    except OSError as error:
        raise InputError(
            f"the results cannot be written there: {error.strerror}", file=str(error.filename or path),
            allowed="a file, whose folder is made if it does not exist",
        ) from None  # fmt: skip


def write_folder(out: Path, document: Mapping[str, Any], junit: str, summary: str, finished: Finished) -> None:
    """Write everything into a folder.

    Args:
        out: the folder, which is made if it does not exist.
        document: the document.
        junit: the same as JUnit XML.
        summary: the same as Markdown.
        finished: the runs.

    Raises:
        InputError: it cannot be written there.
    """
    for name, text in ((DOCUMENT, as_json(document) + "\n"), (JUNIT, junit), (SUMMARY, summary)):
        write_file(out / name, text)
    for entry, by_seed in finished.outcomes.items():
        for seed, outcome in by_seed.items():
            write_file(out / RUNS / f"{entry}-{seed}.json", as_json(outcome.summary) + "\n")
