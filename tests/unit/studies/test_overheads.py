"""The constants of families of engines: the fit finds what was planted, and no constant is of a model."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.studies.validation.small_cases import inference_perf, sweep, table, write

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError
from servetwin.scenario.engines import CALIBRATIONS
from servetwin.scenario.load import validate_mapping
from servetwin.scenario.pools import pool_parts
from servetwin.scenario.run import execute
from servetwin.specs import Calibration
from servetwin.studies.overheads.constants import CONSTANTS
from servetwin.studies.overheads.effects import METRICS, Effects, effects_of, in_every_step
from servetwin.studies.overheads.fit import Row, fit
from servetwin.studies.overheads.groups import Fitted, trials_of_family
from servetwin.studies.overheads.runs import PointEffects
from servetwin.studies.overheads.study import solve
from servetwin.studies.overheads.write import family_text
from servetwin.studies.validation.cases import Case, read_case_file

CATALOG = Catalog()
DEFAULT = CATALOG.calibration("default")


def rows(values: tuple[float, float], off: dict[int, float] | None = None) -> list[Row]:
    """Figures 10 + x, 10 + 2 y, 10 + x + y, … measured with these constants, some of them off by a factor."""
    slopes = [(1.0, 0.0), (0.0, 2.0), (1.0, 1.0), (2.0, 1.0), (1.0, 3.0), (3.0, 1.0), (2.0, 2.0)]
    return [
        Row(10.0, slope, (10.0 + slope[0] * values[0] + slope[1] * values[1]) * (off or {}).get(index, 1.0), 1.0, 0.03)
        for index, slope in enumerate(slopes)
    ]


def test_the_fit_finds_planted_constants() -> None:
    found = fit(rows((0.5, 1.5)), (0.0, 0.0), [(0.0, 9.0)] * 2, (1.0, 1.0), 1e-9)
    assert found == pytest.approx([0.5, 1.5], rel=1e-4)


def test_one_wrong_figure_hardly_moves_it() -> None:
    found = fit(rows((0.5, 1.5), {3: 2.0}), (0.0, 0.0), [(0.0, 9.0)] * 2, (1.0, 1.0), 1e-9)
    assert found == pytest.approx([0.5, 1.5], rel=0.1)


def test_bounds_hold_and_the_rest_makes_up_for_them() -> None:
    low, high = fit(rows((-1.0, 1.5)), (0.0, 0.0), [(0.0, 9.0), (0.0, 1.0)], (1.0, 1.0), 1e-9)
    assert low == 0.0
    assert 0.0 < high <= 1.0


def test_what_no_figure_says_stays_where_it_is() -> None:
    blind = [replace(row, slopes=(row.slopes[0], 0.0)) for row in rows((0.5, 0.0))[:1]]
    assert fit(blind, (0.0, 7.0), [(0.0, 9.0)] * 2, (1.0, 1.0), 0.01)[1] == 7.0


def test_at_most_ten_constants_and_none_of_a_model() -> None:
    assert len(CONSTANTS) <= 10
    of_calibration = {field.name: field.type for field in fields(Calibration)}
    models = CATALOG.names("models")
    for constant in CONSTANTS:
        # A number, not a table by model or anything else.
        assert of_calibration[constant.field] == "float"
        assert 0.0 <= constant.of(DEFAULT) <= constant.most
    for family in CALIBRATIONS.values():
        content = yaml.safe_load(Path(CATALOG.describe("calibrations", family)["file"]).read_text(encoding="utf-8"))
        assert not set(_keys(content)) & set(models)


def _keys(content: Any) -> list[str]:
    if isinstance(content, dict):
        return [*map(str, content), *(key for value in content.values() for key in _keys(value))]
    return [key for item in content for key in _keys(item)] if isinstance(content, list) else []


@pytest.mark.parametrize("family", CALIBRATIONS)
def test_families_share_kernels_and_say_data_date_and_error(family: str) -> None:
    calibration = CATALOG.calibration(CALIBRATIONS[family])
    kernels, shared = dict(calibration.kernels), dict(DEFAULT.kernels)
    # TensorRT-LLM has products in 8 bits of its own; all else is shared.
    own = {"products", "quantise_product_s"} if family == "trtllm" else set()
    assert kernels.keys() == shared.keys()
    for gpu, constants in kernels.items():
        differs = {
            item.name for item in fields(constants) if getattr(constants, item.name) != getattr(shared[gpu], item.name)
        }
        assert differs <= own
        assert [dtype for dtype, curve in constants.products if curve != shared[gpu].product(dtype)] in (
            [], ["fp8", "fp8_block"],
        )  # fmt: skip
    (said,) = [entry for entry in calibration.sources if entry[0].startswith("serving") and family in entry[1]]
    assert "errors, TPOT" in said[1]
    assert said[2].startswith("2026-")


def closed_loop(**changes: Any) -> dict[str, Any]:
    return {
        "name": "loop", "model": "mixtral-8x7b",
        "cluster": {"hardware": "h100-sxm", "parallel": {"tensor": 2}, "engine": {"prefix_caching": False}},
        "workload": {
            "arrivals": {"process": "closed-loop", "concurrency": 16},
            "prompts": {"distribution": "uniform", "min": 300, "max": 500},
            "outputs": {"distribution": "uniform", "min": 80, "max": 120}, "sampling": "greedy",
        },
        "run": {"requests": 120}, **changes,
    }  # fmt: skip


MOVES = {
    "step.host": 1e-3, "step.per_request": 20e-6, "step.experts_eager": 100e-6, "step.launch": -0.5,
    "step.experts_launch": 0.4, "step.router": 500e-9, "step.all_reduce": 0.5, "front_end.per_request": 3e-3,
    "front_end.per_prompt_token": 5e-6, "output.per_request": 100e-6,
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_effects_are_those_of_a_run_with_that_constant(name: str, tmp_path: Path) -> None:
    assert set(MOVES) == {constant.name for constant in CONSTANTS}
    scenario = validate_mapping(closed_loop(), CATALOG)
    parts = pool_parts(scenario, scenario.cluster.pools[0], "cluster.pools.0", CATALOG)
    before = effects_of(scenario, parts, execute(scenario, catalog=CATALOG), 0, None)
    assert before is not None
    values = {constant.name: constant.of(DEFAULT) for constant in CONSTANTS}
    values[name] += MOVES[name]
    path = tmp_path / "moved.yaml"
    base = Path(CATALOG.describe("calibrations", "default")["file"]).read_text(encoding="utf-8")
    path.write_text(family_text(base, values, name="moved", source="a test", date="2026-12-01"), encoding="utf-8")
    after = execute(validate_mapping(closed_loop(physics={"calibration": str(path)}), CATALOG), catalog=CATALOG)
    steps = [MOVES[name] if constant.name == name else 0.0 for constant in CONSTANTS]
    for metric in METRICS:
        told = after.summary()[metric]
        moved = abs(told - before.predicted[metric])
        # Of the change itself, or less than what waiting for the next step makes of a later arrival.
        assert before.at(metric, steps) == pytest.approx(told, abs=max(0.12 * moved, 0.05 * told)), metric


def test_dense_models_have_no_experts_to_launch() -> None:
    scenario = validate_mapping({**closed_loop(), "model": "llama-3.1-8b"}, CATALOG)
    parts = pool_parts(scenario, scenario.cluster.pools[0], "cluster.pools.0", CATALOG)
    launch, experts, router = in_every_step(scenario, parts)
    kernels = DEFAULT.kernels_for("h100-sxm", "hopper")
    assert kernels is not None
    product_s, attention_s = kernels.product("bf16").launch_s, kernels.attending("bf16").launch_s
    # Four products and attention in each of 32 layers, and the logits.
    assert launch == pytest.approx(32 * (4 * product_s + attention_s) + product_s, rel=1e-6)
    assert experts == router == 0.0


def test_a_written_file_reads_back(tmp_path: Path) -> None:
    base = Path(CATALOG.describe("calibrations", "default")["file"]).read_text(encoding="utf-8")
    values = {constant.name: constant.unit_s * 0.25 for constant in CONSTANTS}
    path = tmp_path / "mine.yaml"
    path.write_text(family_text(base, values, name="mine", source='a "test"', date="2026-12-01"), encoding="utf-8")
    found = CATALOG.calibration(str(path))
    assert {constant.name: constant.of(found) for constant in CONSTANTS} == pytest.approx(values)
    assert (found.name, found.kernels) == ("mine", DEFAULT.kernels)
    assert ('a "test"', "2026-12-01") in [entry[1:] for entry in found.sources]
    # Comments of other lines stay.
    assert "# not hidden by asynchronous scheduling" in path.read_text(encoding="utf-8")


def test_a_file_on_a_base_gets_the_parts_that_it_lacks(tmp_path: Path) -> None:
    text = 'name: mine\nengine: mine\nbase: default\nsources:\n  - {what: "all", source: "me", date: 2026-12-01}\n'
    values = {constant.name: constant.unit_s * 0.5 for constant in CONSTANTS}
    path = tmp_path / "mine.yaml"
    path.write_text(family_text(text, values, name=None, source="a test", date="2026-12-01"), encoding="utf-8")
    found = CATALOG.calibration(str(path))
    assert found.step_s == pytest.approx(0.5e-6)
    assert found.sampling_s == DEFAULT.sampling_s
    # Written once more, nothing stands twice.
    again = family_text(path.read_text(encoding="utf-8"), values, name=None, source="a test", date="2026-12-01")
    assert again == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("every", "kept"), [(1, ["conc_1", "conc_2"]), (2, ["conc_1"]), (9, ["conc_1"])])
def test_each_so_many_th_point_of_a_sweep(tmp_path: Path, every: int, kept: list[str]) -> None:
    cases = read_case_file(write(tmp_path, [sweep("a"), sweep("b"), sweep("other", engine="sglang 0.5.9")])).cases
    found = trials_of_family(cases, CATALOG, "vllm", every)
    assert [(case.id, trial.points[0].stage) for case, trial in found] == [
        (name, stage) for name in "ab" for stage in kept
    ]


def test_what_a_family_is_fitted_to(tmp_path: Path) -> None:
    cases = read_case_file(
        write(tmp_path, [inference_perf(), inference_perf("old", scored_set="other"), table(), sweep("sweep")])
    ).cases
    assert [case.id for case, _ in trials_of_family(cases, CATALOG, "vllm", every=2)] == ["perf", "sweep"]
    with pytest.raises(InputError, match="no case of trtllm"):
        trials_of_family(cases, CATALOG, "trtllm")


def test_recorded_runs_outweigh_sweeps(tmp_path: Path) -> None:
    """Both want another host constant: the recorded run decides, and a sweep alone decides for itself."""
    recorded, guessed = read_case_file(write(tmp_path, [inference_perf(), sweep("sweep")])).cases
    host = tuple(1000.0 if constant.name == "step.host" else 0.0 for constant in CONSTANTS)
    origin = [constant.of(DEFAULT) for constant in CONSTANTS]

    def fitted(case: Case, measured_ms: float) -> Fitted:
        effects = Effects({"tpot_ms.mean": 10.0}, {"tpot_ms.mean": host})
        return Fitted(case, (PointEffects("all", {"tpot_ms.mean": measured_ms}, effects),), "h100-sxm", "llama-3.1-8b")

    def moved_us(*items: Fitted) -> float:
        return 1e6 * (solve(items, origin, "vllm", held=1e-6)[0] - origin[0])

    slower, faster = fitted(recorded, 10.2), fitted(guessed, 9.8)
    assert moved_us(slower, faster) == pytest.approx(200, rel=0.15)
    assert moved_us(faster) == pytest.approx(-200, rel=0.02)


def test_a_file_of_another_layout_is_refused() -> None:
    with pytest.raises(InputError, match="not laid out"):
        family_text("{name: mine}", {}, name=None, source="x", date="2026-12-01")
