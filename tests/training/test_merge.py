"""Adapters: how the base is loaded, and the merged model against base + adapter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from grpo_rlvr.config import Config, DataSection, LoraSection, ModelSection, RewardSection, load_config
from grpo_rlvr.errors import UserError
from grpo_rlvr.training.merge import find_adapter, merge
from grpo_rlvr.training.run_folder import RunFolder
from grpo_rlvr.training.settings import check_machine, grpo_settings, peft_config, quantization
from test_run_folder import checkpoint


def config(dtype="bfloat16", **lora) -> Config:
    model = ModelSection("org/m", dtype=dtype, lora=LoraSection(**lora))
    return Config(model, DataSection("t.jsonl"), (RewardSection("exact"),), path=Path("/nowhere/config.yaml"))


def test_adapter_settings_reach_peft():
    pytest.importorskip("peft")
    made = peft_config(config(r=4, alpha=8, dropout=0.1, target_modules=["q_proj", "v_proj"]))
    assert (made.r, made.lora_alpha, made.lora_dropout, made.target_modules) == (4, 8, 0.1, {"q_proj", "v_proj"})
    assert peft_config(config()).target_modules == "all-linear"


@pytest.mark.parametrize("dtype, compute", [("bfloat16", "bfloat16"), ("float32", "float32"), ("auto", "bfloat16")])
def test_qlora_keeps_the_base_in_four_bits(monkeypatch, dtype, compute):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    made = quantization(config(dtype, quantize="nf4"))
    assert made.load_in_4bit and made.bnb_4bit_quant_type == "nf4" and made.bnb_4bit_use_double_quant
    assert made.bnb_4bit_compute_dtype == getattr(torch, compute)
    assert quantization(config(quantize="int8")).load_in_8bit and quantization(config()) is None
    settings = grpo_settings(config(quantize="int8"), [], RunFolder(Path("/r")), False, True)
    assert settings["model_init_kwargs"]["quantization_config"].load_in_8bit


def test_what_quantisation_needs_is_said_before_a_model_is_loaded(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "bitsandbytes" else object())
    said = "\n".join(map(str, check_machine(config(quantize="nf4"), accelerator=False)))
    assert "pip install bitsandbytes" in said and "cannot be trained on a CPU" in said
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert check_machine(config(quantize="nf4"), accelerator=True) == check_machine(config(quantize="int8"), accelerator=False) == []


def test_the_adapter_to_merge(tmp_path):
    run = RunFolder(tmp_path)
    with pytest.raises(UserError, match="no adapter"):
        find_adapter(config(), run)
    for step in (5, 10):
        (checkpoint(run.checkpoints, step) / "adapter_config.json").write_text("{}")
    (run.checkpoints / "checkpoint-10" / "trainer_state.json").unlink()
    assert find_adapter(config(), run) == (run.checkpoints / "checkpoint-5", 5)
    run.model.mkdir()
    (run.model / "adapter_config.json").write_text("{}")
    assert find_adapter(config(), run)[0] == run.model
    whole = Config(ModelSection("m"), DataSection("t"), (RewardSection("exact"),), path=Path("/nowhere/config.yaml"))
    with pytest.raises(UserError, match="no model.lora"):
        find_adapter(whole, run)


@pytest.mark.model
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_merged_model_is_base_and_adapter(project, untaught_model, dtype, capsys):
    torch, peft = pytest.importorskip("torch"), pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    shutil.copytree(untaught_model, project / "model")
    text = (project / "config.yaml").read_text()
    (project / "config.yaml").write_text(text.replace("{name_or_path: model}", f"{{name_or_path: model, dtype: {dtype}, lora: {{r: 4}}}}"))
    config = load_config(project / "config.yaml")
    base = AutoModelForCausalLM.from_pretrained(project / "model", dtype=torch.float32)
    adapted = peft.get_peft_model(base, peft_config(config))
    torch.manual_seed(0)
    for name, weight in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.1)
    adapted.save_pretrained(project / "run/train/model")

    capsys.readouterr()
    code, result = merge(config)
    assert "it/s" not in capsys.readouterr().err  # no bars where nobody sees them move
    assert code == 0 and result["difference"] < 1e-5 and result["dtype"] == dtype
    tokens = AutoTokenizer.from_pretrained(project / "run/train/merged")("12+34=", return_tensors="pt")
    merged = AutoModelForCausalLM.from_pretrained(project / "run/train/merged", dtype="auto")
    assert str(merged.dtype) == f"torch.{dtype}"
    with torch.no_grad():
        wanted, got, plain = adapted(**tokens).logits, merged(**tokens).logits.float(), adapted.disable_adapter
        with plain():
            untouched = adapted(**tokens).logits
    tolerance = 1e-4 if dtype == "float32" else 0.1
    assert (got - wanted).abs().max() < tolerance < (untouched - wanted).abs().max()
    assert json.loads((project / "run/train/merged/config.json").read_text())["model_type"] == "qwen2"
    with pytest.raises(UserError, match="is there already"):
        merge(config)
