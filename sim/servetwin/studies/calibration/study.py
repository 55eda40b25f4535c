"""``servetwin calibrate kernels``: curves for the GPUs whose kernels were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import CatalogError, InputError, nearest_name
from servetwin.specs import Calibration, KernelConstants
from servetwin.studies.calibration.collectives import COLLECTIVES, collective_residuals, profile_table
from servetwin.studies.calibration.curves import fit_gpu
from servetwin.studies.calibration.read import PER_TENSOR
from servetwin.studies.calibration.residuals import Residual
from servetwin.studies.calibration.tables import gpus_in
from servetwin.studies.calibration.write import calibration_text


@dataclass(frozen=True)
class KernelFits:
    """The curves of some GPUs.

    Attributes:
        base: the calibration that the others come from.
        base_file: where it stands.
        fitted: new curves, by name of the GPU.
        residuals: how well they fit.
        collectives: by name of the GPU, tables for its profile, which has none.
    """

    base: Calibration
    base_file: Path
    fitted: dict[str, KernelConstants]
    residuals: tuple[Residual, ...]
    collectives: dict[str, str]

    def error(self) -> str:
        """How well the curves fit, in words; collectives have none."""
        held = [
            (item.held_out.median, item) for item in self.residuals
            if item.held_out.median is not None and item.dtype != PER_TENSOR and item.operator not in COLLECTIVES
        ]  # fmt: skip
        if not held:
            return "no shape was left out of the fit to judge it by"
        worst, where = max(held, key=lambda pair: pair[0])
        return (
            "median error of each class of kernels on the shapes left out of the fit: "
            f"{median(error for error, _ in held):.0%}, at worst {worst:.0%} "
            f"({where.operator} of {where.gpu}, {where.dtype})"
        )

    def text(self, *, name: str, source: str, date: str) -> str:
        """The calibration file: that of ``base`` with the new curves.

        Args:
            name: its name; where it is that of the base the aliases stay.
            source: who measured the kernels.
            date: when that was fitted, ``YYYY-MM-DD``.
        """
        kernels = {**dict(self.base.kernels), **self.fitted}
        return calibration_text(
            self.base_file.read_text(encoding="utf-8"), kernels, name=None if name == self.base.name else name,
            source=source, date=date, error=self.error(),
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """Plain data for JSON; times in seconds, shares as fractions."""
        return {
            "base": self.base.name,
            "kernels": {gpu: _plain(constants) for gpu, constants in self.fitted.items()},
            "residuals": [item.document() for item in self.residuals],
            "error": self.error(),
            "collectives": self.collectives,
        }


def calibrate_kernels(folder: Path, catalog: Catalog, *, gpu: str | None = None, base: str = "default") -> KernelFits:
    """Fit the curves of kernels to tables of measurements.

    Args:
        folder: the tables, ``kernels_KIND_GPU.csv``.
        catalog: where GPU profiles and calibrations are.
        gpu: fit this GPU only.
        base: the calibration that gives all other constants.

    Raises:
        InputError: where a table is malformed, or there is none of ``gpu``.
        CatalogError: where a GPU has no profile.
    """
    start = catalog.calibration(base)
    tables = {table: catalog.gpu(table) for table in _wanted(gpus_in(folder), gpu, catalog)}
    kinds = gpus_in(folder)
    fitted, residuals, collectives = {}, [], {}
    for table, profile in tables.items():
        found = fit_gpu(folder, table, kinds[table], profile, start)
        fitted[profile.name] = found.kernels
        residuals += [*found.residuals, *collective_residuals(folder, table, profile, start)]
        if text := profile_table(folder, table, profile):
            collectives[profile.name] = text
    file = Path(catalog.describe("calibrations", base)["file"])
    return KernelFits(start, file, fitted, tuple(_in_order(residuals)), collectives)


def _wanted(tables: Sequence[str] | dict[str, list[str]], gpu: str | None, catalog: Catalog) -> list[str]:
    """The tables to fit: all, or those of one GPU."""
    if gpu is None:
        return list(tables)
    name = gpu if gpu in tables else catalog.gpu(gpu).name
    found = [table for table in tables if table == name or _name(table, catalog) == name]
    if not found:
        raise InputError(
            "there is no table of this GPU in the folder", path="--gpu", found=gpu, allowed=list(tables),
            nearest=nearest_name(gpu, tables),
        )  # fmt: skip
    return found


def _name(table: str, catalog: Catalog) -> str | None:
    try:
        return catalog.gpu(table).name
    except CatalogError:
        return None


def _in_order(residuals: Sequence[Residual]) -> list[Residual]:
    """By class of kernels first."""
    classes = list(dict.fromkeys(item.operator for item in residuals))
    return sorted(residuals, key=lambda item: classes.index(item.operator))


def _plain(constants: KernelConstants) -> dict[str, Any]:
    curves = {
        group: {dtype: asdict(curve) for dtype, curve in getattr(constants, group)}
        for group in ("products", "experts", "attention")
    }
    rest = {name: value for name, value in asdict(constants).items() if name not in curves}
    return {**curves, **rest}
