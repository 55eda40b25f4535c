"""Score servetwin against the measured vLLM 0.15.1 runs: ``python tests/accuracy/score_vllm.py``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.accuracy.vllm_cases import CASES, METRICS, Score, Stage, mean_absolute_error, mean_score, read_cases, score


def main() -> None:
    """Run the cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=Path, default=CASES, help="the cases (default: beside the repository)")
    parser.add_argument("--only", default="", help="only the cases whose id contains this")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--part", type=float, default=1.0, help="share of each stage's length (default: 1)")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each case, whose mean is scored (default: 1)")
    arguments = parser.parse_args()
    cases = [case for case in read_cases(arguments.cases) if arguments.only in case.id]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        by_seed = [
            list(pool.map(partial(score, part=arguments.part, seed=seed), cases)) for seed in range(arguments.seeds)
        ]
    print_scores([mean_score(runs) for runs in zip(*by_seed, strict=True)])


def print_scores(scores: Sequence[Score]) -> None:
    """Every case with its stages, then the mean absolute errors by hardware."""
    print(f"{'':58}" + "".join(f"{metric:^26}" for metric in METRICS))
    print(f"{'case':58}" + f"{'sim':>9}{'real':>9}{'error':>8}" * len(METRICS))
    for item in scores:
        _print_stage(item.case.removeprefix("vllm-"), item.summary)
        for stage in item.stages if len(item.stages) > 1 else ():
            _print_stage(f"    {stage.name}", stage)
    print(f"\n{'mean absolute error, %':58}" + "".join(f"{metric:>26}" for metric in METRICS))
    for hardware in [*dict.fromkeys(item.hardware for item in scores), "all"]:
        chosen = [item for item in scores if hardware in ("all", item.hardware)]
        errors = [mean_absolute_error(chosen, metric) for metric in METRICS]
        print(f"{hardware:48}{len(chosen):>10}" + "".join(f"{error:>26.2f}" for error in errors))


def _print_stage(name: str, stage: Stage) -> None:
    cells = [f"{stage.predicted[m]:>9.2f}{stage.measured[m]:>9.2f}{stage.error(m):>+8.1f}" for m in METRICS]
    print(f"{name:58}" + "".join(cells))


if __name__ == "__main__":
    main()
