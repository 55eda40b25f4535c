"""``servetwin list``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servetwin.cli import options
from servetwin.cli.kinds import KINDS, POLICIES, TECHNIQUES, kind_of

if TYPE_CHECKING:
    from servetwin.catalog.find import Catalog


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="hardware, models, scenarios, workloads, policies, techniques, calibrations, nodes, links, storage "
            "or acceptance; singular works too. Without one, the kinds are listed."
        ),
    ] = None,
    catalog: options.CatalogDir = None,
    plugin: options.Plugin = None,
    json: options.Json = False,
) -> None:
    """List what there is of a kind: names, and a line about each."""
    wanted = None if kind is None else kind_of(kind)
    options.load_policies(plugin)
    known = options.open_catalog(catalog)
    rows: list[dict[str, Any]]
    if wanted is None:
        rows = [{"name": name, "count": _count(name, known), "about": about} for name, about in KINDS.items()]
    else:
        rows = _rows(wanted, known)
    if json:
        from json import dumps

        print(dumps(rows, indent=2, ensure_ascii=False))
        return
    width = max((len(row["name"]) for row in rows), default=0)
    group = None
    for row in rows:
        if row.get("kind") != group:
            group = row.get("kind")
            print(f"{group}:")
        indent = "  " if group else ""
        count = f"{row['count']:>4}  " if "count" in row else ""
        print(f"{indent}{row['name']:<{width}}  {count}{row['about']}".rstrip())


def _count(kind: str, catalog: Catalog) -> int:
    return len(_rows(kind, catalog)) if kind in (POLICIES, TECHNIQUES) else len(catalog.names(kind))


def _rows(kind: str, catalog: Catalog) -> list[dict[str, Any]]:
    if kind == POLICIES:
        return _policies()
    return _techniques() if kind == TECHNIQUES else _catalogued(kind, catalog)


def _policies() -> list[dict[str, Any]]:
    from servetwin.policies import KINDS, union

    return [
        {"name": policy.name(), "kind": kind, "about": first_sentence(policy.__doc__ or "")}
        for kind in KINDS
        for policy in union(kind)
    ]


def _techniques() -> list[dict[str, Any]]:
    from servetwin.studies.techniques import TECHNIQUES

    return [{"name": technique.name, "about": technique.does} for technique in TECHNIQUES.values()]


def _catalogued(kind: str, catalog: Catalog) -> list[dict[str, Any]]:
    return [{"name": name, "about": _about(kind, name, catalog)} for name in catalog.names(kind)]


def _about(kind: str, name: str, catalog: Catalog) -> str:
    if kind == "models":
        model = catalog.model(name)
        size = f"{model.parameters() / 1e9:.1f} B parameters"
        active = f", {model.active_parameters() / 1e9:.1f} B active" if model.is_moe else ""
        return f"{size}{active}, {model.native_weights}, up to {model.max_position:,} tokens"
    if kind == "hardware":
        gpu = catalog.gpu(name)
        return (
            f"{gpu.memory_bytes / 2**30:.0f} GiB, {gpu.hbm_bytes_per_s / 1e12:.2f} TB/s, "
            f"{gpu.peak('bf16') / 1e12:.0f} TFLOPS bf16"
        )
    if kind == "links":
        return f"{catalog.link(name).bytes_per_s / 1e9:g} GB/s in one direction"
    if kind == "storage":
        tier = catalog.storage(name)
        return f"{tier.capacity_bytes / 1e12:g} TB, read at {tier.read_bytes_per_s / 1e9:g} GB/s"
    if kind == "nodes":
        node = catalog.node(name)
        return f"{node.gpus} x {node.gpu}, {node.nic.bytes_per_s / 1e9:g} GB/s of network for each"
    if kind == "calibrations":
        return catalog.calibration(name).engine
    described = catalog.describe(kind, name)
    content = described.get("content")
    description = content.get("description") if isinstance(content, dict) else None
    return str(description or _first_comment(Path(described["file"])))


def _first_comment(file: Path) -> str:
    """The comment at the head of a file, up to its first full stop or question mark."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
        if line.rstrip().endswith((".", "?", ":")):
            break
    return " ".join(lines)


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return paragraph.split(". ")[0].removesuffix(".") + "."
