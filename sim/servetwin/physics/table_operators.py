"""Operators priced from measurements, each with its roofline to fall back on and the hardware's floor below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from servetwin.physics.collectives import AllReduce
from servetwin.physics.measured import FALLBACK, INTERPOLATED, TABLE, ExpertShape, NotMeasuredError, OperatorDatabase
from servetwin.physics.operators import ACTIVATION_BYTES, ElementWise, Experts, Gemm, Operator, Work
from servetwin.physics.overheads import Machine
from servetwin.physics.roofline import Cost
from servetwin.specs import Calibration, Gpu
from servetwin.specs.span import Span


@dataclass(slots=True)
class TableBook:
    """Where the prices of operators came from, and what was wrong with them.

    Attributes:
        factor: multiplies every measurement: ``cluster.slowdown``.
        asked: by operator, the questions whose answers were measured: method of the database and arguments.
        missing: by operator that fell back, what is missing.
        raised: by operator, how many measurements beat the hardware and were raised to its floor.
    """

    factor: float = 1.0
    asked: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    raised: dict[str, int] = field(default_factory=dict)

    def ask(self, name: str, method: Callable[..., float], *arguments: object) -> float | None:
        """A measurement [s], or None where there is none, which is noted."""
        try:
            seconds = method(*arguments) * self.factor
        except NotMeasuredError as error:
            self.missing.setdefault(name, str(error))
            return None
        self.asked.setdefault(name, []).append((method.__name__, *arguments))
        return seconds

    def at_least(self, name: str, seconds: float, floor_s: float) -> float:
        """``seconds``, or the floor where they beat it, which is counted [s]."""
        if seconds >= floor_s:
            return seconds
        self.raise_once(name)
        return floor_s

    def raise_once(self, name: str) -> None:
        """Count a measurement that was raised to the floor."""
        self.raised[name] = self.raised.get(name, 0) + 1

    def provenance(self, name: str, database: OperatorDatabase) -> str | None:
        """Where the price of an operator comes from, one of ``measured.PROVENANCE``; None if nobody asked for it."""
        if name in self.missing:
            return FALLBACK
        if name not in self.asked:
            return None
        exact = all(database.on_grid(str(method), *arguments) for method, *arguments in self.asked[name])
        return TABLE if exact else INTERPOLATED


@dataclass(frozen=True, slots=True)
class TableOperator:
    """An operator that depends on tokens only, priced from measurements; the work is that of its roofline.

    Args:
        roofline: the same operator by the roofline.
        method: the database's answer to a number of rows.
        arguments: what ``method`` asks besides rows.
        gpu: where it runs, for the floor.
        book: takes notes.
    """

    roofline: Operator
    method: Callable[..., float]
    arguments: tuple[object, ...]
    gpu: Gpu
    book: TableBook

    @property
    def name(self) -> str:
        """Its name."""
        return self.roofline.name

    def work(self, rows: int) -> Work:
        """What it needs for ``rows`` rows."""
        return self.roofline.work(rows)

    def cost(self, rows: int) -> Cost:
        """What it takes for ``rows`` rows: the measurement, never below the hardware's floor."""
        seconds = self.book.ask(self.name, self.method, rows, *self.arguments)
        if seconds is None:
            return self.roofline.cost(rows)
        work = self.work(rows)
        memory_s = work.bytes_moved / self.gpu.hbm_bytes_per_s
        compute_s = work.flops / self.gpu.peak(work.dtype)
        return Cost(self.book.at_least(self.name, seconds, max(memory_s, compute_s)), compute_s > memory_s)


def measured_operator(
    operator: Operator, database: OperatorDatabase, machine: Machine, book: TableBook, attention_s: float | None
) -> Operator:
    """An operator of a layer, priced from ``database`` where it is of a kind that such databases have.

    Norms, rotary embedding and activation are measured by nobody. Their traffic stays as it is; of the layer's
    constant, which is the launch of attention by its curve, the part that measured attention has too is taken away.

    Args:
        operator: by the roofline.
        database: the measurements.
        machine: where it runs.
        book: takes notes.
        attention_s: what measured attention of the layer takes whatever the context is [s]; None where it is not
            measured.
    """
    if isinstance(operator, Gemm):
        arguments: tuple[object, ...] = (round(operator.outer), round(operator.inner), operator.dtype)
        return TableOperator(operator, database.gemm, arguments, machine.gpu, book)
    if isinstance(operator, Experts):
        mlp = operator.mlp
        shape = ExpertShape(operator.hidden, mlp.intermediate, mlp.top_k, mlp.experts, operator.tensor, operator.dtype)
        return TableOperator(operator, database.experts, (shape,), machine.gpu, book)
    if isinstance(operator, ElementWise) and attention_s is not None:
        curve = machine.kernels.attending(operator.kv_cache)
        left = replace(curve, launch_s=max(0.0, curve.launch_s - attention_s))
        kernels = replace(machine.kernels, attention=(("bf16", left),))
        return replace(operator, machine=replace(machine, kernels=kernels))
    return operator


class TableAllReduce(AllReduce):
    """All-reduces priced from measurements, never below the wire; across link domains by NCCL's formulas.

    Args:
        gpu: its links, and the latencies of its profile to fall back on.
        gpus: number of GPUs.
        calibration: for the formula to fall back on.
        database: the measurements.
        book: takes notes.
        span: how the GPUs lie; in one domain if not given.
    """

    def __init__(
        self, gpu: Gpu, gpus: int, calibration: Calibration, database: OperatorDatabase, book: TableBook,
        span: Span | None = None,
    ) -> None:  # fmt: skip
        super().__init__(gpu, gpus, calibration, span)
        self._database, self._book = database, book

    def seconds(self, message_bytes: float, share: float = 1.0) -> float:
        """Latency [s] of reducing ``message_bytes`` [B] with ``share`` of the links' bandwidth."""
        if self._gpus == 1 or message_bytes <= 0 or self._wires is not None:
            return super().seconds(message_bytes, share)
        size = message_bytes / share
        values = round(size * self._stretch / ACTIVATION_BYTES)
        found = self._book.ask("all-reduce", self._database.all_reduce, values, self._gpus)
        if found is None:
            return super().seconds(message_bytes, share)
        return self._book.at_least("all-reduce", found, self.bound(size))
