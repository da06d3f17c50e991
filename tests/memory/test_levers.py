"""What --fit prints can be written into the config, loads, and fits."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest
import yaml
from grpo_rlvr.config import config_from, load_config
from grpo_rlvr.memory.catalog import bundled_names
from grpo_rlvr.memory.cheapest import cheapest_fit
from grpo_rlvr.memory.estimate import GIB
from grpo_rlvr.memory.levers import launch_command, options
from grpo_rlvr.memory.patches import apply_patch, tidy_patch
from grpo_rlvr.memory.plan import make_plan
from grpo_rlvr.memory.reading import read_workload
from grpo_rlvr.memory.report import patch_yaml
from grpo_rlvr.memory.search import MAXIMA, fitting, largest, smallest_cluster
from grpo_rlvr.memory.speed import speed
from grpo_rlvr.training.lint import lint
from grpo_rlvr.training.scaling import trainers
from grpo_rlvr.training.vllm_server import server_problems

BASE = {
    "data": {"train": "train.jsonl", "prompt_tokens": 512}, "rewards": [{"use": "exact"}],
    "grpo": {"num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "max_completion_length": 1024},
}  # fmt: skip


def raw_config(name: str, gpu: str, **more) -> dict:
    return apply_patch({**BASE, "model": {"name_or_path": name}, "hardware": {"gpu": gpu}}, more)


def workload(raw: dict, tmp_path, **options_):
    return read_workload(config_from(raw, tmp_path / "config.yaml"), **options_)


EAGER = {"attn_implementation": "eager"}
ADAPTERS = {"model": {"lora": {}, "dtype": "bfloat16"}, "grpo": {"use_vllm": True}}
CASES = {
    "small model, small GPU": raw_config("Qwen/Qwen2.5-1.5B-Instruct", "rtx-4090", grpo={"use_vllm": True}),
    "full to adapters": raw_config("Qwen/Qwen2.5-3B-Instruct", "rtx-4090", grpo={"use_vllm": True}),
    "to four bits": raw_config("Qwen/Qwen2.5-7B-Instruct", "rtx-4090", grpo={"use_vllm": True}),
    "reference model": raw_config("Qwen/Qwen2.5-3B-Instruct", "h100-80gb", grpo={"use_vllm": True, "beta": 0.04, "vllm_gpu_memory_utilization": 0.3}),
    "share too large": raw_config("Qwen/Qwen2.5-1.5B-Instruct", "h100-80gb", grpo={"use_vllm": True, "vllm_gpu_memory_utilization": 0.9}),
    "long context": raw_config("meta-llama/Llama-3.1-8B-Instruct", "a100-80gb", model={"lora": {}, "dtype": "bfloat16"},
                               grpo={"use_vllm": True, "learning_rate": 1e-5}),
    "no checkpointing": raw_config("Qwen/Qwen3-1.7B", "h100-80gb", grpo={"gradient_checkpointing": False}),
    "generation_batch_size": raw_config("Qwen/Qwen3-1.7B", "rtx-5090", grpo={"gradient_accumulation_steps": None, "generation_batch_size": 64}),
    "several GPUs": raw_config("Qwen/Qwen3-8B", "h100-80gb", hardware={"count": 8}, grpo={"use_vllm": True}),
    "32B": raw_config("Qwen/Qwen3-32B", "h200", grpo={"use_vllm": True}),
    "70B": raw_config("meta-llama/Llama-3.3-70B-Instruct", "b200", grpo={"use_vllm": True}),
    "eager": raw_config("Qwen/Qwen2.5-0.5B-Instruct", "l4", grpo={"model_init_kwargs": EAGER, "max_completion_length": 8192}),
    "a rate that bf16 survives": raw_config("Qwen/Qwen3-4B", "a100-80gb", grpo={"learning_rate": 1e-5}),
    "spark": raw_config("Qwen/Qwen3-8B", "dgx-spark", grpo={"use_vllm": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_patch_loads_and_the_plan_fits(name, tmp_path):
    raw = CASES[name]
    w = workload(raw, tmp_path)
    assert not make_plan(w).fits
    fit = cheapest_fit(w)
    patch = tidy_patch(fit.patch, raw)
    path = tmp_path / "patched.yaml"
    path.write_text(yaml.safe_dump(apply_patch(raw, patch)), encoding="utf-8")
    again = read_workload(load_config(path))
    assert make_plan(again).verdict == "FITS"
    assert again.but(assumed=(), updates=None) == fit.plan.workload.but(assumed=(), updates=None)
    assert [f for f in lint(load_config(path), world=again.world) if f.level == "error"] == []
    # the same completions are compared, in whole groups, by the weights that wrote them
    assert again.batch * again.accumulation == w.batch * w.accumulation
    divided = "generation" in [lever.name for lever, _, _ in fit.steps]
    assert again.generation_batch == w.generation_batch or divided and again.accumulation % again.steps_per_generation == 0
    assert again.generation_batch * again.world % again.generations == 0


def test_the_cheapest_change_is_taken_first(tmp_path):
    fit = cheapest_fit(workload(CASES["share too large"], tmp_path))
    assert [lever.name for lever, _, _ in fit.steps] == ["vllm"]


NO_VLLM = {"learning_rate": 1e-5}


def adapters_on(gib: float, tmp_path, **grpo):
    """7B under LoRA without vLLM: 32 prompts at once are the most of it, and the training step needs 21.4 GiB at micro-batches of 4."""
    raw = raw_config("Qwen/Qwen2.5-7B-Instruct", "rtx-4090", model=ADAPTERS["model"],
                     grpo={**NO_VLLM, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 16, **grpo})  # fmt: skip
    w = workload(raw, tmp_path)
    return raw, w.but(gpu=dataclasses.replace(w.gpu, plan_gib=gib, usable_gib=gib))


def test_fewer_completions_at_a_time_where_generation_decides(tmp_path):
    raw, w = adapters_on(21, tmp_path)
    assert make_plan(w).deciding.name == "rollout" and not make_plan(w).fits
    fit = cheapest_fit(w)
    assert [lever.name for lever, _, _ in fit.steps] == ["generation"]
    assert fit.patch == {"grpo": {"steps_per_generation": 8, "generation_batch_size": None}}
    what = fit.steps[0][0].what
    assert what.startswith("16 completions generated at a time, 2 times an update") and "slower" in what
    again = workload(apply_patch(raw, fit.patch), tmp_path)
    assert (again.generation_batch, again.accumulation, again.generates_between) == (16, 16, True)
    assert speed(again).rollout_s.high > 1.5 * speed(w).rollout_s.high


def test_no_change_costs_memory_where_it_is_listed(tmp_path):
    raw = raw_config("Qwen/Qwen2.5-7B-Instruct", "rtx-4090", grpo={"beta": 0.04})
    w = workload(raw, tmp_path)
    fit = cheapest_fit(w.but(gpu=dataclasses.replace(w.gpu, plan_gib=22, usable_gib=22)))
    assert [lever.name for lever, _, _ in fit.steps] == ["micro-batch", "lora", "learning-rate", "generation"]
    assert all(saved >= 0 for _, _, saved in fit.steps) and fit.steps[-1][2] > 1


def test_its_numbers_follow_those_of_the_micro_batches(tmp_path):
    raw, w = adapters_on(20, tmp_path, per_device_train_batch_size=16, gradient_accumulation_steps=2)
    fit = cheapest_fit(w)
    assert [lever.name for lever, _, _ in fit.steps] == ["micro-batch", "generation"]
    again = fit.plan.workload
    assert again.batch * again.accumulation == 32 and again.generation_batch % 8 == 0 and again.generation_batch < 32
    patch = tidy_patch(fit.patch, raw)["grpo"]
    assert (patch["per_device_train_batch_size"], patch["steps_per_generation"]) == (again.batch, again.steps_per_generation)
    # 32 completions in one pass cannot be divided before the passes are
    one = w.but(batch=32, accumulation=1, steps_per_generation=1)
    lever = next(lever for found in options(one) for lever in found if lever.name == "generation")
    assert lever.on(one) is None and lever.apply(one) == one and cheapest_fit(one).plan.workload.generation_batch < 32


@pytest.mark.parametrize(
    ("grpo", "open_"),
    [
        ({}, True),
        ({"use_vllm": True}, False),  # vLLM's share decides, not how many it is asked for
        ({"num_iterations": 2}, False),  # the same completions would be used in another order
        ({"steps_per_generation": 32}, False),  # two updates a generation: off-policy, as was asked for
        ({"steps_per_generation": 8}, True),
        ({"steps_per_generation": 4}, False),  # 8 completions are one group
        ({"num_generations": 32}, False),
    ],
)
def test_it_is_open_only_where_the_update_stays_the_same(grpo, open_, tmp_path):
    _, w = adapters_on(21, tmp_path, **grpo)
    found = [lever for choice in options(w) for lever in choice if lever.name == "generation"]
    assert bool(found) == open_
    for lever in found:
        at = lever.apply(w)
        assert at.accumulation % at.steps_per_generation == 0 and at.generation_batch * at.world % at.generations == 0


@pytest.mark.parametrize(("steps", "world", "group", "fine"), [(8, 1, 8, True), (2, 1, 8, False), (3, 1, 8, False), (2, 2, 8, True)])
def test_the_groups_are_whole_by_the_rule_that_trl_has(steps, world, group, fine, tmp_path, monkeypatch):
    GRPOConfig = pytest.importorskip("trl").GRPOConfig
    monkeypatch.setattr(GRPOConfig, "world_size", property(lambda self: world))
    named = {"output_dir": str(tmp_path), "use_cpu": True, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 16}
    try:
        args = GRPOConfig(**named, num_generations=group, steps_per_generation=steps, eval_strategy="no")
    except ValueError as exc:
        assert not fine and "must be divisible by num_generations" in str(exc)
    else:
        assert fine and args.generation_batch_size == 2 * world * steps


def test_the_rate_that_comes_with_lora_is_listed_with_its_reason(tmp_path):
    raw = raw_config("Qwen/Qwen2.5-7B-Instruct", "rtx-4090", grpo={"learning_rate": 1e-6, "beta": 0.04})
    fit = cheapest_fit(workload(raw, tmp_path))
    names = [lever.name for lever, _, _ in fit.steps]
    assert names[names.index("lora") + 1] == "learning-rate" and fit.patch["grpo"]["learning_rate"] == 1e-5
    rate, _, saved = fit.steps[names.index("learning-rate")]
    assert saved == 0 and rate.what.startswith("1e-05 instead of 1e-06, for LoRA and not for memory: adapters take about ten times")
    # nothing to list where it is high enough, and a rate that was chosen for adapters stays
    fast = cheapest_fit(workload(apply_patch(raw, {"grpo": {"learning_rate": 2e-5}}), tmp_path))
    assert "learning-rate" not in [lever.name for lever, _, _ in fast.steps] and "learning_rate" not in fast.patch["grpo"]
    slow = workload(apply_patch(raw, {"model": {"lora": {}, "dtype": "bfloat16"}}), tmp_path)
    tight = cheapest_fit(slow.but(gpu=dataclasses.replace(slow.gpu, plan_gib=14, usable_gib=14)))
    assert "qlora" in [lever.name for lever, _, _ in tight.steps] and tight.plan.workload.learning_rate == 1e-6


def test_what_fits_is_left_alone(tmp_path):
    fit = cheapest_fit(workload(raw_config("Qwen/Qwen2.5-0.5B-Instruct", "h200"), tmp_path))
    assert fit.steps == () and fit.patch == {}


def test_what_cannot_fit_has_no_fit_but_a_cluster(tmp_path):
    w = workload(raw_config("meta-llama/Llama-3.3-70B-Instruct", "l40s", grpo={"use_vllm": True}), tmp_path)
    assert cheapest_fit(w) is None or not make_plan(w).fits
    cluster = smallest_cluster(w)
    assert cluster.plan.fits and cluster.gpus > 8 and cluster.train % cluster.nodes == 0
    assert f"count: {cluster.train // cluster.nodes}, nodes: {cluster.nodes}" in cluster.command
    assert smallest_cluster(w, most=cluster.gpus // 2) is None


def test_bfloat16_weights_are_not_offered_where_they_would_not_train(tmp_path):
    slow = workload(raw_config("Qwen/Qwen3-4B", "a100-80gb"), tmp_path)
    assert "dtype" not in {lever.name for found in options(slow) for lever in found}
    assert "dtype" in {lever.name for found in options(slow.but(learning_rate=1e-5)) for lever in found}


ONE_LONG = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "max_completion_length": 8192}


def test_an_old_trl_is_offered_the_new_one(tmp_path):
    w = workload(raw_config("Qwen/Qwen2.5-0.5B-Instruct", "l4", grpo=ONE_LONG), tmp_path, trl="0.18")
    fit = cheapest_fit(w)
    trl = [lever for lever, _, _ in fit.steps if lever.name == "trl"]
    assert trl and "pip install" in trl[0].action


def test_a_patch_deletes_only_what_is_there():
    patch = {"grpo": {"beta": 0.0, "generation_batch_size": None}}
    assert tidy_patch(patch, {"grpo": {"beta": 0.1}}) == {"grpo": {"beta": 0.0}}
    assert tidy_patch(patch, {"grpo": {"generation_batch_size": 8}}) == patch
    assert apply_patch({"grpo": {"generation_batch_size": 8, "x": 1}}, patch) == {"grpo": {"x": 1, "beta": 0.0}}
    assert patch_yaml(patch) == "grpo:\n  beta: 0.0\n# delete grpo.generation_batch_size\n"


@pytest.mark.parametrize("what", MAXIMA)
def test_the_largest_fits_and_the_next_does_not(what, tmp_path):
    w = workload(raw_config("Qwen/Qwen2.5-7B-Instruct", "a100-80gb", **ADAPTERS), tmp_path)
    found = largest(w, what)
    assert found.value and found.plan.fits
    raw = apply_patch(raw_config("Qwen/Qwen2.5-7B-Instruct", "a100-80gb", **ADAPTERS), found.patch)
    assert make_plan(workload(raw, tmp_path)).fits
    if what == "batch":
        assert fitting(w.but(batch=found.value + 2)) is None  # with 4 passes a generation, groups of 8 are whole in every second size
    if what == "completion":
        assert fitting(w.but(completion=found.value + 64)) is None or found.limited == "the model's own context"


@pytest.mark.parametrize(
    ("change", "server", "hardware"),
    [
        ({"sharding": "fsdp2"}, 0, {"count": 8, "sharding": "fsdp2"}),
        ({"sharding": "zero3", "nodes": 2}, 0, {"count": 8, "nodes": 2, "sharding": "zero3"}),
        ({"count": 6}, 2, {"count": 8, "vllm_server": {"start": True, "gpus": 2}}),
        ({"nodes": 2}, 8, {"count": 8, "nodes": 3, "vllm_server": {"gpus": 8}}),
    ],
)
def test_the_launch_names_the_hardware_section_that_starts_it(change, server, hardware, tmp_path):
    w = workload(CASES["several GPUs"], tmp_path).but(count=8, sharding="none").but(**change)
    command = launch_command(w, server)
    assert command.startswith("train.py config.yaml --launch ")
    section = yaml.safe_load(command.partition("# ")[2])["hardware"]
    assert section == hardware
    vllm = {"use_vllm": True, "vllm_mode": "server", "vllm_max_model_length": 2048} if server else {}
    raw = raw_config("Qwen/Qwen2.5-7B-Instruct", "h200", hardware=section, grpo=vllm)
    path = tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(raw))
    loaded = load_config(path)
    assert trainers(loaded) == w.world and server_problems(loaded) == []
    assert launch_command(w.but(count=1, nodes=1)) == "train.py config.yaml"


ODD = {
    "groups of 6": {"num_generations": 6, "per_device_train_batch_size": 6, "gradient_accumulation_steps": 1},
    "a stated generation batch": {"gradient_accumulation_steps": 3, "generation_batch_size": 64},
    "stated passes": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "steps_per_generation": 2},
    "long": {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "max_completion_length": 16384},
}


@pytest.mark.parametrize("what", ["generations", "batch"])
@pytest.mark.parametrize("name", ODD)
def test_the_largest_is_one_that_trl_starts_with(name, what, tmp_path):
    raw = raw_config("Qwen/Qwen2.5-7B-Instruct", "a100-80gb", model=ADAPTERS["model"], grpo={**ADAPTERS["grpo"], **ODD[name]})
    found = largest(workload(raw, tmp_path), what)
    patched = config_from(apply_patch(raw, found.patch), tmp_path / "config.yaml")
    again = read_workload(patched)
    assert found.value and make_plan(again).fits and again.but(assumed=(), updates=None) == found.plan.workload.but(assumed=(), updates=None)
    assert [f for f in lint(patched, world=again.world) if f.level == "error"] == []


def test_one_engine_over_several_gpus_comes_before_giving_up_full_training(tmp_path):
    raw = raw_config("Qwen/Qwen3-30B-A3B", "h100-80gb", hardware={"count": 8}, grpo={"use_vllm": True})
    fit = cheapest_fit(workload(raw, tmp_path))
    assert fit.plan.workload.full and fit.plan.workload.tensor_parallel == 2
    assert fit.patch["grpo"]["vllm_tensor_parallel_size"] == 2


@pytest.mark.parametrize("served", [{}, {"vllm_server": {"gpus": 2}}])
def test_70b_fits_on_one_machine_where_vllm_is_spread(served, tmp_path):
    mode = {"use_vllm": True, "vllm_mode": "server" if served else "colocate"}
    raw = raw_config("meta-llama/Llama-3.3-70B-Instruct", "h100-80gb", hardware={"count": 8, **served}, grpo=mode)
    fit = cheapest_fit(workload(raw, tmp_path))
    assert "tensor-parallel" in [lever.name for lever, _, _ in fit.steps]
    again = workload(apply_patch(raw, tidy_patch(fit.patch, raw)), tmp_path)
    assert make_plan(again).fits and again.tensor_parallel <= (again.server_gpus or again.count)


def runs(count: int, seed: int = 7):
    """Drawn runs of which what a patch moves (completions, vLLM's context and share, batches) is stated in all the ways it can be."""
    draw = random.Random(seed)
    for _ in range(count):
        grpo = {**BASE["grpo"], "max_completion_length": draw.choice([256, 1000, 1024, 4096])}
        grpo |= draw.choice([{}, {"steps_per_generation": 2}, {"generation_batch_size": 256}, {"num_iterations": 2}, {"beta": 0.01}])
        grpo |= draw.choice([{}, {"vllm_max_model_length": draw.choice([200, 1072, 1200, 2048, 8192])}])
        grpo |= draw.choice([{}, {"use_vllm": True}, {"use_vllm": True, "vllm_enable_sleep_mode": True}, {"use_vllm": True, "vllm_mode": "server"}])
        data = {"train": draw.choice(["short.jsonl", "long.jsonl", "on-the-hub"])}
        data |= draw.choice([{}, {}, {"prompt_tokens": 700}, {"max_prompt_tokens": draw.choice([33, 700])}])
        model = {"name_or_path": draw.choice(bundled_names())}
        model |= draw.choice([{}, {"lora": {"r": 16}}, {"lora": {"r": 16, "quantize": "nf4"}, "dtype": "bfloat16"}])
        hardware = {"gpu": draw.choice(["rtx-4090", "a100-80gb", "h200"])} | draw.choice([{}, {"count": 4}, {"count": 2, "sharding": "zero2"}])
        yield {"model": model, "data": data, "rewards": [{"use": "exact"}], "grpo": grpo, "hardware": hardware}


@pytest.fixture
def prompts(tmp_path):
    """Data with a short and with a long longest prompt: 33 and 1032 tokens as the plan counts them."""
    for name, size in (("short", 3), ("long", 3000)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"prompt": "x" * size, "answer": "1"}) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("what", ["fit", *MAXIMA])
