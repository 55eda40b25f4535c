"""The scenario that ``servetwin new`` writes: small, complete, and every line with what else it could be."""

from __future__ import annotations

import re
from pathlib import Path

from servetwin.catalog.yaml_file import parse_yaml
from servetwin.errors import ScenarioError, shorten
from servetwin.paths import expanded
from servetwin.scenario.schema import check_name, name_of

_TEMPLATE = """\
# What is this scenario to find out? This comment is what `servetwin list scenarios` shows of it.
# Run it:        servetwin run {file}
# Try a change:  servetwin run {file} --set cluster.replicas=4
# Look inside:   servetwin explain {file} --batch 32 --context 2000
#
# For completion in an editor: servetwin schema scenario > scenario.schema.json, and as the first line of this file
#   # yaml-language-server: $schema=scenario.schema.json
name: {name}
description: Chat with Llama-3.1-8B on two H100s.

# A bundled model (servetwin list models), or the path of a Hugging Face config.json.
model: llama-3.1-8b

# Whose rules and defaults; a version is text.
engine: {{name: vllm, version: "0.15"}}

cluster:
  hardware: h100-sxm            # servetwin list hardware
  replicas: 2                   # independent copies of the model behind one router
  parallel: {{tensor: 1}}         # GPUs that share every layer of a replica
  # precision: {{weights: fp8, kv_cache: fp8}}      # by default as the checkpoint has it
  # engine:                                       # as in vLLM; left out, vLLM's own defaults by version and GPU
  #   max_num_batched_tokens: 8192                # token budget of a step
  #   max_num_seqs: 256                           # most requests running at once
  #   scheduling: fcfs                            # servetwin list policies

router: round-robin             # or least-requests, least-tokens, power-of-two, random

# The name of a bundled workload (servetwin list workloads) would do here, or a recorded trace:
#   workload: {{trace: {{path: my-trace.csv}}}}
workload:
  arrivals: {{process: poisson, rate_per_s: 10}}
  prompts: {{distribution: lognormal, mean: 800, std: 700, min: 10, max: 8000}}    # tokens
  outputs: {{distribution: lognormal, mean: 220, std: 180, min: 2, max: 1500}}     # tokens

# What the service has promised: limits on percentiles, and those that a single request must meet.
slo:
  ttft_ms: {{p99: 500}}
  tpot_ms: {{p99: 25}}
  goodput: {{ttft_ms: 500, tpot_ms: 25}}

run:
  requests: 1000                # or duration_s
  seed: 0                       # the same seed gives the same results, to the byte
"""

_SUFFIXES = (".yaml", ".yml")


def write_starter(reference: str) -> tuple[str, Path]:
    """Write a starter scenario.

    Args:
        reference: the name of the scenario, or the path of its file; without an ending it gets ``.yaml``.

    Returns:
        The name of the scenario, and its file.

    Raises:
        ScenarioError: the file exists or cannot be written, or its name is no name of a scenario.
    """
    file = expanded(reference if reference.endswith(_SUFFIXES) else f"{reference}.yaml")
    name = re.sub(r"\.ya?ml$", "", file.name)
    try:
        check_name(name)
    except ValueError as error:
        raise ScenarioError(str(error), path="NAME", found=reference, nearest=name_of(name)) from None
    if not file.parent.is_dir():
        raise ScenarioError(
            "there is no such directory", path="NAME", found=str(file.parent), hint="make it first, or leave it out"
        )
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(_TEMPLATE.format(name=_as_text(name), file=shorten(str(file))))
    except FileExistsError:
        raise ScenarioError(
            "there is such a file already, and it is not overwritten", path="NAME", found=str(file),
            hint="choose another name, or remove the file",
        ) from None  # fmt: skip
    except OSError as error:
        raise ScenarioError(f"the file cannot be written: {error.strerror}", path="NAME", found=str(file)) from None
    return name, file


def _as_text(name: str) -> str:
    """A name as YAML for which it is text; in quotes where it would be a number, a date or a truth value.

    >>> _as_text("my-study"), _as_text("123"), _as_text("2024-05-10")
    ('my-study', '"123"', '"2024-05-10"')
    """
    # Other readers of YAML know dates and octal and hexadecimal numbers, which are all of digits at first.
    plain = name[0].isalpha() and parse_yaml(name) == name
    return name if plain else f'"{name}"'
