"""The catalogue: models, GPUs and calibrations as data, and where to find them."""

from servetwin.catalog.find import Catalog

__all__ = ["Catalog"]