def test_the_patched_config_plans_as_was_promised(what, prompts):
    patched = 0
    for raw in runs(120):
        w = workload(raw, prompts)
        found = cheapest_fit(w) if what == "fit" else largest(w, what)
        if found is None or found.plan is None:
            continue
        patch = tidy_patch(found.patch, raw)
        again = workload(apply_patch(raw, patch), prompts)
        assert make_plan(again).fits, (raw, patch)
        assert again.but(updates=None) == found.plan.workload.but(updates=None), (raw, patch)
        assert make_plan(again).deciding.peak == found.plan.deciding.peak
        patched += bool(patch)
    assert patched >= 30


def test_vllms_context_does_not_lengthen_prompts_that_the_data_shows(prompts):
    raw = raw_config("microsoft/phi-4", "a100-80gb", data={"train": "short.jsonl", "prompt_tokens": None},
                     grpo={"use_vllm": True, "vllm_mode": "colocate", "max_completion_length": 256, "generation_batch_size": 256})  # fmt: skip
    fit = cheapest_fit(workload(raw, prompts))
    assert fit.patch["grpo"]["vllm_max_model_length"] == 304 and "data" not in fit.patch
    again = workload(apply_patch(raw, fit.patch), prompts)
    assert again.prompt == 33 and make_plan(again).fits
    assert cheapest_fit(again).patch == {}


