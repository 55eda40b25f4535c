"""What the results say a transfer gets that is alone on its way, held against one that is."""

from __future__ import annotations

from typing import Any

import pytest

import servetwin

ALONE: dict[str, Any] = {
    "name": "alone", "model": "llama-3.1-8b",
    "workload": {"arrivals": {"rate_per_s": 0.1}, "prompts": 4000, "outputs": 2},
    "run": {"requests": 1},
}  # fmt: skip


def run(transfer: dict[str, Any], tensor: tuple[int, int] = (1, 1)) -> servetwin.Result:
    pools = [
        {"name": role, "role": role, "parallel": {"tensor": degree}}
        for role, degree in zip(("prefill", "decode"), tensor, strict=True)
    ]
    cluster = {"hardware": "h100-sxm", "pools": pools, "transfer": {"setup_ms": 0} | transfer}
    return servetwin.run(ALONE | {"cluster": cluster})


@pytest.mark.parametrize("tensor", [(1, 1), (2, 1), (1, 2), (4, 2)])
@pytest.mark.parametrize("link", [None, "ethernet-100", "ib-ndr-400"])
def test_a_pull_alone_gets_the_rate(link: str | None, tensor: tuple[int, int]) -> None:
    """Two ranks that fetch from two have twice the links; the latency of the way is all that is left."""
    found = run({"link": link}, tensor).summary()
    late_s = found["transfer_exposed_s"] - found["transfer_bytes"] / found["transfer_alone_bytes_per_s"]
    assert 0 <= late_s < 60e-6
    one = run({"link": link}).summary()["transfer_alone_bytes_per_s"]
    assert found["transfer_alone_bytes_per_s"] == pytest.approx(min(tensor) * one)


def test_a_push_goes_over_both_ways() -> None:
    """From the memory of the server it is loaded at what is left of the rate without the way into it."""
    result = run({"mode": "push", "link": "ethernet-25"})
    both = result.summary()["transfer_alone_bytes_per_s"]
    line = run({"link": "ethernet-25"}).summary()["transfer_alone_bytes_per_s"]
    (row,) = result.requests().to_dict("records")
    expected_s = row["transfer_bytes"] / both - row["transfer_bytes"] / 2 / line
    assert row["transfer_end_s"] - row["decode_reserved_s"] == pytest.approx(expected_s, rel=1e-2)


def test_a_link_that_takes_no_time_has_no_rate() -> None:
    found = run({"link": "instant"}).summary()
    assert found["transfer_alone_bytes_per_s"] is None and found["transfer_bytes_per_s"] is None
    assert found["transfer_ms.max"] == 0 and found["transfers"] == 1
