"""The options that every command that simulates has, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from servetwin.catalog.find import Catalog
    from servetwin.scenario.overrides import Override


def folder(text: str) -> Path:
    """The directory that a user names.

    Raises:
        BadParameter: the text is empty.
    """
    return _path(text, "directory")


def file(text: str) -> Path:
    """The file that a user names.

    Raises:
        BadParameter: the text is empty.
    """
    return _path(text, "file")


def _path(text: str, what: str) -> Path:
    if not text.strip():
        raise typer.BadParameter(f"the name of a {what} is expected, found an empty text")
    return Path(text)


def _with_equals(changes: list[str] | None) -> list[str] | None:
    """Refuse ``--set PATH VALUE`` here, before the value is taken for another argument."""
    for text in changes or ():
        if "=" not in text:
            from servetwin.scenario.overrides import parse_override

            parse_override(text)
    return changes


Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", parser=folder, help="Where to write the results, by default runs/NAME-TIME."),
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Seed of all random streams, instead of run.seed.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a field of the scenario; may be repeated.",
        callback=_with_equals,
    ),
]
CatalogDir = Annotated[
    list[Path] | None,
    typer.Option("--catalog", metavar="DIR", help="Look here first for GPUs, models, scenarios, workloads."),
]
Plugin = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="A Python file that registers policies; may be repeated."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", metavar="N", min=1, help="Processes, by default one a CPU.")]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Do not draw pictures.")]
Timeline = Annotated[
    bool, typer.Option("--timeline", help="Write trace.json, for ui.perfetto.dev or chrome://tracing.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Check every account at every step (slow).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def open_catalog(folders: list[Path] | None) -> Catalog:
    """The catalog with the user's folders before the bundled data."""
    from servetwin.catalog.find import Catalog

    return Catalog(folders or ())


def load_policies(files: list[Path] | None) -> None:
    """Load the plug-ins that are installed, and those that the user names."""
    from servetwin.policies import load_plugins

    load_plugins(files or ())


def overrides(seed: int | None, changes: list[str] | None) -> list[str | Override]:
    """The overrides of the command line; ``--seed`` comes last, for it is the more special one."""
    from servetwin.scenario.overrides import Override

    return [*(changes or []), *([Override(f"--seed {seed}", "run.seed", seed)] if seed is not None else [])]
