"""What a case measured, in few words: the names by which cases are put into groups and found in tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.serving import engine_family
from servetwin.studies.validation.trial import Trial

DENSE, MOE = "dense", "moe"
"""The classes of architectures: every weight for every token, or experts that tokens are routed to."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What a case measured.

    Attributes:
        hardware: the GPU, by its name in the catalog.
        engine: the family of the engine that was measured: ``vllm``, ``sglang`` or ``trtllm``.
        model: the model, by its name in the catalog.
        precision: number format of the weights.
        architecture: ``dense`` or ``moe``.
    """

    hardware: str
    engine: str
    model: str
    precision: str
    architecture: str

    def columns(self) -> dict[str, str]:
        """The traits by name, as tables have them."""
        return asdict(self)


COLUMNS = tuple(Traits.__dataclass_fields__)
"""The names of the traits, in the order of tables."""


def traits_of(case: Case, trial: Trial, catalog: Catalog) -> Traits:
    """The traits of a case.

    Args:
        case: the case.
        trial: one of its runs; all of them are of the same model on the same hardware.
        catalog: where the model is found.
    """
    cluster, model = trial.scenario["cluster"], str(trial.scenario["model"])
    native, architecture = _of_model(model, catalog)
    weights = cluster.get("precision", {}).get("weights", "auto")
    return Traits(
        hardware=str(cluster["hardware"]),
        engine=engine_family(str(case.need("engine"))),
        model=model,
        precision=native if weights == "auto" else str(weights),
        architecture=architecture,
    )


@lru_cache(maxsize=256)
def _of_model(name: str, catalog: Catalog) -> tuple[str, str]:
    """The precision that a model is published in, and its class. Cached: many cases are of the same few models."""
    model = catalog.model(name)
    return model.native_weights, MOE if model.is_moe else DENSE
