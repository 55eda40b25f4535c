"""The price of an engine step from measured operators."""

from __future__ import annotations

from servetwin.physics.attention import Slopes
from servetwin.physics.collectives import tensor_span
from servetwin.physics.measured import OperatorDatabase
from servetwin.physics.operators import Operator, head_operator, layer_operators
from servetwin.physics.overheads import Machine
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.physics.table_attention import TableAttention
from servetwin.physics.table_operators import TableAllReduce, TableBook, measured_operator
from servetwin.specs import Calibration, Gpu, ModelSpec
from servetwin.specs.span import Span


class TableStepTime(RooflineStepTime):
    """Prices steps from measured operators; implements ``StepTime``.

    Matrix products, routed experts, grouped attention and all-reduces are looked up in ``database``, which
    interpolates; an operator that it does not have, and everything that nobody measures (norms, sampling, the
    engine's own time), is priced as ``RooflineStepTime`` does. Each look-up is made when a number of tokens or of
    requests is first seen, and kept as whole picoseconds, so that prices have the same form as on the roofline.
    A measurement that beats the hardware is raised to its floor, and counted.

    Args:
        model, gpu, tensor, weights, kv_cache, sampling, calibration: as ``RooflineStepTime``.
        database: the measured operators.
        slowdown: multiplies every measurement; ``gpu``, ``calibration`` and ``span`` are slowed down already.
        span, context, uneven_heads, synchronous: as ``RooflineStepTime``.

    Raises:
        CapacityError, CatalogError: as ``RooflineStepTime``.
    """

    def __init__(
        self, model: ModelSpec, gpu: Gpu, *, tensor: int, weights: str, kv_cache: str, sampling: str,
        calibration: Calibration, database: OperatorDatabase, slowdown: float = 1.0, span: Span | None = None,
        context: int = 1, uneven_heads: bool = False, synchronous: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            model, gpu, tensor=tensor, weights=weights, kv_cache=kv_cache, sampling=sampling, calibration=calibration,
            span=span, context=context, uneven_heads=uneven_heads, synchronous=synchronous,
        )  # fmt: skip
        machine = Machine.of(gpu, calibration)
        self._database = database
        self._book = book = TableBook(slowdown)
        self._measured = TableAttention(model, tensor, self.kv_cache, machine, database, book, context)
        self.attention = self._measured
        self.links.reduce = TableAllReduce(gpu, tensor, calibration, database, book, tensor_span(span, tensor))
        self.head = measured_operator(head_operator(model, tensor, machine), database, machine, book, None)
        self.operators = []
        for index, layer in enumerate(model.layers):
            plain: list[Operator] = layer_operators(
                model, layer.attention, layer.mlp, weights=weights, kv_cache=self.kv_cache, tensor=tensor,
                machine=machine,
            )  # fmt: skip
            constant_s = self._measured.constant_s(index)
            self.operators += [
                (layer.count, measured_operator(operator, database, machine, book, constant_s)) for operator in plain
            ]

    def slopes_of(self, shape: StepShape) -> Slopes:
        """The price of a token of context of the step's decodes, by attention kind."""
        return self._measured.slopes_of(shape.decodes, shape.width, bool(shape.chunks))

    def attention_ps(self, shape: StepShape) -> int:
        """What attention takes besides reading and attending context [ps]; it counts as memory."""
        return self._measured.fixed_ps(shape.decodes, shape.requests)

    def provenance(self, name: str) -> str:
        """Where the price of an operator comes from, one of ``measured.PROVENANCE``; may take a second."""
        if name == "attention.requests":
            names = [self.provenance(decode) for decode in self._book.asked if decode.startswith("attention.decode")]
            return names[0] if names else super().provenance(name)
        return self._book.provenance(name, self._database) or super().provenance(name)

    def remarks(self) -> list[str]:
        """What a user should know about the prices so far: operators without measurements, and impossible ones."""
        found = []
        if self._book.missing:
            reasons: dict[str, list[str]] = {}
            for name, reason in self._book.missing.items():
                reasons.setdefault(reason, []).append(name)
            texts = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
            found.append(
                f"{self._database.name} does not have every operator of {self.model.name}: the roofline prices {texts}"
            )
        if self._book.raised:
            counts = ", ".join(f"{name} ({count:,})" for name, count in self._book.raised.items())
            found.append(
                f"{self._database.name} has measurements that beat the data sheet of {self.gpu.name}, which were "
                f"raised to what it allows: {counts}"
            )
        return found
