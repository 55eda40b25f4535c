"""The adapter of the optional package: against a small fake of it, and against the package where it is installed."""

from __future__ import annotations

import sys
from enum import Enum
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.errors import CatalogError, ScenarioError
from servetwin.physics import aiconfigurator
from servetwin.physics.aiconfigurator import PACKAGE, SYSTEMS, VERSION, AiConfigurator, check_available, open_database
from servetwin.physics.measured import ExpertShape, Heads, NotMeasuredError
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.physics.tables import TableStepTime

CATALOG = Catalog()
HEADS = Heads(32, 8, 128, None, "bf16")
MIXTRAL = ExpertShape(4_096, 14_336, 2, 8, 2, "bf16")


class PerfDataNotAvailableError(RuntimeError): ...


class Mode(Enum):
    """Stands for every enumeration of formats."""

    bfloat16 = 1
    fp8 = 2
    fp8_block = 3
    sq = 4
    int4_wo = 5
    nvfp4 = 6
    w4a16_mxfp4 = 7
    w4a8_mxfp4_mxfp8 = 8
    half = 9


def fake_operations() -> SimpleNamespace:
    """Operators that keep what they were made of and load nothing."""

    def operator(kind: str) -> type:
        def make(self: Any, name: str, layers: int, *arguments: object, **named: object) -> None:
            self.kind, self.arguments, self.named = name, arguments, named
            assert layers == 1

        return type(kind, (), {"__init__": make, "load_data": staticmethod(lambda database: None)})

    names = ("GEMM", "MoE", "GenerationAttention", "ContextAttention", "CustomAllReduce")
    return SimpleNamespace(**{name: operator(name) for name in names})


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A package that answers in milliseconds by kind, and remembers the questions."""
    state: dict[str, Any] = {"asked": [], "answers": {}}

    def evaluate(database: Any, operator: Any, **shape: object) -> float:
        state["asked"].append((operator.kind, operator.arguments, operator.named, shape))
        answer = state["answers"].get((operator.kind, *operator.arguments), state["answers"].get(operator.kind))
        if answer is None:
            raise PerfDataNotAvailableError("perf database error: nothing")
        return answer

    errors = dict.fromkeys(
        ("InterpolationDataNotAvailableError", "MissingSystemFlopsError", "EmpiricalNotImplementedError"), KeyError
    )
    common = SimpleNamespace(
        GEMMQuantMode=Mode, MoEQuantMode=Mode, KVCacheQuantMode=Mode, FMHAQuantMode=Mode, CommQuantMode=Mode
    )
    engine = ModuleType("aiconfigurator_core.sdk.engine")
    engine._evaluate_single_op = evaluate  # type: ignore[attr-defined]
    sdk = ModuleType("aiconfigurator_core.sdk")
    sdk.common, sdk.operations = common, fake_operations()  # type: ignore[attr-defined]
    sdk.errors = SimpleNamespace(PerfDataNotAvailableError=PerfDataNotAvailableError, **errors)  # type: ignore[attr-defined]
    for name, module in (
        ("aiconfigurator_core", ModuleType("aiconfigurator_core")), ("aiconfigurator_core.sdk", sdk),
        ("aiconfigurator_core.sdk.engine", engine),
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    return state


@pytest.fixture
def database(package: dict[str, Any]) -> AiConfigurator:
    tables = SimpleNamespace(version="0.24.0", _gemm_data={Mode.bfloat16: {64: {6_144: {4_096: {"latency": 1}}}}})
    tables._moe_data = {Mode.bfloat16: {"balanced": {2: {8: {4_096: {14_336: {2: {1: {16: {"latency": 1}}}}}}}}}}
    tables._custom_allreduce_data = {Mode.half: {4: {"AUTO": {8_192: {"latency": 1}}}}}
    return AiConfigurator(tables, "vllm", "h100-sxm")


def test_questions_and_units(package: dict[str, Any], database: AiConfigurator) -> None:
    """Milliseconds become seconds, and every figure lands where the package expects it."""
    assert database.name == "aiconfigurator-core 0.12.0 (vllm 0.24.0 on h100-sxm)"
    package["answers"] = {
        "GEMM": 0.02, "MoE": 0.5, "GenerationAttention": 0.06, "ContextAttention": 0.05, "CustomAllReduce": 0.011
    }  # fmt: skip
    assert database.gemm(64, 6_144, 4_096, "bf16") == pytest.approx(20e-6)
    assert database.experts(16, MIXTRAL) == pytest.approx(500e-6)
    assert database.decode(32, 1_000, HEADS) == pytest.approx(60e-6)
    assert database.prefill(512, 100, HEADS._replace(window=128)) == pytest.approx(50e-6)
    assert database.all_reduce(8_192, 4) == pytest.approx(11e-6)
    prompt = {"is_context": True, "batch_size": 1, "s": 1}
    assert package["asked"] == [
        ("GEMM", (6_144, 4_096, Mode.bfloat16), {}, {**prompt, "x": 64}),
        ("MoE", (4_096, 14_336, 2, 8, 2, 1, Mode.bfloat16, "balanced", 1), {}, {**prompt, "x": 16}),
        ("GenerationAttention", (32, 8, Mode.bfloat16), {"head_size": 128, "window_size": 0},
         {"is_context": False, "batch_size": 32, "s": 1_000}),
        ("ContextAttention", (32, 8, Mode.bfloat16, Mode.bfloat16), {"head_size": 128, "window_size": 128},
         {**prompt, "s": 512, "prefix": 100}),
        ("CustomAllReduce", (8_192, 4), {}, {**prompt, "x": 1}),
    ]  # fmt: skip


def test_the_first_format_that_was_measured(package: dict[str, Any], database: AiConfigurator) -> None:
    shape = MIXTRAL._replace(dtype="fp8")
    block = ("MoE", 4_096, 14_336, 2, 8, 2, 1, Mode.fp8_block, "balanced", 1)
    tensor = ("MoE", 4_096, 14_336, 2, 8, 2, 1, Mode.fp8, "balanced", 1)
    package["answers"] = {block: 0.3, tensor: 1.2}
    assert database.experts(16, shape) == pytest.approx(300e-6)
    del package["answers"][block]
    assert database.experts(16, shape) == pytest.approx(1_200e-6)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda d: d.gemm(1, 2, 3, "int4"), "no matrix products in int4"),
        (lambda d: d.gemm(1, 2, 3, "ternary"), "no matrix products in ternary"),
        (lambda d: d.experts(1, MIXTRAL), "no 8 experts of 4096 x 14336, top 2, shared out over 2 GPUs, in bf16"),
        (lambda d: d.decode(1, 1, HEADS), "no attention of 32 over 8 heads of 128 with a cache in bf16"),
        (lambda d: d.prefill(1, 0, HEADS._replace(window=128)), "bf16 and a window of 128"),
        (lambda d: d.all_reduce(1, 4), "no all-reduces"),
        (lambda d: d.all_reduce(1, 16), "all-reduces over 2 to 8 GPUs, not 16"),
    ],
)
def test_what_is_missing_is_said(package: dict[str, Any], database: AiConfigurator, ask: Any, text: str) -> None:
    with pytest.raises(NotMeasuredError, match=text):
        ask(database)


def test_a_table_that_answers_nothing_is_no_answer(package: dict[str, Any], database: AiConfigurator) -> None:
    package["answers"] = {"GEMM": 0.0}
    with pytest.raises(NotMeasuredError):
        database.gemm(1, 2, 3, "bf16")


def test_on_the_grid(database: AiConfigurator) -> None:
    assert database.on_grid("gemm", 64, 6_144, 4_096, "bf16")
    assert not database.on_grid("gemm", 65, 6_144, 4_096, "bf16")
    assert not database.on_grid("gemm", 64, 6_144, 4_096, "int4")
    assert database.on_grid("experts", 16, MIXTRAL)
    assert not database.on_grid("experts", 16, MIXTRAL._replace(tensor=4))
    assert database.on_grid("all_reduce", 8_192, 4)
    assert not database.on_grid("all_reduce", 8_193, 4)
    assert not database.on_grid("decode", 32, 1_000, HEADS)


def version(monkeypatch: pytest.MonkeyPatch, found: str | None) -> None:
    def answer(name: str) -> str:
        assert name == PACKAGE
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(aiconfigurator.metadata, "version", answer)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    version(monkeypatch, None)
    with pytest.raises(ScenarioError, match="in a package that is not installed: aiconfigurator-core") as caught:
        check_available(CATALOG.gpu("h100-sxm"))
    assert caught.value.path == "physics.backend"
    assert 'pip install "servetwin[tables]"' in str(caught.value)


def test_with_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    version(monkeypatch, "0.13.0")
    with pytest.raises(ScenarioError, match="another version of aiconfigurator-core is installed") as caught:
        check_available(CATALOG.gpu("h100-sxm"))
    assert "aiconfigurator-core 0.13.0" in str(caught.value) and VERSION in str(caught.value)


def test_a_gpu_without_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    version(monkeypatch, VERSION)
    check_available(CATALOG.gpu("l40s"))
    with pytest.raises(CatalogError, match="no measured operators for this GPU") as caught:
        check_available(CATALOG.gpu("mi300x"))
    assert caught.value.found == "mi300x"
    assert "rtx-pro-6000" in caught.value.allowed


def test_the_extra_pins_the_version_that_the_adapter_reads() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'tables = ["{PACKAGE}=={VERSION}"]' in text


# -- with the package ------------------------------------------------------------------------------------------------


def installed() -> None:
    try:
        found = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{PACKAGE} {VERSION} is not installed: pip install 'servetwin[tables]'")
    if found != VERSION:
        pytest.skip(f"{PACKAGE} {VERSION} is needed, {found} is installed")


def decode_shape(batch: int, context: int) -> StepShape:
    return StepShape(batch, batch, True, batch, batch, (batch * context,), (batch,))


@pytest.mark.parametrize("gpu", sorted(SYSTEMS))
def test_every_system_has_what_a_dense_model_needs(gpu: str) -> None:
    installed()
    database = open_database(CATALOG.gpu(gpu), "vllm")
    of = TableStepTime(
        CATALOG.model("llama-3.1-8b"), CATALOG.gpu(gpu), tensor=2, weights="bf16", kv_cache="bf16", sampling="greedy",
        calibration=CATALOG.calibration("default"), database=database,
    )  # fmt: skip
    plain = RooflineStepTime(
        CATALOG.model("llama-3.1-8b"), CATALOG.gpu(gpu), tensor=2, weights="bf16", kv_cache="bf16", sampling="greedy",
        calibration=CATALOG.calibration("default"),
    )  # fmt: skip
    for batch, context in ((1, 500), (32, 1_000), (128, 2_000)):
        shape = decode_shape(batch, context)
        # Two accounts of the same machine: one from its kernels, one from its data sheet.
        assert 0.6 < of.price(shape).total_ps / plain.price(shape).total_ps < 1.7
    assert not [text for text in of.remarks() if "does not have" in text and "all-reduce" not in text]


def test_figures_of_the_h100() -> None:
    """Rows of the package's own tables: vLLM 0.24.0 on H100."""
    installed()
    database = open_database(CATALOG.gpu("h100-sxm"), "vllm")
    assert database.name.endswith("(vllm 0.24.0 on h100-sxm)")
    assert database.gemm(64, 6_144, 4_096, "bf16") == pytest.approx(23.07e-6, rel=0.01)
    assert database.decode(32, 1_024, HEADS) == pytest.approx(59.9e-6, rel=0.01)
    assert database.on_grid("gemm", 64, 6_144, 4_096, "bf16")
    assert not database.on_grid("gemm", 65, 6_144, 4_097, "bf16")
    with pytest.raises(NotMeasuredError, match="no matrix products in int4"):
        database.gemm(64, 6_144, 4_096, "int4")
