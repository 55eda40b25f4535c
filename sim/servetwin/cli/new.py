"""``servetwin new``."""

from __future__ import annotations

from typing import Annotated

import typer

from servetwin.cli import options
from servetwin.errors import printable


def new(
    name: Annotated[str, typer.Argument(help="The name of the scenario, or the path of its file.")],
    json: options.Json = False,
) -> None:
    """Write a commented scenario to start from; it runs as it is, and an existing file is never overwritten."""
    from servetwin.scenario.starter import write_starter

    name, file = write_starter(name)
    if json:
        from json import dumps

        print(dumps({"name": name, "file": str(file)}, indent=2, ensure_ascii=False))
        return
    shown = printable(str(file))
    print(f"written to {shown}\nrun it with: servetwin run {shown}")
