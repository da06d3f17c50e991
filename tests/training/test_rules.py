"""The rules that `test_lint.py` does not cover: each speaks where it should, names the numbers, and is silent otherwise."""

from __future__ import annotations

import dataclasses
import json

import pytest
from grpo_rlvr.config import DataSection, LoraSection, RewardSection, load_config
from grpo_rlvr.data import load_rows
from grpo_rlvr.rewards.registry import build_rewards
from grpo_rlvr.training.findings import Finding, LintError
from grpo_rlvr.training.lint import lint
from grpo_rlvr.training.measure import both_sides, few_held_out, few_prompts, here, no_end, nothing_held_out, vllm_version
from grpo_rlvr.training.preflight import check_golds
from grpo_rlvr.training.seen import Lengths, Seen, read_lengths, read_model_config
from grpo_rlvr.training.variants import settings_of
from test_lint import codes, config, only

LORA = {"lora": LoraSection(), "learning_rate": 1e-5}
DROPOUT = {"lora": LoraSection(dropout=0.1), "learning_rate": 1e-5}
MOE = Seen(model={"model_type": "qwen3_moe", "num_experts": 128, "router_aux_loss_coef": 0.001})
GSPO = {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4, "num_iterations": 2}
VLLM = {"use_vllm": True, "vllm_max_model_length": 4096}

