#!/usr/bin/env python3
"""The memory plan on a real GPU: peak by phase and step time of six configs, beside the plan and beside a plain TRL script.

One prepared command for a machine with a GPU, in less than 8 minutes on an H200: nothing is downloaded (models are made from the bundled
config.json's sizes, with random weights), and what does not fit into `--budget` seconds is left out and said. Results are on disk after each
part. The vLLM part runs only where vLLM is there, in a process of its own.

    python benchmarks/gpu_check.py --out gpu-check           # gpu-check/gpu_check.json and gpu_check.md
    python benchmarks/gpu_check.py --rehearse --out rehearsal  # the same with a tiny model on the CPU: resident memory, a check of this script

Each config runs twice: through `train.py --dry-step`'s code, which tells the phases apart, and as a plain TRL script that knows nothing of
this package. Their peaks must agree, or the measuring itself takes memory.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime
import gc
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import yaml

GIB = 2**30
MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
TINY = {
    "model_type": "qwen2", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "intermediate_size": 768, "vocab_size": 8192, "tie_word_embeddings": True, "max_position_embeddings": 4096,
}  # fmt: skip
LORA = {"r": 16, "alpha": 32, "target_modules": "all-linear"}
# name, what differs from the common settings, (prompt, completion) tokens, whether the completions are generated or made up
CASES: tuple[tuple[str, dict[str, Any], tuple[int, int], bool], ...] = (
    ("full, float32", {}, (256, 256), True),
    ("LoRA r16, bfloat16 base", {"model": {"dtype": "bfloat16", "lora": LORA}}, (256, 256), True),
    ("full, float32, beta 0.04", {"grpo": {"beta": 0.04}}, (256, 256), True),
    ("full, float32, long completion", {}, (512, 4096), False),
    ("full, bfloat16", {"model": {"dtype": "bfloat16"}, "grpo": {"learning_rate": 1e-5}}, (256, 256), True),
    ("QLoRA r16", {"model": {"dtype": "bfloat16", "lora": {**LORA, "quantize": "nf4"}}}, (256, 256), True),
)  # fmt: skip
VLLM = ("LoRA r16, vLLM colocated, asleep in training", {
    "model": {"dtype": "bfloat16", "lora": LORA},
    "grpo": {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3, "vllm_enable_sleep_mode": True},
}, (256, 256), True)  # fmt: skip
BUDGET_S = 440


def make_model(folder: Path, rehearse: bool) -> None:
    """A checkpoint with random weights and a character tokenizer; made on the GPU, where that takes a second."""
    import torch
    from grpo_rlvr.demo.tiny import build_tokenizer
    from grpo_rlvr.memory.catalog import bundled_fields
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = build_tokenizer()
    config = AutoConfig.for_model(**(TINY if rehearse else bundled_fields(MODEL)))
    config.eos_token_id, config.pad_token_id, config.bos_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id, None
    torch.manual_seed(0)
    with torch.device("cpu" if rehearse else "cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def config_of(folder: Path, case: tuple[str, dict[str, Any], tuple[int, int], bool], rehearse: bool):
    """The case's config.yaml and data, beside the model, as a Config."""
    from grpo_rlvr.config import load_config

    name, changes, (prompt, completion), _ = case
    if rehearse:
        prompt, completion = prompt // 4, min(completion // 4, 512)
    raw: dict[str, Any] = {
        "model": {"name_or_path": "model", "dtype": "float32"}, "data": {"train": "train.jsonl"}, "rewards": [{"use": "exact"}],
        "grpo": {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "num_generations": 8, "max_completion_length": completion,
                 "max_steps": 2},
        "run": {"folder": "run"},
    }  # fmt: skip
    for section, values in copy.deepcopy(changes).items():
        raw[section] |= values
    if raw["grpo"].get("use_vllm"):
        raw["grpo"]["vllm_max_model_length"] = prompt + completion
    (folder / "train.jsonl").write_text(json.dumps({"prompt": "1" * prompt, "answer": "1"}) + "\n", encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return load_config(folder / "config.yaml")


# ---- the two ways to run a case


def by_phase(config, settings: dict[str, Any]) -> dict[str, Any]:
    """Through the dry step: phases, terms, seconds."""
    from grpo_rlvr.data import load_rows
    from grpo_rlvr.training.dry_report import compared
    from grpo_rlvr.training.dry_step import measured_step
    from grpo_rlvr.training.meter import CudaProbe, Meter, RssProbe

    probe = RssProbe() if settings.get("use_cpu") else CudaProbe()
    with tempfile.TemporaryDirectory() as folder:
        found = measured_step(config, settings, load_rows(config, "train"), str(config.base / "model"), Meter(probe), folder)
    return {**found, **compared(config, found)}


def plain(config, settings: dict[str, Any]) -> dict[str, Any]:
    """TRL alone, as its documentation has it: the peak of the whole training and the seconds of its second step."""
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Clock(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if on_gpu:
                torch.cuda.synchronize()
            self.since = time.perf_counter()

        def on_step_end(self, args, state, control, **kwargs):
            if on_gpu:
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - self.since)

    on_gpu, seconds = not settings.get("use_cpu"), []
    length = settings["max_completion_length"]
    own = {k: v for k, v in settings.items() if k not in ("output_dir", "reward_weights", "num_generations_eval", "per_device_eval_batch_size")}
    long = {"min_tokens": length, "ignore_eos": True} if own.get("use_vllm") else {"min_new_tokens": length}
    peft_config = None
    if config.model.lora is not None:
        from peft import LoraConfig

        peft_config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    prompt = json.loads((config.base / "train.jsonl").read_text(encoding="utf-8"))["prompt"]
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=str(config.base / "model"), args=GRPOConfig(**{**own, "output_dir": folder, "generation_kwargs": long, "save_strategy": "no"}),
            train_dataset=Dataset.from_list([{"prompt": prompt}] * 16), peft_config=peft_config, callbacks=[Clock()],
            reward_funcs=lambda completions, **columns: [float(i % 2) for i in range(len(completions))],
        )  # fmt: skip
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        trainer.train()
    peak = torch.cuda.max_memory_allocated() / GIB if on_gpu else None
    return {"peak_gib": peak and round(peak, 3), "step_s": round(seconds[-1], 2)}


