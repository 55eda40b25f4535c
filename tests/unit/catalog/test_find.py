"""Names, aliases, paths and folders of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from servetwin.catalog.find import KINDS, Catalog, _fold
from servetwin.errors import CatalogError

CATALOG = Catalog()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("Llama-3.3-70B", "llama-3.1-70b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"),
        ("llama2-70b", "llama-2-70b"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b-fp8"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("codellama/CodeLlama-34b-Instruct-hf", "codellama-34b"),
        ("01-ai/Yi-34B", "yi-34b"),
        ("Qwen/Qwen3-14B", "qwen3-14b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b-fp8"),
        ("Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b-2507"),
        ("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("GPT-OSS-120B", "gpt-oss-120b"),
        ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "llama-4-scout-fp8"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout"),
    ],
)
def test_models_by_the_names_that_people_use(name: str, expected: str) -> None:
    assert CATALOG.model(name).name == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("H100", "h100-sxm"), ("H100-SXM-80GB", "h100-sxm"), ("H100-80GB-HBM3", "h100-sxm"),
        ("A100-80GB", "a100-sxm-80gb"), ("A100-SXM4-80GB", "a100-sxm-80gb"), ("L40S-48GB", "l40s"),
        ("H200-SXM-141GB", "h200-sxm"), ("B200-SXM", "b200-sxm"), ("l40s", "l40s"), ("B300-SXM", "b300-sxm"),
        ("GB200 NVL72", "gb200-nvl72"), ("GB200", "gb200-nvl72"), ("GB300 NVL72", "gb300-nvl72"),
        ("RTXPRO6000", "rtx-pro-6000"), ("RTX PRO 6000 Blackwell 96GB", "rtx-pro-6000"), ("RTX 4090 24GB", "rtx-4090"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"), ("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("H800", "h800-sxm"), ("H20", "h20"), ("A10", "a10"),
        ("MI300X", "mi300x"),
    ],
)  # fmt: skip
def test_gpus_by_the_names_that_people_use(name: str, expected: str) -> None:
    assert CATALOG.gpu(name).name == expected


def test_the_catalogue_holds_what_it_promises() -> None:
    assert set(CATALOG.names("hardware")) == {
        "a10", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb", "a800-sxm-80gb", "b200-sxm", "b300-sxm",
        "gb200-nvl72", "gb300-nvl72", "h100-nvl", "h100-pcie", "h100-sxm", "h20", "h200-sxm", "h800-sxm", "l4", "l40s",
        "mi300x", "rtx-4090", "rtx-pro-6000",
    }  # fmt: skip
    promised = {
        "llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-0.6b",
        "qwen3-8b", "qwen3-14b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b", "mixtral-8x7b", "deepseek-r1",
        "deepseek-v3", "gpt-oss-20b", "gpt-oss-120b",
    }  # fmt: skip
    assert promised <= set(CATALOG.names("models"))
    assert "default" in CATALOG.names("calibrations")


def test_no_two_things_answer_to_one_name() -> None:
    from servetwin.catalog.yaml_file import read_mapping

    for kind in ("hardware", "links", "nodes", "storage", "models"):
        fold = _fold(kind)
        owner: dict[str, str] = {}
        for name, path in CATALOG._files(kind).items():
            for alias in {fold(name), *(fold(text) for text in read_mapping(path, "profile").get("aliases", []))}:
                assert owner.setdefault(alias, name) == name, f"{alias} means {owner[alias]} and {name}"


@pytest.mark.parametrize("kind", ["hardware", "links", "nodes", "storage", "models", "calibrations", "acceptance"])
def test_everything_can_be_described_as_plain_data(kind: str) -> None:
    import json

    for name in CATALOG.names(kind):
        described = CATALOG.describe(kind, name)
        assert described["name"] == name
        assert Path(described["file"]).exists()
        json.dumps(described)


def test_the_folder_of_another_kind_is_left_to_it(tmp_path: Path) -> None:
    """What lies in ``workloads/acceptance`` is no workload; folders of users may lie as the data does, or flat."""
    assert not any("acceptance" in name for name in CATALOG.names("workloads"))
    assert "sharegpt" in CATALOG.names("acceptance")
    for folder in ("workloads/acceptance", "acceptance"):
        mine = tmp_path / folder.replace("/", "-")
        (mine / folder).mkdir(parents=True)
        (mine / folder / "ours.yaml").write_text(
            "name: ours\nmethods: {mtp: {survival: [0.5], source: me, date: 2026-12-01}}\n"
        )
        catalog = Catalog([mine])
        assert catalog.acceptance("ours") == {"mtp": {"survival": [0.5]}}
        assert catalog.names("workloads") == CATALOG.names("workloads")


def test_unknown_names_show_what_there_is_and_what_is_near() -> None:
    with pytest.raises(CatalogError) as caught:
        CATALOG.model("llama-3.1-8bb")
    assert caught.value.nearest == "llama-3.1-8b"
    assert "llama-2-7b" in caught.value.allowed
    with pytest.raises(CatalogError, match="GPU of that name") as caught:
        CATALOG.gpu("h100-smx")
    assert caught.value.nearest == "h100-sxm"
    with pytest.raises(CatalogError, match="kind of thing") as caught:
        CATALOG.names("model")
    assert caught.value.nearest == "models"
    assert tuple(caught.value.allowed) == KINDS


def test_a_file_or_folder_of_an_unknown_name_is_pointed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").mkdir()
    (tmp_path / "my-gpu").write_text("name: my-gpu\n")
    for wanted, hint in (("my-gpu", "file of that name here: write ./my-gpu"), ("x" * 300, "a path"), ("../", "")):
        with pytest.raises(CatalogError) as caught:
            CATALOG.gpu(wanted)
        assert hint in (caught.value.hint or "")
    with pytest.raises(CatalogError) as caught:
        CATALOG.model("my-model")
    assert caught.value.hint == "a path to a file works too"
    (tmp_path / "my-model" / "config.json").write_text("{}")
    with pytest.raises(CatalogError) as caught:
        CATALOG.model("my-model")
    assert caught.value.hint == "there is a folder of that name here: write ./my-model"


def test_folders_of_the_user_come_first(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    body = (
        "name: llama-3.1-8b\naliases: [my-tiny]\nhidden: 64\nvocab: 100\nmax_position: 128\ntied_embeddings: true\n"
        "layers:\n  - {count: 2, attention: {heads: 4, kv_heads: 2, head_dim: 16}, mlp: {intermediate: 128}}\n"
    )
    (tmp_path / "models" / "llama-3.1-8b.yaml").write_text(body, encoding="utf-8")
    mine = Catalog([tmp_path])
    assert mine.model("llama-3.1-8b").hidden == 64
    assert mine.model("My-Tiny").hidden == 64
    assert mine.model("llama-2-7b").hidden == 4_096
    assert mine.gpu("h100-sxm").name == "h100-sxm"
    with pytest.raises(CatalogError, match="no such catalogue folder"):
        Catalog([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("find", "name", "hint"),
    [
        ("scenario", "Llama-3.1-405B", "Llama-3.1-405B is a model: servetwin show models Llama-3.1-405B"),
        ("scenario", "h100", "h100 is a GPU: servetwin show hardware h100"),
        ("model", "quickstart", "quickstart is a scenario: servetwin show scenarios quickstart"),
        ("scenario", "nothing-of-the-kind", "a path to a file works too"),
    ],
)
def test_a_name_of_another_kind_is_said_to_be_one(find: str, name: str, hint: str) -> None:
    with pytest.raises(CatalogError) as caught:
        getattr(Catalog(), find)(name)
    assert caught.value.hint == hint


def test_a_broken_file_of_another_kind_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "broken.yaml").write_text("{", encoding="utf-8")
    with pytest.raises(CatalogError, match="no scenario of that name"):
        Catalog([tmp_path]).scenario("unknown")


def test_a_profile_is_read_once_by_each_catalog(tmp_path: Path) -> None:
    body = Catalog().scenario("quickstart").parents[1] / "hardware_profiles" / "gpus" / "h100-sxm.yaml"
    mine = tmp_path / "mine.yaml"
    mine.write_text(body.read_text(encoding="utf-8").replace("h100-sxm", "mine"), encoding="utf-8")
    catalog = Catalog()
    first = catalog.gpu(str(mine))
    mine.write_text("nothing: of it\n", encoding="utf-8")
    assert catalog.gpu(str(mine)) is first
    with pytest.raises(CatalogError):
        Catalog().gpu(str(mine))


def test_paths_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.yaml").write_text(
        "hidden: 64\nvocab: 100\nmax_position: 128\ntied_embeddings: true\n"
        "layers:\n  - {count: 2, attention: {heads: 4, kv_heads: 2, head_dim: 16}, mlp: {intermediate: 128}}\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    assert CATALOG.model("tiny.yaml").name == "tiny"
    assert CATALOG.model(str(tmp_path / "tiny.yaml")).num_layers == 2
    with pytest.raises(CatalogError, match="no such model file"):
        CATALOG.model("./elsewhere.yaml")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty"),
        (b"- 1\n- 2\n", "a mapping"),
        (b"name: a\nname: b\n", "stands twice"),
        (b"layers: [{count: 1, count: 2}]\n", "stands twice"),
        (b"name: [\n", "not valid YAML"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"1: 2\n", "must be text"),
    ],
)
def test_broken_files_are_refused_with_their_name(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(CatalogError, match=complaint) as caught:
        CATALOG.model(str(path))
    assert caught.value.file == str(path)


def test_broken_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"hidden_size": 1,', encoding="utf-8")
    with pytest.raises(CatalogError, match="not JSON"):
        CATALOG.model(str(path))
    path.write_text('{"hidden_size": 1, "hidden_size": 2}', encoding="utf-8")
    with pytest.raises(CatalogError, match="stands twice"):
        CATALOG.model(str(path))


def test_a_directory_stands_for_the_configuration_inside(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="no such model file") as caught:
        CATALOG.model(str(tmp_path))
    assert caught.value.file == str(tmp_path / "config.json")
