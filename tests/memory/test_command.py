"""The command as people and programs meet it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import memory_plan
import pytest
from conftest import ROOT
from grpo_rlvr.memory.catalog import bundled_shape
from grpo_rlvr.memory.estimate import PHASES, TERMS
from grpo_rlvr.memory.hardware import gpus

CONFIG = str(ROOT / "templates" / "config.yaml")
SCRIPT = str(ROOT / "scripts" / "memory_plan.py")


@pytest.fixture
def plan(capsys):
    """Run the script in this process: (exit code, stdout, stderr)."""

    def run(*args: str) -> tuple[int, str, str]:
        code = memory_plan.main([str(a) for a in args])
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


def answer(plan, *args: str) -> tuple[int, dict]:
    code, out, err = plan(*args, "--json")
    assert len(out.splitlines()) == 1
    return code, json.loads(out)


def test_the_template_fits_a_4090(plan):
    code, result = answer(plan, CONFIG, "--gpu", "rtx-4090")
    assert (code, result["schema"], result["verdict"], result["fits"]) == (0, "grpo-rlvr/memory-plan/1", "FITS", True)
    assert [p["name"] for p in result["phases"]] == list(PHASES)
    for phase in result["phases"]:
        assert sum(phase["terms"].values()) == pytest.approx(phase["peak_gib"], abs=0.02)
    assert result["peak_gib"] == max(p["peak_gib"] for p in result["phases"])
    assert result["low_gib"] < result["peak_gib"] < result["high_gib"] <= result["usable_gib"]


def test_what_does_not_fit_says_no_and_what_to_do(plan):
    code, out, err = plan(CONFIG, "--gpu", "rtx-4090", "--model", "Qwen/Qwen2.5-7B-Instruct")
    assert code == 1 and out == ""
    assert err.startswith("NO  ") and "decides: training step" in err.splitlines()[1] and "--fit" in err.splitlines()[-1]


def test_fit_answers_with_a_patch(plan):
    code, result = answer(plan, CONFIG, "--gpu", "rtx-4090", "--model", "Qwen/Qwen2.5-7B-Instruct", "--fit")
    assert code == 0 and result["verdict"] == "NO" and result["fit"]["verdict"] == "FITS"
    assert result["fit"]["patch"]["model"]["lora"]["r"] == 16
    assert result["cluster"]["gpus"] > 1 and "train.py config.yaml --launch" in result["cluster"]["command"]


def test_fit_of_what_cannot_fit(plan):
    code, result = answer(plan, "--model", "deepseek-ai/DeepSeek-V3", "--gpu", "t4", "--fit")
    assert (code, result["fit"]) == (1, None)


def test_where_no_changes_do_it_says_how_many_gpus_would_with_adapters(plan):
    code, result = answer(plan, "--model", "meta-llama/Llama-3.3-70B-Instruct", "--gpu", "h100", "--vllm", "--fit")
    assert (code, result["fit"]) == (1, None) and 1 < result["cluster_with_lora"]["gpus"] < result["cluster"]["gpus"]
    _, _, err = plan("--model", "deepseek-ai/DeepSeek-V3", "--gpu", "t4", "--vllm", "--fit")
    err = " ".join(err.split())  # as wide as the terminal
    assert "on no number of these GPUs that was tried, up to 256" in err and "with LoRA" not in err


@pytest.mark.parametrize("what", ["completion", "generations", "batch", "model"])
def test_max(plan, what):
    code, result = answer(plan, CONFIG, "--gpu", "rtx-4090", "--max", what)
    assert code == 0 and result["max"]["of"] == what and result["max"]["value"]


def test_gpus_compares_all_known(plan):
    code, result = answer(plan, CONFIG, "--gpus")
    assert code == 0 and {row["gpu"] for row in result["gpus"]} == set(gpus())
    verdicts = {row["gpu"]: row["verdict"] for row in result["gpus"]}
    assert verdicts["h200"] == "FITS" and verdicts["t4"] in ("FITS", "TIGHT", "NO")


@pytest.mark.parametrize("term", TERMS)
def test_every_term_is_explained(plan, term):
    code, result = answer(plan, CONFIG, "--gpu", "rtx-4090", "--vllm", "--explain", term)
    found = result["explain"]
    assert code == 0 and all(found[k] for k in ("formula", "numbers", "source", "smaller"))


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ([], 2, "neither a config nor a model"),
        (["nowhere.yaml", "--gpu", "t4"], 2, "there is no such file"),
        ([CONFIG], 2, "no GPU is named"),
        ([CONFIG, "--gpu", "h1000"], 2, "did you mean `h100-80gb`?"),
        ([CONFIG, "--gpu", "t4", "--model", "org/nobody-knows-this"], 3, "config.json"),
        ([CONFIG, "--gpu", "t4", "--explain", "weigts"], 2, "did you mean `weights`?"),
        ([CONFIG, "--gpu", "t4", "--set", "grpo.max_completion_lenght=4"], 2, "did you mean `max_completion_length`?"),
        ([CONFIG, "--gpu", "t4", "--set", "nonsense"], 2, "SECTION.KEY=VALUE"),
        ([CONFIG, "--gpu", "t4", "--set", "grpo.optim=galore_adamw"], 2, "galore_adamw"),
        ([CONFIG, "--gpu", "t4", "--trl", "latest"], 2, "not a version"),
        ([CONFIG, "--gpu", "t4", "--trl", "0.9"], 2, "no GRPO trainer"),
        ([CONFIG, "--gpu-memory", "-3"], 2, "above 0"),
        ([CONFIG, "--gpu-bandwidth", "100"], 2, "--gpu-memory"),
        ([CONFIG, "--gpu", "t4", "--set", "grpo.max_completion_length=null"], 2, "of any length"),
        ([CONFIG, "--gpu", "t4", "--set", "grpo.model_init_kwargs={quantization_config: {load_in_4bit: true}}"], 2, "without adapters"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_fix(plan, args, code, words, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    got, result = answer(plan, *args)
    assert got == code
    assert words in json.dumps(result["error"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("grpo.num_generations=5", "no multiple of num_generations 5"), ("grpo.num_generations=1", "a group needs 2"),
        ("grpo.generation_batch_size=20", "generation_batch_size 20"), ("grpo.vllm_max_model_length=300", "vllm_max_model_length 300 is less"),
        ("data.prompt_tokens=900000", "that the model's config.json allows"),
    ],
)  # fmt: skip
def test_what_refuses_to_start_beside_memory_is_said(plan, setting, words):
    bare = ("--model", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "h200", "--vllm", "--lora", "--prompt-tokens", "512")
    assert not [text for text in answer(plan, *bare)[1]["assumed"] if "TRL" in text or "sequences of" in text]
    assert words in " ".join(answer(plan, *bare, "--set", setting)[1]["assumed"])


@pytest.mark.parametrize(("flags", "bits"), [(["--lora"], "none"), (["--lora", "64"], "none"), (["--qlora"], "nf4-double")])
def test_adapters_by_a_flag(plan, flags, bits):
    _, result = answer(plan, CONFIG, "--gpu", "rtx-4090", "--model", "Qwen/Qwen3-4B", *flags)
    assert result["settings"]["quantization"] == bits and result["settings"]["lora_rank"] == (64 if "64" in flags else 16)


@pytest.mark.parametrize(
    ("targets", "counted"),
    [
        ("[q_proj, v_proj]", ["q_proj", "v_proj"]), ("'.*[.](q|v)_proj'", ["q_proj", "v_proj"]), ("all-linear", None),
        ("[model.layers.0.self_attn.q_proj, lm_head]", ["q_proj"]), ("[nope]", "names no linear layer"), ("q_proj|v_proj", "whole name"),
        ("'('", "is no pattern"),
    ],
)  # fmt: skip
def test_adapters_go_where_target_modules_says(plan, targets, counted):
    flags = ("--model", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "h100", "--lora", "--set", f"model.lora.target_modules={targets}")
    code, result = answer(plan, *flags)
    if isinstance(counted, str):
        assert code == 2 and counted in result["error"]["message"]
        return
    shape = bundled_shape("Qwen/Qwen2.5-7B-Instruct")
    assert result["model"]["trained_parameters"] == shape.lora_parameters(16, counted and tuple(counted)) > 0


@pytest.mark.parametrize(("stage", "engine"), [("3", "zero3"), ("'3'", "zero3"), ("two", "ddp")])
def test_the_stage_of_zero_is_read_as_a_number(plan, stage, engine):
    setting = f"grpo.deepspeed={{zero_optimization: {{stage: {stage}}}}}"
    _, out, err = plan("--model", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "h100", "--count", "2", "--set", setting)
    assert f"2 x H100 SXM ({engine})" in " ".join(err.split())


def test_an_own_gpu_by_its_numbers(plan):
    code, result = answer(plan, CONFIG, "--gpu", "my card", "--gpu-memory", "11.6")
    assert code == 0 and result["usable_gib"] == 11.6
    assert answer(plan, CONFIG, "--gpu", "h100", "--gpu-memory", "8")[0] == 1


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("extra", [["--fit"], ["--gpus"], ["--max", "batch"], ["--explain", "layer"], ["--list"]], ids=lambda e: e[0])
def test_no_line_is_wider_than_the_terminal(plan, width, extra):
    if extra == ["--list"]:
        _, _, err = plan("--list", "--width", width)
    else:
        _, _, err = plan(CONFIG, "--gpu", "rtx-4090", "--model", "Qwen/Qwen3-30B-A3B", "--vllm", "--width", width, *extra)
    wide = [line for line in err.splitlines() if len(line) > width and " " in line.strip()]
    assert wide == []


def test_the_version_of_trl_is_named_and_matters(plan):
    now, old = (answer(plan, CONFIG, "--gpu", "h200", "--trl", v)[1] for v in ("1.16", "0.18"))
    assert now["trl"]["loss"] == "chunked" and old["trl"]["loss"] == "logits"
    assert old["peak_gib"] > now["peak_gib"]


def test_the_longest_prompt_comes_from_the_data(plan, project):
    config = project / "config.yaml"
    rows = [{"prompt": "x" * n, "answer": "1"} for n in (30, 3000, 300)]
    (project / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    args = (str(config), "--gpu", "t4", "--model", "Qwen/Qwen2.5-0.5B-Instruct")
    result = answer(plan, *args)[1]
    assert result["settings"]["prompt_tokens"] == 1000 + 32 and "3000 bytes" in " ".join(result["assumed"])
    assert answer(plan, *args, "--prompt-tokens", "77")[1]["settings"]["prompt_tokens"] == 77


@pytest.mark.parametrize(("data", "steps"), [("", 20), (", eval_split: 0.1", 18), (", limit: 9", 4)])
def test_the_steps_of_a_run_are_those_of_the_rows_that_train(plan, project, data, steps):
    config = project / "config.yaml"  # 40 rows, 8 completions a prompt, 16 a step
    text = config.read_text(encoding="utf-8").replace("max_steps: 4", "num_train_epochs: 1").replace("eval: eval.jsonl", "columns: {}" + data)
    config.write_text(text.replace("name_or_path: model", "name_or_path: Qwen/Qwen2.5-0.5B-Instruct"), encoding="utf-8")
    assert f"the run of {steps} steps" in " ".join(plan(str(config), "--gpu", "t4")[2].split())


def test_nothing_heavy_is_imported_and_nothing_is_written(tmp_path):
    code = f"import sys; sys.argv = ['memory_plan.py', {CONFIG!r}, '--gpu', 'rtx-4090', '--fit']\nimport runpy\n"
    code += f"try: runpy.run_path({SCRIPT!r}, run_name='__main__')\nexcept SystemExit as e: assert e.code == 0\n"
    code += "print(sorted(set(sys.modules) & {'torch', 'transformers', 'trl', 'numpy', 'jsonschema', 'rich', 'datasets', 'requests', 'socket'}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    )
    heavy = set(json.loads(done.stdout.strip().replace("'", '"')))
    assert heavy <= {"socket"} and list(tmp_path.iterdir()) == []  # importlib.metadata brings socket in


def test_hostile_text_in_a_config_does_not_reach_the_terminal(plan, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "\x1b[31mred\x07"}), encoding="utf-8")
    _, _, err = plan("--model", str(tmp_path), "--gpu", "t4")
    assert "\x1b" not in err and "\\x1b" in err


def test_examples_of_the_help_run(plan):
    text = memory_plan.build_parser().format_help()
    examples = re.findall(r"python memory_plan\.py (.*)", text)
    assert len(examples) >= 5
    for example in examples:
        args = [CONFIG if a == "config.yaml" else a for a in example.split()]
        code, _, err = plan(*args, *([] if "--gpu" in args or "--gpus" in args else ["--gpu", "rtx-4090"]))
        assert code in (0, 1), err