@contextlib.contextmanager
def completions_made_up(length: int) -> Iterator[None]:
    """Full-length completions without writing them: minutes of generation would measure nothing about training."""
    import torch
    from trl import GRPOTrainer

    before = GRPOTrainer._generate_single_turn

    def made_up(self, prompt_ids, *args, **kwargs):
        return torch.randint(5, 100, (len(prompt_ids), length)).tolist(), None

    GRPOTrainer._generate_single_turn = made_up
    try:
        yield
    finally:
        GRPOTrainer._generate_single_turn = before


def run_case(folder: Path, case: tuple[str, dict[str, Any], tuple[int, int], bool], rehearse: bool) -> dict[str, Any]:
    """Both ways, one after the other (vLLM's engine is not given back, so there only ours); an error is a result too."""
    from grpo_rlvr.rewards import build_rewards
    from grpo_rlvr.training.launch import RunFolder, settings_for

    config = config_of(folder, case, rehearse)
    settings = settings_for(config, build_rewards(config), RunFolder(config.run_folder), False) | (
        {"use_cpu": True, "bf16": False} if rehearse else {}
    )
    made_up = contextlib.nullcontext() if case[3] else completions_made_up(config.setting("max_completion_length"))
    result: dict[str, Any] = {"case": case[0], "generated": case[3]}
    with made_up:
        for name, way in (("measured", by_phase), *(() if case is VLLM else (("plain", plain),))):
            start = time.perf_counter()
            try:
                result[name] = way(config, settings)
            except Exception as exc:  # out of memory, a missing package: the other cases still count
                result[name] = {"error": f"{type(exc).__name__}: {exc}"[:500]}
            result[name]["wall_s"] = round(time.perf_counter() - start, 1)
            result[name]["left_gib"] = release()
    return result


def release() -> float:
    """What a case leaves must not be in the next one's peak; returns what is left all the same, in GiB."""
    import torch

    gc.collect()
    if not torch.cuda.is_available():
        return 0.0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return round(torch.cuda.memory_allocated() / GIB, 3)


# ---- the whole


def machine() -> dict[str, Any]:
    """What the numbers hold for."""
    import torch
    from grpo_rlvr.training.launch import versions

    found: dict[str, Any] = {"versions": versions(), "date": datetime.date.today().isoformat()}
    if torch.cuda.is_available():
        found |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "total_gib": round(torch.cuda.mem_get_info()[1] / GIB, 2)}
    return found


