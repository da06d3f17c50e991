"""Shapes: counted to the unit, found by many names, refused with the missing fields named."""

from __future__ import annotations

import json
import os

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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_key_value_heads", "2"), ("num_key_value_heads", 0), ("num_key_value_heads", 3), ("num_key_value_heads", 64), ("head_dim", -1),
        ("head_dim", 12.5), ("max_position_embeddings", "x"), ("sliding_window", "4096"), ("tie_word_embeddings", "false"), ("attention_bias", 1),
        ("layer_types", [1, 2]), ("layer_types", ["full_attention"]), ("num_attention_heads", 5000),
    ],
)  # fmt: skip
def test_a_wrong_field_is_not_planned_as_if_it_were_not_there(field, value):
    with pytest.raises(UserError) as caught:
        read_shape({**LLAMA, field: value}, "x")
    assert [p.where for p in caught.value.problems] == [f"x: {field}"]


MOE = {**LLAMA, "model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2}
LATENT = {
    **LLAMA, "model_type": "deepseek_v3", "n_routed_experts": 4, "num_experts_per_tok": 2, "kv_lora_rank": 8, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8, "v_head_dim": 8, "moe_intermediate_size": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("base", "field", "value"),
    [(MOE, "num_experts_per_tok", 5), (MOE, "moe_intermediate_size", -5), (LATENT, "first_k_dense_replace", 99), (LATENT, "n_shared_experts", "1"),
     (LATENT, "q_lora_rank", -3)],
)  # fmt: skip
def test_experts_that_contradict_each_other_are_named(base, field, value):
    assert read_shape(base, "x").parameters > 0
    with pytest.raises(UserError) as caught:
        read_shape({**base, field: value}, "x")
    assert [p.where for p in caught.value.problems] == [f"x: {field}"]


@pytest.mark.parametrize("name", ["./nowhere", "nowhere.json", "./empty", "./adapters", "./pipe"])
def test_a_path_without_a_config_is_not_taken_for_a_hub_name(name, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "adapter_config.json").write_text("{}", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError) as caught:
        find_shape(name, tmp_path)
    problem = caught.value.problems[0]
    assert problem.where.startswith(str(tmp_path)) and ("base model" in problem.fix) == (name == "./adapters")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_a_name_that_can_be_no_path_is_an_unknown_name(name, tmp_path):
    with pytest.raises(MissingError):
        find_shape(name, tmp_path)


def test_a_byte_order_mark_and_other_encodings(tmp_path):
    text = json.dumps(LLAMA)
    (tmp_path / "bom.json").write_bytes(text.encode("utf-8-sig"))
    assert find_shape("bom.json", tmp_path).hidden == 64
    (tmp_path / "wide.json").write_bytes(text.encode("utf-16"))
    with pytest.raises(UserError, match="is no JSON"):
        find_shape("wide.json", tmp_path)
    (tmp_path / "weights.json").write_bytes(b" " * 6_000_000)
    with pytest.raises(UserError, match="too large") as caught:
        find_shape("weights.json", tmp_path)
    assert "is no JSON" not in str(caught.value)


def test_a_known_name_is_not_read_as_another(tmp_path):
    with pytest.raises(UserError, match="--as"):
        find_shape("Qwen/Qwen2.5-0.5B-Instruct", tmp_path, "llama")