# (code, level, settings and what was seen, words of the message; then what silences it)
CASES = [
    ("warmup-never-ends", "warning", {"train_rows": 24, "warmup_steps": 20}, "20 for 18 updates", {"train_rows": 24, "warmup_steps": 0.1}),
    ("warmup-never-ends", "warning", {"warmup_steps": 10, "max_steps": 10}, "never reaches", {"warmup_steps": 10, "max_steps": 11}),
    ("tail-prompts", "note", {"train_rows": 10}, "10 training prompts make 2 generation batches of 4: 2 prompts", {"train_rows": 12}),
    ("lora-rate-high", "warning", {**LORA, "learning_rate": 2e-3}, "0.002", LORA),
    ("lora-head", "error", {**LORA, "lora": LoraSection(target_modules=["q_proj", "lm_head"])}, "lm_head", LORA),
    ("quantized-full", "error", {"model_init_kwargs": {"quantization_config": {"load_in_4bit": True}}}, "without model.lora", {}),
    ("quantized-twice", "error", {**LORA, "lora": LoraSection(quantize="nf4"), "model_init_kwargs": {"quantization_config": {}}}, "both", LORA),
    ("quantized-vllm", "error", {**LORA, **VLLM, "lora": LoraSection(quantize="int8")}, "8-bit", {**LORA, "lora": LoraSection(quantize="int8")}),
    ("reference-adapters", "error", {**LORA, "sync_ref_model": True, "beta": 0.1}, "sync_ref_model", {"sync_ref_model": True, "beta": 0.1}),
    ("offload", "error", {"gradient_checkpointing_kwargs": {"offload": True}}, "offload", {"gradient_checkpointing_kwargs": {}}),
    ("offload", "error", {"activation_checkpointing_kwargs": {"offload": True}}, "activation_checkpointing_kwargs", {}),
    ("liger", "note", {"use_liger_kernel": True}, "deprecated", {}),
    ("head-cast", "note", {"cast_lm_head_to_fp32": True}, "float32 already", {"cast_lm_head_to_fp32": True, "dtype": "bfloat16"}),
    ("high-rate", "warning", {"learning_rate": 1e-4, "seen": Seen(parameters=7_600_000_000)}, "7.6B", {"learning_rate": 1e-4}),
    ("float32-memory", "note", {"seen": Seen(parameters=7_000_000_000)}, "112 GB", {"seen": Seen(parameters=100_000)}),
    ("float32-memory", "note", {**LORA, "seen": Seen(parameters=7 * 10**9)}, "28 GB", {**LORA, "dtype": "bfloat16", "seen": Seen(parameters=10**10)}),
    ("vision-model", "error", {"seen": Seen(model={"vision_config": {}})}, "text models only", {"seen": Seen(model={"vision_config": None})}),
    ("dense-router", "error", {"router_aux_loss_coef": 0.001, "seen": Seen(model={"model_type": "qwen2"})}, "0.001", {"router_aux_loss_coef": 0.001}),
    ("moe-ratio", "error", {"seen": MOE}, "128 experts with importance_sampling_level token", {"seen": MOE, **GSPO}),
    ("moe-router", "warning", {"seen": MOE, **GSPO}, "own coefficient (0.001)", {"seen": MOE, **GSPO, "router_aux_loss_coef": 0.0}),
    ("moe-zero3", "warning", {"seen": MOE, **GSPO, "deepspeed": "ds_zero_3.json"}, "hang", {"seen": MOE, **GSPO, "deepspeed": "zero2.json"}),
    ("lora-router", "note",
     {**LORA, "seen": MOE, **GSPO}, "128 experts puts adapters on the router", {"lora": LoraSection(target_modules=["q_proj"]), "seen": MOE}),
    ("luspo-level", "warning", {"loss_type": "luspo"}, "token", {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 2e-3}),
    ("vespo-level", "warning", {"loss_type": "vespo", "importance_sampling_level": "sequence"}, "sequence", {"loss_type": "vespo"}),
    ("sequence-loss", "warning", {"importance_sampling_level": "sequence"}, "loss_type dapo", GSPO),
    ("sequence-clip", "warning", {**GSPO, "epsilon": 0.2, "epsilon_high": None}, "epsilon 0.2", GSPO),
    ("sequence-kl", "warning", {**GSPO, "beta": 0.1, "use_bias_correction_kl": True}, "0.1", {**GSPO, "beta": 0.1, "use_bias_correction_kl": False}),
    ("kl-estimator", "note", {"beta": 0.04}, "0.04", {"beta": 0.04, "use_bias_correction_kl": False}),
    ("entropy-target", "warning", {"use_adaptive_entropy": True}, "0.2 nats", {"use_adaptive_entropy": True, "entropy_target": 1.1}),
    ("one-objective", "note", {"multi_objective_aggregation": "normalize_then_sum"}, "one of yours", {
        "multi_objective_aggregation": "normalize_then_sum", "weights": (1.0, 0.5)}),
    ("scale-unused", "note", {"multi_objective_aggregation": "normalize_then_sum", "scale_rewards": "batch"}, "batch", {"scale_rewards": "batch"}),
    ("importance-bounds", "error", {**VLLM, "vllm_importance_sampling_clip_min": 5.0}, "5 is not below", VLLM),
    ("importance-bounds", "error", {**VLLM, "vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": None},
     "no bound", {**VLLM, "vllm_importance_sampling_mode": "token_mask", "vllm_importance_sampling_clip_max": None}),
    ("dropout-ratio", "warning", {**DROPOUT, **GSPO}, "clip that noise", {**DROPOUT, **GSPO, "num_iterations": 1}),
    ("dropout-ratio", "note", {**DROPOUT, **VLLM}, "0.1", {**DROPOUT, **VLLM, "disable_dropout": True}),
    ("clip-no-op", "note", {"delta": 4.0}, "delta 4", {"delta": 4.0, "num_iterations": 2}),
    ("clip-no-op", "note", {"loss_type": "sapo"}, "gate of loss_type sapo", {"loss_type": "sapo", "num_iterations": 2}),
    ("cut-sampling", "note", {"top_p": 0.8}, "top_p 0.8", {"top_p": 1.0}),
    ("tensor-parallel", "error", {**VLLM, "vllm_tensor_parallel_size": 2, "world": 3}, "2 does not divide the 3", {
        **VLLM, "vllm_tensor_parallel_size": 2, "world": 4, "train_rows": 100}),
    ("server-temperature", "note", {"use_vllm": True, "vllm_mode": "server", "temperature": 0.7}, "0.7", {"use_vllm": True, "vllm_mode": "server"}),
    ("sequence-mask", "note", {**VLLM, "max_completion_length": 2048}, "at 109 tokens", {
        **VLLM, "max_completion_length": 2048, "vllm_importance_sampling_mode": "token_truncate"}),
    ("jit-checkpoint", "error", {"enable_jit_checkpoint": True}, "SIGTERM", {}),
    ("no-logging", "warning", {"logging_strategy": "no"}, "progress.jsonl", {}),
    ("logs-once", "note", {"logging_steps": 10, "max_steps": 5, "save_steps": 1}, "10 is more than max_steps 5", {"max_steps": 5, "save_steps": 1}),
    ("tables-thin", "warning", {"log_completions": True, "logging_steps": 10}, "logging_steps 10", {"log_completions": True}),
    ("tables-overwritten", "warning", {"log_completions": True, "eval_strategy": "steps", "evaluate": True}, "steps", {"log_completions": True}),
    ("tables-repo", "error", {"log_completions_hub_repo": "me/c"}, "me/c", {}),
    ("tables-public", "warning", {"log_completions_hub_repo": "me/c", "log_completions": True}, "public", {"log_completions": True}),
    ("prompt-length", "error", {**VLLM, "seen": Seen(prompt_tokens=3600)}, "3600 tokens) + max_completion_length 512 = 4112 exceed", {
        **VLLM, "seen": Seen(prompt_tokens=3584)}),
    ("prompt-length", "warning", {"seen": Seen(prompt_tokens=2000, model={"max_position_embeddings": 2048})}, "context 2048", {
        "seen": Seen(prompt_tokens=1536, model={"max_position_embeddings": 2048})}),
]  # fmt: skip