def markdown(result: dict[str, Any]) -> str:
    """The tables for references/grpo-memory.md."""
    versions = result["machine"]["versions"]
    where = result["machine"].get("gpu", "CPU: a rehearsal, resident memory, no measure of the plan")
    what = "a tiny model" if result["rehearsal"] else MODEL + "'s sizes, random weights"
    lines = [f"{where}, {result['machine']['date']}; torch {versions.get('torch')}, TRL {versions.get('trl')}; {what}.", ""]
    lines += ["| run | phase | measured, GiB | planned, GiB | planned / measured |", "|---|---|---|---|---|"]
    for case in result["cases"]:
        found = case["measured"]
        if "error" in found:
            lines.append(f"| {case['case']} | failed: {found['error'][:80]} | | | |")
        for row in found.get("phases", ()):
            if row["phase"] == "rollout" and not case["generated"]:
                continue  # nothing was generated
            lines.append(f"| {case['case']} | {row['phase']} | {row['measured_gib']:.2f} | {row['planned_gib']:.2f} | {_ratio(row)} |")
    lines += ["", "| run | step, s | planned, s | plain TRL, s | plain TRL's peak, GiB | ours |", "|---|---|---|---|---|---|"]
    for case in result["cases"]:
        found, alone = case["measured"], case.get("plain", {})
        if "error" in found or "planned_step_s" not in found:
            continue
        ours = max(peaks["peak"] for peaks in found["measured"].values())
        planned = "{:.1f} - {:.1f}".format(*found["planned_step_s"]) if "gpu" in result["machine"] else "-"
        peak = f"{alone['peak_gib']:.2f}" if alone.get("peak_gib") else "-"
        seconds = f"{alone['step_s']:.1f}" if alone.get("step_s") else "-"
        lines.append(f"| {case['case']} | {found['step_s']:.1f} | {planned} | {seconds} | {peak} | {ours:.2f} |")
    lines += [f"\nLeft out: {text}" for text in result["left_out"]]
    return "\n".join(lines) + "\n"


def _ratio(row: dict[str, Any]) -> str:
    return f"{row['planned_over_measured']:.3f}" if "planned_over_measured" in row else "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder for gpu_check.json and gpu_check.md")
    parser.add_argument("--rehearse", action="store_true", help="a tiny model on the CPU")
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="S", help="no part is begun after so many seconds")
    parser.add_argument("--only", metavar="WORDS", help="only cases whose name holds these words")
    parser.add_argument("--vllm-part", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.vllm_part:
        print(json.dumps(run_case(args.vllm_part, VLLM, False)))
        return 0
    import torch

    if not args.rehearse and not torch.cuda.is_available():
        print("no GPU is seen by torch: this measures one (or --rehearse on the CPU)", file=sys.stderr)
        return 3
    start = time.perf_counter()
    result: dict[str, Any] = {"schema": "grpo-rlvr/gpu-check/1", "rehearsal": args.rehearse, "machine": machine(), "cases": [], "left_out": []}
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as name:
        folder = Path(name)
        make_model(folder / "model", args.rehearse)
        release()
        for case in CASES:
            if args.only and args.only not in case[0]:
                continue
            if time.perf_counter() - start > args.budget:
                result["left_out"].append(f"{case[0]} (no time)")
                continue
            result["cases"].append(run_case(folder, case, args.rehearse))
            _save(args.out, result, start)
        if not args.only or args.only in VLLM[0]:
            _vllm(folder, args, result, start)
        _save(args.out, result, start)
    print(markdown(result))
    return 1 if any("error" in case["measured"] for case in result["cases"]) else 0


def _vllm(folder: Path, args: argparse.Namespace, result: dict[str, Any], start: float) -> None:
    left = args.budget - (time.perf_counter() - start)
    if args.rehearse or importlib.util.find_spec("vllm") is None or left < 60:
        why = "a rehearsal" if args.rehearse else "no time" if left < 60 else "vLLM is not installed"
        result["left_out"].append(f"{VLLM[0]} ({why})")
        return
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--vllm-part", str(folder)], stdout=subprocess.PIPE, encoding="utf-8", errors="replace", timeout=left + 30
        )
        result["cases"].append(json.loads(done.stdout.strip().splitlines()[-1]))
    except (subprocess.TimeoutExpired, ValueError, IndexError) as exc:
        result["left_out"].append(f"{VLLM[0]} ({type(exc).__name__})")


def _save(out: Path, result: dict[str, Any], start: float) -> None:
    result["wall_s"] = round(time.perf_counter() - start, 1)
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu_check.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    (out / "gpu_check.md").write_text(markdown(result), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
