"""The progress bar of the commands that take long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Show(Protocol):
    """Tells the bar how far it is."""

    def __call__(self, ended: int, expected: int | None, text: str, /) -> None:
        """So many of so many have ended; None = nobody knows of how many. The text stands behind the numbers."""


@contextmanager
def progress_bar(label: str, text: str, *, quiet: bool) -> Iterator[Show | None]:
    """A progress bar on stderr, if that is a terminal.

    Args:
        label: what is being done.
        text: what stands behind the numbers at first.
        quiet: whether the user wants none.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=None)

        def show(ended: int, expected: int | None, text: str, /) -> None:
            bar.update(task, completed=ended, total=expected, description=text)

        yield show
