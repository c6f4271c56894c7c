"""The forms in which people name a GGUF on the hub."""

from __future__ import annotations

import pytest

from localspec.model_names import HubName, has_quant, parse_hub_name

REPO = "Qwen/Qwen3-8B-GGUF"
FILE = "Qwen3-8B-Q4_K_M.gguf"


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        (REPO, HubName(REPO)),
        (f"{REPO}:Q4_K_M", HubName(REPO, quant="Q4_K_M")),
        (f"{REPO}:UD-Q4_K_XL", HubName(REPO, quant="UD-Q4_K_XL")),
        (f"{REPO}/{FILE}", HubName(REPO, FILE)),
        (f"{REPO}/sub/{FILE}", HubName(REPO, f"sub/{FILE}")),
        (f"{REPO}:Q8_0@v1.0", HubName(REPO, quant="Q8_0", revision="v1.0")),
        (f"{REPO}/{FILE}@refs/pr/1", HubName(REPO, FILE, revision="refs/pr/1")),
        (f"hf://{REPO}/{FILE}", HubName(REPO, FILE)),
        (f"hf.co/{REPO}:Q4_0", HubName(REPO, quant="Q4_0")),
        (f"https://huggingface.co/{REPO}/resolve/main/{FILE}?download=true", HubName(REPO, FILE, revision="main")),
        (f"https://huggingface.co/{REPO}/blob/abc123/sub/{FILE}", HubName(REPO, f"sub/{FILE}", revision="abc123")),
        (f"https://huggingface.co/{REPO}", HubName(REPO)),
    ],
)
def test_every_form_is_understood(name: str, parsed: HubName) -> None:
    assert parse_hub_name(name) == parsed


@pytest.mark.parametrize(
    "name", ["word", "a/b/c", "./a/b", "../a/b", "~/a/b", "/a/b", "a/b:c:d", "", "a/", "llama3:8b"]
)
def test_other_words_are_no_hub_names(name: str) -> None:
    assert parse_hub_name(name) is None


def test_a_name_prints_as_it_can_be_typed() -> None:
    for name in (REPO, f"{REPO}:Q4_0", f"{REPO}/{FILE}", f"{REPO}:Q4_0@v1"):
        assert str(parse_hub_name(name)) == name


def test_a_revision_can_be_pinned_afterwards() -> None:
    assert HubName(REPO).at("v2").revision == "v2"
    assert HubName(REPO, revision="v1").at(None).revision == "v1"


@pytest.mark.parametrize(
    ("file", "quant", "found"),
    [
        ("x-Q4_K_M.gguf", "q4_k_m", True),
        ("x.Q4_K_M.gguf", "Q4_K_M", True),
        ("x-q4_k_m-00001-of-00002.gguf", "Q4_K_M", True),
        ("x-UD-Q4_K_M.gguf", "Q4_K_M", True),
        ("x-Q4_K_M.gguf", "Q4_K", False),
        ("x-IQ4_K_M.gguf", "Q4_K_M", False),
        ("x-Q8_0.gguf", "Q4_K_M", False),
    ],
)
def test_a_quant_is_a_whole_word_of_the_file_name(file: str, quant: str, found: bool) -> None:
    assert has_quant(file, quant) == found
