"""Links, storage and servers: every figure with its source, and mistakes named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.catalog.test_hardware import check_sources

from servetwin.catalog import Catalog
from servetwin.errors import CatalogError

CATALOG = Catalog()
ROOT = Path(__file__).resolve().parents[3] / "hardware_profiles"
TODAY = {"source": "nobody", "date": "2026-11-30"}


@pytest.mark.parametrize("name", CATALOG.names("links"))
def test_links(name: str) -> None:
    link = CATALOG.link(name)
    assert 1e9 < link.bytes_per_s <= 900e9 and 0 <= link.latency_s < 1e-3
    assert {source.figure for source in link.sources} >= {"bandwidth"}
    check_sources(link.sources)


@pytest.mark.parametrize("name", CATALOG.names("storage"))
def test_storage(name: str) -> None:
    tier = CATALOG.storage(name)
    assert 1e11 < tier.capacity_bytes < 1e14
    assert 1e9 < tier.write_bytes_per_s <= tier.read_bytes_per_s < 1e12
    assert 0 < tier.latency_s < 1e-2
    assert {source.figure for source in tier.sources} == {"capacity", "read", "write", "latency"}
    check_sources(tier.sources)


@pytest.mark.parametrize("name", CATALOG.names("nodes"))
def test_nodes(name: str) -> None:
    node = CATALOG.node(name)
    gpu = CATALOG.gpu(node.gpu)
    assert node.gpus in (8, 72)
    # A replica may span what shares the link: a whole node on PCIe too, which its profile calls no domain.
    assert node.gpus_per_domain in (1, gpu.link_domain)
    assert node.memory_bytes >= 1e12
    assert node.host_link is not None and node.host_link.bytes_per_s >= 32e9
    check_sources(node.sources)


def test_a_server_by_hand() -> None:
    node = CATALOG.node("dgx-h100")
    assert (node.name, node.gpu, node.gpus, node.gpus_per_domain) == ("hgx-h100", "h100-sxm", 8, 8)
    assert node.memory_bytes == 2e12
    assert node.nic.bytes_per_s == 400e9 / 8
    assert node.storage is not None and node.storage.capacity_bytes == 8 * 3.84e12


def test_the_links_of_gpus_are_those_of_their_profiles() -> None:
    """The same figure stands in the profile of the GPU and in that of its link."""
    pairs = {
        "a100-sxm-80gb": "nvlink-3", "a800-sxm-80gb": "nvlink-3-a800", "h100-sxm": "nvlink-4", "h20": "nvlink-4",
        "h800-sxm": "nvlink-4-h800", "h100-nvl": "nvlink-bridge", "b200-sxm": "nvlink-5", "gb300-nvl72": "nvlink-5",
        "mi300x": "infinity-fabric-mi300x", "l40s": "pcie-4-x16", "h100-pcie": "pcie-5-x16",
    }  # fmt: skip
    for gpu, link in pairs.items():
        assert CATALOG.gpu(gpu).link_bytes_per_s == CATALOG.link(link).bytes_per_s, gpu


def edited(tmp_path: Path, folder: str, name: str, change: dict[str, Any]) -> str:
    data = yaml.safe_load((ROOT / folder / f"{name}.yaml").read_text(encoding="utf-8")) | change
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in data.items() if value is not ...}), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("change", "complaint", "path"),
    [
        ({"bandwidth": {"value": 50, **TODAY}}, "unit", "bandwidth.value"),
        ({"bandwidth": {"value": "0 GB/s", **TODAY}}, "above zero", "bandwidth.value"),
        ({"bandwidth": ...}, "missing", None),
        ({"bandwith": 1}, "unknown", "bandwith"),
        ({"latency": {"value": "5 us"}}, "missing", "latency"),
    ],
)
def test_wrong_links_say_where(tmp_path: Path, change: dict[str, Any], complaint: str, path: str | None) -> None:
    with pytest.raises(CatalogError, match=complaint) as caught:
        CATALOG.link(edited(tmp_path, "links", "ib-ndr-400", change))
    assert caught.value.path == path
    assert caught.value.file is not None and caught.value.file.endswith("ib-ndr-400.yaml")


@pytest.mark.parametrize(
    ("change", "complaint", "path", "nearest"),
    [
        ({"nic": "ib-ndr-500"}, "no link of that name", "nic", "ib-ndr-400"),
        ({"storage": "nvme-gen4-8x3.84"}, "no storage of that name", "storage", "nvme-gen4-8x3.84tb"),
        ({"gpu": "h100-smx"}, "no GPU of that name", "gpu", "h100-sxm"),
        ({"gpus": {"value": 0, **TODAY}}, "whole number", "gpus.value", None),
        ({"gpus": {"value": 10_000, **TODAY}}, "number of GPUs", "gpus.value", None),
        ({"gpus_per_domain": {"value": 9, **TODAY}}, "more GPUs than the node", "gpus_per_domain.value", None),
        ({"cpu": "xeon"}, "unknown", "cpu", "gpu"),
    ],
)
def test_wrong_nodes_say_where(
    tmp_path: Path, change: dict[str, Any], complaint: str, path: str, nearest: str | None
) -> None:
    with pytest.raises(CatalogError, match=complaint) as caught:
        CATALOG.node(edited(tmp_path, "nodes", "hgx-h100", change))
    assert (caught.value.path, caught.value.nearest) == (path, nearest)


def test_a_node_may_lack_a_host_link_and_storage(tmp_path: Path) -> None:
    node = CATALOG.node(edited(tmp_path, "nodes", "hgx-h100", {"host_link": None, "storage": ...}))
    assert node.host_link is None and node.storage is None
