"""Shapes: counted to the unit, found by many names, refused with the missing fields named."""

from __future__ import annotations

import json

import pytest
from grpo_rlvr.errors import MissingError, UserError
from grpo_rlvr.memory.catalog import FILE, bundled_names, bundled_shape, find_shape
from grpo_rlvr.memory.model_config import read_shape

DATA = json.loads(FILE.read_text(encoding="utf-8"))
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 128, "vocab_size": 1000}  # fmt: skip


@pytest.mark.parametrize("name", bundled_names())
def test_parameters_are_the_published_ones(name):
    shape = bundled_shape(name)
    assert shape.parameters == DATA["models"][name]["parameters"]
    assert shape.full_layers + shape.sliding_layers + shape.linear_layers == shape.layers
    assert 0 < shape.active_parameters <= shape.parameters


def test_there_are_the_models_people_train():
    assert len(bundled_names()) >= 38
    assert all(target in DATA["models"] for target in DATA["same_shape"].values())


# Bytes of one token in bf16 as published or computed from the files themselves.
@pytest.mark.parametrize(
    ("name", "tokens", "cache"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 1, 57_344),  # grouped queries
        ("deepseek-ai/DeepSeek-V3", 1, 70_272),  # latent
        ("google/gemma-3-1b-it", 10_000, 26 * 2 * 256 * 2 * 512 + 4 * 2 * 256 * 2 * (10_000 - 512)),  # sliding window
        ("Qwen/Qwen3.5-9B", 1000, 32_768 * 1000 + 51_904_512),  # linear attention: a state beside the full layers
    ],
)
def test_the_cache_of_each_kind_of_attention(name, tokens, cache):
    assert bundled_shape(name).kv_bytes(tokens) == pytest.approx(cache, rel=0.001)


def test_tensor_parallel_splits_heads_but_not_below_one():
    shape = bundled_shape("Qwen/Qwen2.5-7B-Instruct")  # 4 key-value heads
    assert [shape.kv_bytes(10, 2, tp) / shape.kv_bytes(10, 2) for tp in (1, 2, 4, 8)] == [1, 0.5, 0.25, 0.25]


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-7B", "qwen2.5-7b-instruct", "Qwen/Qwen2.5-Coder-7B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"])
def test_a_model_is_found_by_the_names_it_has(name, tmp_path):
    assert find_shape(name, tmp_path).parameters == 7_615_616_512


def test_a_folder_and_a_file_come_before_the_list(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    assert find_shape("model", tmp_path).layers == find_shape(str(folder / "config.json"), tmp_path).layers == 2


def test_the_language_model_of_a_multimodal_file_is_read():
    shape = read_shape({"model_type": "gemma3", "text_config": {**LLAMA, "model_type": "gemma3_text"}, "vision_config": {}}, "x")
    assert shape.model_type == "gemma3_text" and shape.vision


def test_the_cache_of_the_hub_is_looked_in(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    assert find_shape("org/name", tmp_path).hidden == 64


def test_an_unknown_name_is_missing_and_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(MissingError, match=r"config\.json"):
        find_shape("org/nobody-knows", tmp_path)


def test_an_unknown_architecture_is_named_with_what_is_missing():
    with pytest.raises(UserError) as caught:
        read_shape({"model_type": "mamba9", "hidden_size": 8}, "x")
    text = str(caught.value)
    assert "mamba9" in text and "num_hidden_layers, num_attention_heads, vocab_size" in text and "--as" in text


def test_all_missing_and_wrong_fields_are_named_at_once():
    with pytest.raises(UserError) as caught:
        read_shape({"model_type": "qwen3_moe", "hidden_size": "big", "num_hidden_layers": 2, "num_attention_heads": 4}, "x")
    wheres = [p.where for p in caught.value.problems]
    assert wheres == ["x: vocab_size", "x: num_experts", "x: num_experts_per_tok", "x: hidden_size"]


@pytest.mark.parametrize("text", ["[1]", "not json", '"x"'])
def test_a_file_that_is_no_config_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError):
        find_shape("config.json", tmp_path)


def test_an_architecture_can_be_read_as_another_by_request(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "model_type": "newllama"}), encoding="utf-8")
    assert find_shape("config.json", tmp_path, "llama").parameters == read_shape(LLAMA, "x").parameters
