"""Parts of README and documentation that quote the page about accuracy, so that no figure is copied by hand."""

from __future__ import annotations

import re
import textwrap
from functools import cache
from pathlib import Path

from servetwin.report.markdown import table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"

_COUNTS = re.compile(r"\*\*(\d+) cases = (\d+) scored \+ (\d+) waiting \+ (\d+) excluded\*\*")
_RUN = re.compile(r"^servetwin (\S+), (\d+ \w+ \d{4}), seed (\d+):", re.MULTILINE)


@cache
def text() -> str:
    """The page."""
    return PAGE.read_text(encoding="utf-8")


def run() -> tuple[str, str, int]:
    """Version, day and seed of the run that the page is about."""
    version, day, seed = _found(_RUN).groups()
    return version, day, int(seed)


def counts() -> tuple[int, int, int, int]:
    """Cases, those that are scored, that wait, that are excluded."""
    numbers = [int(number) for number in _found(_COUNTS).groups()]
    return numbers[0], numbers[1], numbers[2], numbers[3]


def _found(pattern: re.Pattern[str]) -> re.Match[str]:
    found = pattern.search(text())
    if found is None:
        raise SystemExit(f"{PAGE} does not say {pattern.pattern!r}: write it with scripts/accuracy")
    return found


def tables(heading: str) -> list[list[dict[str, str]]]:
    """The tables of a chapter, with the cells of each row by column.

    Args:
        heading: the chapter, with its number signs.

    Raises:
        SystemExit: the page has no such chapter.
    """
    level = len(heading) - len(heading.lstrip("#"))
    _, found, rest = text().partition(f"\n{heading}\n")
    if not found:
        raise SystemExit(f"{PAGE} has no chapter {heading!r}")
    chapter = re.split(rf"^#{{1,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.findall(r"(?:^\|.*\n)+", chapter, re.MULTILINE)
    return [_rows(block.splitlines()) for block in blocks]


def _rows(lines: list[str]) -> list[dict[str, str]]:
    head, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


def errors(group: str) -> dict[str, dict[str, str]]:
    """The rows of a set or kind by metric, as the page has them."""
    found: dict[str, dict[str, str]] = {}
    name = ""
    for row in tables("## In short")[1]:
        name = row["set or kind"] or name
        if name == group:
            found[row["metric"]] = row
    return found


def in_short() -> str:
    """The score in a few sentences."""
    version, day, _ = run()
    every, scored, waiting, excluded = counts()
    best, sweeps = errors("set `vllm-0.15.1`"), errors("`concurrency_sweep`")
    e2e, tpot, ttft, tail = (f"{best[metric]['mean']} %" for metric in ("E2E", "TPOT", "TTFT", "TTFT p99"))
    sentences = (
        f"Mean absolute errors of version {version} on {day}: over {best['E2E']['n']} public runs of vLLM 0.15.1 on "
        f"H100, A100 and L40S {e2e} in E2E, {tpot} in TPOT, {ttft} in TTFT and {tail} in its p99; over "
        f"{sweeps['TPOT']['n']} public concurrency sweeps of vLLM, SGLang and TensorRT-LLM {sweeps['TPOT']['mean']} % "
        f"in TPOT and {sweeps['TTFT']['mean']} % in TTFT. Of {every} measured cases {scored} are scored, {waiting} "
        f"wait for what this version cannot simulate, and {excluded} are not usable for scoring."
    )
    return textwrap.fill(sentences, 125)


def against_others() -> str:
    """Other simulators on the same cases: the table of the page."""
    rows = tables("## Against other simulators")[0]
    return table(list(rows[0]), [list(row.values()) for row in rows])