@pytest.mark.parametrize(
    ("data", "grpo", "tokens", "words"),
    [
        ({"train": "short.jsonl"}, {}, 33, "3 bytes"),
        ({"train": "short.jsonl"}, {"vllm_max_model_length": 2048}, 33, "3 bytes"),
        ({"train": "long.jsonl"}, {"vllm_max_model_length": 1200}, 176, "what vllm_max_model_length 1200 leaves"),
        ({"train": "long.jsonl"}, {"vllm_max_model_length": 1024}, 1032, "3000 bytes"),
        ({"train": "long.jsonl"}, {"vllm_max_model_length": 1200, "use_vllm": False}, 1032, "3000 bytes"),
        ({"train": "long.jsonl", "max_prompt_tokens": 200}, {}, 200, "as data.max_prompt_tokens lets through"),
        ({"train": "long.jsonl", "prompt_tokens": 77}, {"vllm_max_model_length": 1200}, 77, None),
        ({"train": "on-the-hub"}, {}, 512, "no local data file"),
        ({"train": "on-the-hub"}, {"vllm_max_model_length": 2048}, 1024, "what vllm_max_model_length 2048 leaves"),
        ({"train": "on-the-hub", "max_prompt_tokens": 900}, {"vllm_max_model_length": 4096}, 900, "as data.max_prompt_tokens lets through"),
    ],
)  # fmt: skip
def test_where_the_longest_prompt_is_taken_from_is_said(data, grpo, tokens, words, prompts):
    raw = raw_config("Qwen/Qwen3-4B", "h200", data={"prompt_tokens": None, **data}, grpo={"use_vllm": True, **grpo})
    w = workload(raw, prompts)
    said = [text for text in w.assumed if "prompts of" in text]
    assert w.prompt == tokens
    assert said == [] if words is None else len(said) == 1 and words in said[0] and f" {tokens} tokens" in said[0]


