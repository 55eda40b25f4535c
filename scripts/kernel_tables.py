"""Write the kernel measurements of a system in the package aiconfigurator-core as tables that
``servetwin calibrate kernels`` reads.

``python scripts/kernel_tables.py rtx_pro_6000_server --gpu rtx-pro-6000 --shapes ../shared/kernels OUT`` takes the
shapes of the tables in ``--shapes``, and of each shape the fastest kernel of vLLM 0.24.0 that was measured. ``--engine
sglang --version 0.5.14 --kind moe --type w4a8_mxfp4_mxfp8=w4a16_mxfp4`` takes another engine's, of one table and one
data type at the shapes of another; ``--unaligned`` takes products of more than 256 rows at sizes that are no multiple
of a tile (257, 513, …), as steps with prompts have them, where the tables have such. It needs the package:
``pip install "servetwin[tables]"``.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

ATTENTION = ["num_heads", "num_kv_heads", "head_dim", "kv_cache_dtype", "batch"]
TABLES = {
    "gemm": ("gemm", "gemm_perf", ["dtype", "m", "n", "k"]),
    "decode_attention": ("attention", "generation_attention_perf", [*ATTENTION, "context"]),
    "prefill_attention": ("attention", "context_attention_perf", [*ATTENTION, "isl"]),
    "moe": (
        "moe", "moe_perf",
        ["dtype", "hidden", "inter", "topk", "num_experts", "moe_tp", "moe_ep", "token_distribution", "num_tokens"],
    ),
}  # fmt: skip
"""Our tables: the folder and the file of the package, and the columns that name a shape."""

NAMES = {
    "gemm_dtype": "dtype", "moe_dtype": "dtype", "hidden_size": "hidden", "inter_size": "inter",
    "moe_tp_size": "moe_tp", "moe_ep_size": "moe_ep", "distribution": "token_distribution", "batch_size": "batch",
    "num_key_value_heads": "num_kv_heads",
}  # fmt: skip
"""The package's names of columns, and ours."""


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", help="the package's name of the system")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--gpu", required=True, help="the name in the tables: that of a profile")
    parser.add_argument("--shapes", type=Path, required=True, help="folder of tables whose shapes are wanted")
    parser.add_argument("--engine", default="vllm", help="whose kernels")
    parser.add_argument("--version", default="0.24.0", help="of the engine")
    parser.add_argument("--kind", choices=list(TABLES), help="this table only")
    parser.add_argument("--type", help="NEW=LIKE: the data type NEW only, at the shapes of LIKE")
    parser.add_argument("--unaligned", action="store_true", help="products of rows that fill no tile, beyond 256")
    chosen = parser.parse_args()
    found = find_spec("aiconfigurator_core")
    if found is None or found.origin is None:
        raise SystemExit('aiconfigurator-core is not installed: pip install "servetwin[tables]"')
    data = Path(found.origin).parent / "systems" / "data" / chosen.system
    chosen.out.mkdir(parents=True, exist_ok=True)
    for kind in (chosen.kind,) if chosen.kind else TABLES:
        folder, file, columns = TABLES[kind]
        rows = measured(data / folder / chosen.engine / chosen.version / f"{file}.parquet", kind)
        tables = [pd.read_csv(path) for path in sorted(chosen.shapes.glob(f"kernels_{kind}_*.csv"))]
        wanted = pd.concat([table[columns] for table in tables]).drop_duplicates()
        if chosen.type:
            new, _, like = chosen.type.partition("=")
            wanted = wanted[wanted["dtype"] == like].assign(dtype=new)
        if chosen.unaligned and kind == "gemm":
            wanted = unaligned(wanted, rows["m"])
        table = wanted.merge(rows.groupby(columns, as_index=False)["latency"].min(), on=columns)
        table["latency_us"] = 1e3 * table.pop("latency")
        table.to_csv(chosen.out / f"kernels_{kind}_{chosen.gpu}.csv", index=False)
        print(f"{kind}: {len(table)} of {len(wanted)} shapes")


def unaligned(wanted: pd.DataFrame, measured: pd.Series[int]) -> pd.DataFrame:
    """The same shapes, with all odd numbers of rows above 256 that were measured instead of the round ones."""
    odd = sorted(rows for rows in set(measured) if rows > 256 and rows % 2)
    shapes = wanted[["dtype", "n", "k"]].drop_duplicates()
    between = shapes.merge(pd.DataFrame({"m": odd}), how="cross")
    return pd.concat([wanted[(wanted["m"] <= 256) | (wanted["m"] > max(odd, default=0))], between])


def measured(path: Path, kind: str) -> pd.DataFrame:
    """The rows of a table of the package, under our names; attention without windows, prompts without context."""
    rows = pd.read_parquet(path).rename(columns=NAMES)
    if "window_size" in rows:
        rows = rows[rows["window_size"] == 0]
    if kind == "decode_attention":
        return rows.assign(context=rows["isl"] + rows["step"])
    return rows[rows["step"] == 0] if kind == "prefill_attention" else rows


if __name__ == "__main__":
    main()
