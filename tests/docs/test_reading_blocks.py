"""The reader of code blocks sees all of them, and refuses what it would have to ignore."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs import blocks
from tests.docs.blocks import read_blocks


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a page may be written."""
    monkeypatch.setattr(blocks, "ROOT", tmp_path)
    return tmp_path / "page.md"


def test_blocks_and_their_comments(page: Path) -> None:
    """Language, place, code and comment of each."""
    page.write_text("a\n\n<!-- test: shrink 20 -->\n```bash\nls\n```\n\n```text\nx\n```\n", encoding="utf-8")
    first, second = read_blocks(page)
    assert (first.place, first.language, first.code, first.requests) == ("page.md:4", "bash", "ls\n", 20)
    assert (second.language, second.mark, second.exit_code) == ("text", "", 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- item\n\n    ```bash\n    false\n    ```\n", "indented"),
        ("```bash\nfalse\n", "not closed"),
        ("<!-- test: shrunk 20 -->\n```bash\nfalse\n```\n", "unknown comment"),
        ("<!-- test: shrink 20 -->\n\n```bash\nfalse\n```\n", "before no block"),
    ],
)
def test_nothing_is_overlooked(page: Path, text: str, message: str) -> None:
    """A block that would not be tried, or a comment that would not be heard."""
    page.write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError, match=message):
        read_blocks(page)
