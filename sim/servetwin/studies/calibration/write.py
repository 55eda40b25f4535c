"""Writing a calibration file: that which it starts from, comments and all, with new curves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

from servetwin.errors import InputError
from servetwin.specs import AttentionCurve, ExpertsCurve, KernelConstants, ProductCurve

SOURCE_OF = "kernels"
"""How the entry of ``sources`` begins that tells where the curves come from."""

_SECTION = re.compile(r"^kernels:[^\n]*\n(?:(?:[ \t][^\n]*)?\n)*", re.MULTILINE)
_ENTRY = re.compile(rf'^  - {{what: "?{SOURCE_OF}[^\n]*\n', re.MULTILINE)
_HEAD = re.compile(r"^name:[^\n]*\n(?:aliases:[^\n]*\n)?", re.MULTILINE)

Curve = ProductCurve | ExpertsCurve | AttentionCurve


def calibration_text(
    base: str, kernels: Mapping[str, KernelConstants], *, name: str | None, source: str, date: str, error: str
) -> str:
    """The text of a calibration file.

    Args:
        base: text of the file to start from.
        kernels: all GPUs that the file has curves of.
        name: its new name; None keeps the old one and its aliases.
        source: who measured the kernels.
        date: when that was fitted, ``YYYY-MM-DD``.
        error: how well the curves fit, in words.

    Raises:
        InputError: where ``base`` is not laid out as the bundled files are.
    """
    if len(_SECTION.findall(base)) != 1 or "\nsources:\n" not in base or not _HEAD.search(base):
        raise InputError(
            "the calibration to start from is not laid out as the bundled one",
            allowed="the fields name, sources and kernels, each at the start of a line, in block style",
        )
    quoted = f"{source}; {error}".replace("\\", "\\\\").replace('"', '\\"')
    entry = f'  - {{what: "{SOURCE_OF}.*.products, experts, attention", source: "{quoted}", date: {date}}}\n'
    text = _ENTRY.sub("", base)
    text = text.replace("\nsources:\n", f"\nsources:\n{entry}", 1)
    if name is not None:
        text = _HEAD.sub(f"name: {name}\n", text, count=1)
    section = "kernels:\n" + "".join(gpu_text(gpu, constants) for gpu, constants in kernels.items())
    return _SECTION.sub(lambda _: section + "\n", text)


def gpu_text(gpu: str, constants: KernelConstants) -> str:
    """The part of a calibration file about one GPU."""
    lines = [f"  {gpu}:"]
    groups: tuple[tuple[str, Iterable[tuple[str, Curve]]], ...] = (
        ("products", constants.products), ("experts", constants.experts), ("attention", constants.attention),
    )  # fmt: skip
    for group, curves in groups:
        lines.append(f"    {group}:")
        lines += [f"      {dtype}: {{{_numbers(curve)}}}" for dtype, curve in curves]
    lines += [
        f"    mixed_query_tile: {constants.mixed_query_tile:g}",
        f"    sort: {constants.sort:g}",
        f"    quantise_product: {_time(constants.quantise_product_s)}",
        f"    quantise_experts: {_time(constants.quantise_experts_s)}",
    ]
    return "\n".join(lines) + "\n"


def _numbers(curve: Curve) -> str:
    shown = []
    for field in fields(curve):
        value = getattr(curve, field.name)
        if value is not None:
            name = field.name.removesuffix("_s")
            shown.append(f"{name}: {_digits(value) if name == field.name else _time(value)}")
    return ", ".join(shown)


def _digits(value: float) -> str:
    """Three significant digits without an exponent."""
    return f"{float(f'{value:.3g}'):g}"


def _time(seconds: float) -> str:
    micro = seconds >= 0.9e-6 or not seconds
    return f"{_digits(seconds * 1e6)} us" if micro else f"{_digits(seconds * 1e9)} ns"


def write_file(path: Path, text: str) -> None:
    """Write a calibration file.

    Raises:
        InputError: where that is not possible, or the name is none that the catalogue would find.
    """
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(
            "a calibration is a YAML file", path="--out", found=str(path), allowed="a name ending in .yaml"
        )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError("this file cannot be written", file=str(path), found=str(error)) from None