def test_prompts_that_only_the_context_tells_are_stated_by_the_patch(prompts):
    raw = raw_config("Qwen/Qwen3-4B", "rtx-4090", data={"train": "on-the-hub"}, grpo={"use_vllm": True, "max_completion_length": 1000})
    del raw["data"]["prompt_tokens"]
    fit = cheapest_fit(workload(raw, prompts))
    assert fit.patch["data"] == {"prompt_tokens": 512} and fit.patch["grpo"]["vllm_max_model_length"] == 1520
    assert "state more where yours are longer" in fit.steps[-1][0].what
    assert fit.steps[-1][1:] == (fit.plan.deciding.peak / GIB, 0)
    adapters = apply_patch(raw, {"model": ADAPTERS["model"]})
    assert largest(workload(adapters, prompts), "completion").patch["data"] == {"prompt_tokens": 512}
    # nothing is stated where nothing that prompts were taken from is moved
    assert "data" not in cheapest_fit(workload(apply_patch(raw, {"grpo": {"use_vllm": False}}), prompts)).patch


def test_a_context_that_leaves_room_for_prompts_only_after_the_patch_does_not_shorten_them(prompts):
    few = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "max_completion_length": 4096}
    raw = raw_config("Qwen/Qwen3-14B", "t4", model={"lora": {"quantize": "nf4"}, "dtype": "bfloat16"}, data={"train": "long.jsonl"},
                     grpo={**few, "use_vllm": True, "vllm_mode": "server", "vllm_max_model_length": 3000})  # fmt: skip
    del raw["data"]["prompt_tokens"]
    fit = cheapest_fit(workload(raw, prompts))
    assert fit.patch["grpo"]["max_completion_length"] == 2048 and "vllm_max_model_length" not in fit.patch["grpo"]
    assert workload(apply_patch(raw, tidy_patch(fit.patch, raw)), prompts).prompt == fit.plan.workload.prompt == 1032
