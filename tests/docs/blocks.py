"""The code blocks of a page, and what the comments before them say about testing them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Languages of blocks that show something and are not run.
SHOWN = ("text",)

_BLOCK = re.compile(
    r"^(?:<!-- test: (?P<mark>.+?) -->\n)?(?P<fence>`{3,})(?P<language>\w*)\n(?P<code>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_MARKS = ("skip, ", "shrink ", "file ", "fragment", "exit ")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        place: page and line.
        language: what stands behind the fence.
        code: its lines.
        mark: the comment before it; empty if there is none.
    """

    place: str
    language: str
    code: str
    mark: str

    @property
    def requests(self) -> int | None:
        """To how many requests its runs are shrunk."""
        return int(self.mark.removeprefix("shrink ")) if self.mark.startswith("shrink ") else None

    @property
    def file(self) -> str | None:
        """The name under which it is saved."""
        return self.mark.removeprefix("file ") if self.mark.startswith("file ") else None

    @property
    def exit_code(self) -> int:
        """How its last command must end."""
        return int(self.mark.removeprefix("exit ")) if self.mark.startswith("exit ") else 0

    @property
    def skipped(self) -> bool:
        """Whether it is not run here, with a reason."""
        return self.mark.startswith("skip, ")


def pages() -> list[Path]:
    """README, CONTRIBUTING and every page of the documentation."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def read_blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order.

    Raises:
        AssertionError: a fence is indented or not closed, or a comment is not understood.
    """
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    found = []
    for match in _BLOCK.finditer(text):
        place = f"{name}:{text.count(chr(10), 0, match.start('fence')) + 1}"
        mark = match["mark"] or ""
        assert not mark or mark.startswith(_MARKS), f"{place}: unknown comment {mark!r}"
        found.append(Block(place, match["language"], match["code"], mark))
    fences = len(re.findall(r"^\s*```", text, re.MULTILINE))
    assert fences == 2 * len(found), f"{name}: {fences} fences, {len(found)} blocks: one is indented or not closed"
    marks = len(re.findall(r"^<!-- test:", text, re.MULTILINE))
    assert marks == sum(bool(block.mark) for block in found), f"{name}: a comment stands before no block"
    return found