def run(given: dict) -> list[Finding]:
    given = dict(given)
    rows, world, seen = (given.pop(key, other) for key, other in (("train_rows", None), ("world", 1), ("seen", None)))
    return lint(config(**given), rows, world, seen)


@pytest.mark.parametrize("code, level, given, words, silent", CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_a_rule_speaks_and_is_silent(code, level, given, words, silent):
    finding = only(code, run(given))
    assert finding.level == level and words in finding.message, finding
    assert finding.fix or level == "note"
    assert code not in codes(run(silent))


@pytest.mark.parametrize("own, level", [("bfloat16", "error"), ("float32", None), (None, "warning")])
def test_the_dtype_of_the_checkpoint_decides_under_auto(own, level):
    seen = Seen(model={"torch_dtype": own} if own else {})
    found = [f for f in run({"dtype": "auto", "seen": seen}) if f.code == "weights-rounded"]
    assert [f.level for f in found] == ([level] if level else [])


def test_a_checkpoint_as_model_moves_the_reference():
    from grpo_rlvr.config import ModelSection

    moved = dataclasses.replace(config(beta=0.1), model=ModelSection("runs/a/checkpoint-50"))
    assert "checkpoint-50" in only("reference-moves", lint(moved)).message
    assert "reference-moves" not in codes(lint(config(beta=0.1)))


# Variants


def with_variant(name: str, **grpo):
    return dataclasses.replace(config(**{**settings_of(name, 4), **grpo}), variant=name)


def test_a_value_other_than_the_variants_is_said_with_both():
    finding = only("variant-overridden", lint(with_variant("dapo", epsilon_high=0.3)))
    assert "epsilon_high 0.28" in finding.message and "is 0.3" in finding.message and finding.level == "warning"
    assert "variant-overridden" not in codes(lint(with_variant("dapo")))
    assert "null" in only("variant-overridden", lint(with_variant("grpo", epsilon_high=0.28))).message
    assert codes(lint(with_variant("gspo", steps_per_generation=4))) == ["variant-no-effect", "clip-no-op"]


@pytest.mark.parametrize("use_vllm", [False, True])
@pytest.mark.parametrize("name, acts", [("gspo", True), ("sapo", False), ("vespo", False), ("dr_grpo", True), ("cispo", True)])
def test_a_variant_that_cannot_act_says_so(name, acts, use_vllm):
    found = lint(with_variant(name, use_vllm=use_vllm))
    acts = acts or name == "vespo" and use_vllm  # its gate weighs the gap to vLLM as well
    assert ("variant-no-effect" in codes(found)) == (not acts)
    if not acts:
        assert only("variant-no-effect", found).fix.startswith("set steps_per_generation: 16")
        assert "variant-no-effect" not in codes(lint(with_variant(name, steps_per_generation=16)))


def test_dapo_says_its_reward_and_what_is_missing():
    whole = with_variant("dapo")
    whole = dataclasses.replace(whole, rewards=(*whole.rewards, RewardSection("overlong", args={"cache": 102})))
    found = lint(whole)
    assert "cache 102" in only("variant-reward", found).message and "--keep-band" in only("variant-missing", found).message


@pytest.mark.parametrize("name, level", [("accuracy_reward", "error"), ("reasoning_accuracy_reward", "error"), ("think_format_reward", "warning")])
def test_rewards_of_trl_that_are_traps(name, level):
    trapped = dataclasses.replace(config(), rewards=(RewardSection(f"trl.rewards:{name}"),))
    assert only(f"trl-{name.replace('_', '-')}", lint(trapped)).level == level
    fine = dataclasses.replace(config(), rewards=(RewardSection(f"rewards.py:{name}"),))
    assert lint(fine) == []


# Lengths that the inspection measured


def lengths(cut: int, count: int = 100, limit: int = 256) -> Seen:
    return Seen(completions=Lengths(tuple([limit] * cut + [100] * (count - cut)), cut, limit))


def test_a_limit_that_cuts_what_was_inspected():
    finding = only("truncation", run({"max_completion_length": 256, "seen": lengths(30)}))
    assert "cuts 30 of 100" in finding.message and "30%" in finding.message and "at least 512" in finding.fix
    assert "truncation" not in codes(run({"max_completion_length": 256, "seen": lengths(5)}))
    # A limit below the inspected one cuts those that ended beyond it.
    finding = only("truncation", run({"max_completion_length": 64, "seen": lengths(5)}))
    assert "cuts 100 of 100" in finding.message and "set max_completion_length: 128" in finding.fix


@pytest.mark.parametrize("masked, level", [(False, "warning"), (True, "error")])
def test_completions_that_never_end(masked, level):
    finding = only("nothing-ends", run({"max_completion_length": 256, "mask_truncated_completions": masked, "seen": lengths(100)}))
    assert finding.level == level and "none of 100" in finding.message and "chat template" in finding.fix


@pytest.mark.parametrize("prompt, limit, fix", [
    (76, 512, "set max_completion_length: 52 or less"), (76, 100, "set data.max_prompt_tokens: 28"), (200, 512, "longer context"),
])  # fmt: skip
def test_a_prompt_that_does_not_fit_gets_a_fix_that_does(prompt, limit, fix):
    seen = Seen(prompt_tokens=prompt, model={"max_position_embeddings": 128})
    assert fix in only("prompt-length", run({"max_completion_length": limit, "seen": seen})).fix


def test_lengths_come_from_samples_with_known_ends():
    samples = [{"tokens": n, "finish": "stop"} for n in range(1, 41)] + [{"tokens": None, "finish": "stop"}, {"tokens": 9, "finish": "unknown"}]
    seen = read_lengths(samples, 64)
    assert (len(seen.tokens), seen.cut, seen.quantile(0.95), seen.over(30)) == (40, 0, 38, 10)
    assert read_lengths(samples[:19], 64) is None and read_lengths(samples, None) is None


def test_what_a_config_json_shows(tmp_path):
    assert Seen(model={"text_config": {"num_local_experts": 8, "dtype": "bfloat16"}}).experts == 8
    assert Seen(model={"n_routed_experts": 64}).experts == 64 and Seen(model={"num_experts": None}).experts == 0
    assert read_model_config(tmp_path) is None and read_model_config(None) is None
    (tmp_path / "config.json").write_text("[1]")
    assert read_model_config(tmp_path) is None


# Data and machine


@pytest.mark.parametrize(("count", "points"), [(0, None), (8, "35 points"), (50, None)])
def test_few_held_out_prompts_show_little(count, points):
    found = few_held_out([{"prompt": "?"}] * count)
    assert [points in f.message for f in found] == ([True] if points else [])


@pytest.mark.parametrize(("rows", "said"), [(32, "32 different training prompts"), (100, None)])
def test_few_training_prompts_are_noted(rows, said):
    found = few_prompts([{"prompt": f"{i}"} for i in range(rows)])
    assert [(f.level, f.code) for f in found] == ([("note", "few-prompts")] if said else [])
    assert all(said in f.message for f in found)
    assert few_prompts([{"prompt": [{"role": "user", "content": str(i % 99)}]} for i in range(500)])[0].message.startswith("99 different")


@pytest.mark.parametrize(("data", "noted"), [({}, True), ({"eval": "eval.jsonl"}, False), ({"eval_split": 0.1}, False)])
def test_no_held_out_rows_are_noted(data, noted):
    found = nothing_held_out(dataclasses.replace(config(), data=DataSection("train.jsonl", **data)))
    assert [(f.level, f.code) for f in found] == ([("note", "no-held-out")] if noted else [])
    assert all("cannot show" in f.message and "data.eval_split" in f.fix for f in found)


def test_check_says_which_rows_repeat_a_prompt(tmp_path, capsys):
    rows = [{"prompt": f"{a}+5=?", "answer": str(a + 5)} for a in range(10, 14)]
    rows += [{**rows[0], "answer": "16"}, rows[1]]
    for name, part in (("train", rows), ("eval", [{"prompt": "1+1=?", "answer": "2"}] * 2)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    (tmp_path / "c.yaml").write_text("model: {name_or_path: org/m}\ndata: {train: train.jsonl, eval: eval.jsonl}\nrewards: [{use: exact}]\n")
    loaded = load_config(tmp_path / "c.yaml")
    found = check_golds(loaded, build_rewards(loaded), load_rows(loaded, "train"), load_rows(loaded, "eval"))
    assert [(f.level, f.code) for f in found] == [("warning", "two-golds"), ("note", "repeated-prompts"), ("note", "repeated-prompts")]
    assert "0 and 4 (from 0)" in found[0].message and "0 and 4, 1 and 5" in found[1].message and "data.eval repeats" in found[2].message
    assert "warning (two-golds)" in capsys.readouterr().err


def test_held_out_prompts_that_are_training_prompts_are_refused():
    rows = [{"prompt": "What is 3+4?"}, {"prompt": "What is 5+6?"}]
    assert [f.code for f in both_sides(rows, [{"prompt": "What is 3+4?"}, {"prompt": "x"}])] == ["held-out-leak"]
    (alike,) = both_sides(rows, [{"prompt": "x"}, {"prompt": "what  is\n5+6?"}])
    assert alike.code == "held-out-alike" and alike.level == "error" and "1 of 2" in alike.message and "row 1" in alike.message
    assert both_sides(rows, [{"prompt": "What is 34?"}]) == []  # signs are the task
    chat = [{"prompt": [{"role": "user", "content": "A"}]}]
    assert [f.code for f in both_sides(chat, [{"prompt": [{"role": "user", "content": " a "}]}])] == []
    assert [f.code for f in both_sides(chat, [{"prompt": [{"role": "user", "content": "a"}]}])] == ["held-out-alike"]


@pytest.mark.parametrize(
    "version, fine", [("0.22.0", True), ("0.31.0+cpu", True), ("0.21.9", False), ("0.32.0", False), ("0.30", True), (None, True)]
)
def test_versions_of_vllm(version, fine):
    assert (vllm_version(version) == []) == fine


def test_threads_of_a_cpu(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [f.code for f in here(config(), accelerator=False)] == ["cpu-threads"]
    assert here(config(), accelerator=True) == []
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert here(config(), accelerator=False) == []


def test_a_tokenizer_without_an_end():
    class Tokenizer:
        eos_token_id = None

    assert [f.code for f in no_end(Tokenizer())] == ["no-eos"] and no_end(Tokenizer(), 2) == []


def test_warnings_are_said_beside_the_errors(project, capsys):
    from conftest import CONFIG
    from grpo_rlvr.config import load_config
    from grpo_rlvr.data import load_rows
    from grpo_rlvr.training.preflight import check

    (project / "config.yaml").write_text(
        CONFIG.replace("name_or_path: model", "name_or_path: org/model").replace("num_generations: 8", "num_generations: 4")
    )
    config = load_config(project / "config.yaml")
    rows = load_rows(config, "train")
    assert [f.code for f in check(config, rows, load_rows(config, "eval"))] == ["small-group", "few-prompts", "few-held-out"]
    capsys.readouterr()
    with pytest.raises(LintError) as refused:
        check(config, rows, rows[:2])
    assert [p.where for p in refused.value.problems] == ["held-out-leak"]
    assert capsys.readouterr().err.startswith("warning (small-group)")


def test_a_model_folder_without_weights_or_tokenizer(project):
    from grpo_rlvr.config import load_config
    from grpo_rlvr.errors import UserError
    from grpo_rlvr.training.preflight import check

    (project / "model").mkdir(exist_ok=True)
    (project / "model/config.json").write_text("{}")
    with pytest.raises(UserError) as refused:
        check(load_config(project / "config.yaml"), [], [])
    assert [p.message.split("holds no ")[1] for p in refused.value.problems] == ["weights (*.safetensors)", "tokenizer (tokenizer.json)"]


def test_the_error_carries_warnings_too():
    error = LintError(run({"num_generations": 4, "temperature": 0.0}))
    data = error.to_json()
    assert [p["where"] for p in data["problems"]] == ["temperature"]
    assert [(f["level"], f["code"]) for f in data["findings"]] == [("error", "temperature"), ("warning", "small-group")]
    assert set(data["findings"][0]) == {"level", "code", "message", "fix"} and error.exit_code == 2
