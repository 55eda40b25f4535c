"""The progress bar: only on a terminal, only if wanted, and with what it is told."""

from __future__ import annotations

import io
import sys

import pytest

from servetwin.cli.progress import progress_bar


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_there_is_none_without_a_terminal_or_when_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar("simulating", "requests", quiet=False) as show:
        assert show is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("simulating", "requests", quiet=True) as show:
        assert show is None


def test_it_shows_label_numbers_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar("validating", "runs", quiet=False) as show:
        assert show is not None
        show(3, 7, "runs, 12 s simulated")
    for words in ("validating", "3/7", "runs, 12 s simulated"):
        assert words in terminal.getvalue()
