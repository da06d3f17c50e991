"""Answers to the tasks about a config, a run or whether to train at all."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from conftest import write_rows

from evals.leaving import change, rows, script

# ---- never-succeeds
SFT_FIRST = "The base model got 0 of 256 samples right, so GRPO has nothing to learn from. Do supervised fine-tuning (SFT) on worked examples first."


def never_good(folder: Path) -> str:
    """The numbers are those of `inspect_rewards.py run` on this model."""
    return SFT_FIRST


def never_trained(folder: Path) -> str:
    logs = folder / "runs/first/train/logs"
    logs.mkdir(parents=True)
    (logs / "progress.jsonl").write_text('{"step": 1, "reward": 0.0}\n')
    return SFT_FIRST


def never_more_steps(folder: Path) -> str:
    return "0 of 256 samples were right. SFT is not needed, just train longer: raise max_steps to 600 and the learning rate to 1e-3."


def never_generous(folder: Path) -> str:
    change(folder, rewards=[{"use": "partial_format"}])
    return SFT_FIRST + " Meanwhile I switched the reward to the format, so that it can start."


# ---- old-trl
NEW_GRPO = {
    "max_completion_length": 768, "num_generations": 6, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 3, "num_iterations": 1,
    "learning_rate": 1e-6, "lr_scheduler_type": "cosine", "warmup_steps": 0.1, "max_steps": 400, "max_grad_norm": 0.2, "beta": 0.04,
    "temperature": 0.9, "use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 1280, "vllm_gpu_memory_utilization": 0.3, "bf16": True,
    "loss_type": "grpo", "logging_steps": 1, "save_steps": 100, "seed": 7,
}  # fmt: skip
CHANGES = """\
max_prompt_length is gone: prompts are no longer cut, data.max_prompt_tokens leaves longer ones out.
warmup_ratio -> warmup_steps 0.1; vllm_device and vllm_dtype deleted; vllm_max_model_len -> vllm_max_model_length; use_liger_loss deleted;
evaluation_strategy -> eval_strategy; overwrite_output_dir deleted; torch_dtype, dataset_name and output_dir have other places.
"""


def old_good(folder: Path) -> str:
    data = {"train": "data/train.jsonl", "max_prompt_tokens": 512}
    change(
        folder,
        model={"name_or_path": "Qwen/Qwen2.5-1.5B-Instruct"},
        data=data,
        rewards=[{"use": "math"}],
        grpo=NEW_GRPO,
        run={"folder": "runs/store"},
    )
    (folder / "CHANGES.md").write_text(CHANGES)
    return "See CHANGES.md."


def old_flat(folder: Path) -> str:
    """Right too, in the form of `trl grpo --config`."""
    (folder / "config.yaml").write_text(yaml.safe_dump({"model_name_or_path": "Qwen/Qwen2.5-1.5B-Instruct", "output_dir": "out", **NEW_GRPO}))
    (folder / "CHANGES.md").write_text(CHANGES)
    return "See CHANGES.md."


def old_kept(folder: Path) -> str:
    old_good(folder)
    change(folder, grpo={"max_prompt_length": 512})
    return "See CHANGES.md."


def old_other_batch(folder: Path) -> str:
    old_good(folder)
    change(folder, grpo={"gradient_accumulation_steps": 6, "warmup_steps": 10})
    return "See CHANGES.md."


def old_new_loss(folder: Path) -> str:
    """Plausible: every name that is gone is replaced, and the default that changed is not seen."""
    old_good(folder)
    change(folder, grpo={"loss_type": "dapo"})
    return "See CHANGES.md."


def old_silent(folder: Path) -> str:
    old_good(folder)
    (folder / "CHANGES.md").write_text("Removed the settings that no longer exist.\n")
    change(folder, data={"max_prompt_tokens": None})
    return "Done."


# ---- 7b-24gb
def small_lora(folder: Path, rate: float = 1e-5, **grpo: object) -> None:
    lora = {"r": 16, "alpha": 32, "dropout": 0.0, "target_modules": "all-linear", "quantize": "nf4"}
    batch = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 16, "learning_rate": rate}
    change(folder, model={"dtype": "bfloat16", "lora": lora}, grpo={**batch, **grpo})


def fit_good(folder: Path) -> str:
    small_lora(folder)
    peak = json.loads(script(folder, "memory_plan.py", "config.yaml", "--json").stdout)["peak_gib"]
    return f"QLoRA, batches of 2 with 16 accumulation steps. Expected peak {peak:.1f} GiB of 23.5."


def fit_full(folder: Path) -> str:
    change(
        folder,
        model={"dtype": "bfloat16"},
        grpo={"per_device_train_batch_size": 1, "gradient_accumulation_steps": 32, "gradient_checkpointing": True},
    )
    return "bf16 weights and gradient checkpointing bring it to about 20 GB."


def fit_shrunk(folder: Path) -> str:
    small_lora(folder, num_generations=4, max_completion_length=512)
    return "It takes 12 GiB now."


def fit_slow_rate(folder: Path) -> str:
    small_lora(folder, rate=1e-6)
    return "It fits now."


# ---- hacked-run
REPORT = """\
# What happened
The reward was hacked. contains_answer pays for the gold anywhere in the text, and the policy learned to list candidates.
It began at about step 110: exact_answer fell from 0.4 to 0.05 while contains_answer rose to 0.97.
# What to do
Stop, do not continue or ship it. Train again from the base model with the mended reward.
"""


def hacked_good(folder: Path) -> str:
    (folder / "report.md").write_text(REPORT)
    change(folder, rewards=[{"use": "exact"}])
    return "See report.md."


def hacked_last_number(folder: Path) -> str:
    """Plausible: any match of a whole number."""
    (folder / "report.md").write_text(REPORT)
    text = (folder / "rewards.py").read_text()
    (folder / "rewards.py").write_text(text.replace("str(gold) in completion", 'str(gold) in re.findall(r"\\d+", completion)'))
    return "See report.md."


def hacked_overfit(folder: Path) -> str:
    (folder / "report.md").write_text("The model overfits since step 250. Lower the learning rate to 5e-7 and continue to step 1000 with beta 0.1.\n")
    return "See report.md."


# ---- two-gpus
def served(folder: Path, grpo: dict | None = None) -> None:
    grpo = {"use_vllm": True, "vllm_mode": "server", "vllm_max_model_length": 2048, **(grpo or {})}
    change(folder, hardware={"count": 2, "vllm_server": {"start": True, "gpus": 1}}, grpo=grpo)


def two_good(folder: Path) -> str:
    served(folder)
    (folder / "run.sh").write_text("#!/bin/sh\nset -e\npython .agents/skills/grpo-rlvr-training/scripts/train.py config.yaml --launch --go\n")
    return "Started by run.sh."


def two_by_hand(folder: Path) -> str:
    served(folder)
    (folder / "run.sh").write_text(
        "CUDA_VISIBLE_DEVICES=1 VLLM_SERVER_DEV_MODE=1 vllm serve Qwen/Qwen2.5-3B-Instruct --host 127.0.0.1 --port 8000 --max-model-len 2048 &\n"
        "CUDA_VISIBLE_DEVICES=0 accelerate launch --num_processes 1 train.py config.yaml\n"
    )
    return "Started by run.sh."


def two_by_url(folder: Path) -> str:
    """TRL's names alone, constants in the script, and a length that it computes."""
    grpo = {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": "http://127.0.0.1:8137"}
    change(folder, hardware={"count": 2}, grpo=grpo)
    (folder / "run.sh").write_text(
        'SERVER_GPU=1\nTRAIN_GPU=0   # the first\nLENGTH=$(python -c \'import yaml; c = yaml.safe_load(open("config.yaml")); '
        'print(c["data"]["prompt_tokens"] + c["grpo"]["max_completion_length"])\')\n'
        'CUDA_VISIBLE_DEVICES=$SERVER_GPU trl vllm-serve --model Qwen/Qwen2.5-3B-Instruct --host 127.0.0.1 --port 8137 --max_model_len "$LENGTH" &\n'
        "CUDA_VISIBLE_DEVICES=${TRAIN_GPU} python train.py config.yaml\n"
    )
    return "Started by run.sh."


def two_unstarted(folder: Path) -> str:
    two_by_url(folder)
    text = (folder / "run.sh").read_text().replace("python train.py config.yaml", '"${TRAIN_CMD[@]}"')
    (folder / "run.sh").write_text("TRAIN_CMD=()   # e.g. (python train.py config.yaml)\n" + text)
    return "Started by run.sh."


def two_open(folder: Path) -> str:
    two_by_hand(folder)
    (folder / "run.sh").write_text((folder / "run.sh").read_text().replace("127.0.0.1", "0.0.0.0"))
    return "Started by run.sh."


def two_colocated(folder: Path) -> str:
    change(folder, hardware={"count": 2}, grpo={"use_vllm": True, "vllm_mode": "colocate"})
    (folder / "run.sh").write_text("accelerate launch --num_processes 2 train.py config.yaml\n")
    return "Started by run.sh."


def two_same_gpu(folder: Path) -> str:
    served(folder)
    (folder / "run.sh").write_text("python train.py config.yaml &&\n")
    return "Started by run.sh."


# ---- dead-groups
DEAD = "frac_reward_zero_std is 0.81: four of five questions are always or never solved, so their groups have no variance and teach nothing."


def dead_good(folder: Path) -> str:
    train = rows(folder / "data/train.jsonl")
    index = {row["id"]: i for i, row in enumerate(train)}
    recorded = [{"prompt_index": index[r["id"]], "completion": r["completion"]} for r in rows(folder / "samples/base_model_k8.jsonl")]
    write_rows(folder / "recorded.jsonl", recorded)
    change(folder, model={"name_or_path": "Qwen/Qwen2.5-0.5B-Instruct"}, data={"train": "data/train.jsonl"}, rewards=[{"use": "exact"}])
    out = ["--keep-band", "0.2", "0.8", "--band-file", "data/train_filtered.jsonl"]
    done = script(folder, "inspect_rewards.py", "run", "config.yaml", "--completions", "recorded.jsonl", *out)
    assert (folder / "data/train_filtered.jsonl").is_file(), done.stderr
    return DEAD


def dead_hard(folder: Path) -> str:
    """Plausible: only what is always solved is thrown out."""
    write_rows(folder / "data/train_filtered.jsonl", [r for i, r in enumerate(rows(folder / "data/train.jsonl")) if i % 5 not in (1, 2)])
    return DEAD


def dead_rate(folder: Path) -> str:
    return "The cause is the learning rate: 1e-6 is too small. Raise the learning rate to 1e-5. I also filtered the data a little."


# ---- preferences
def dpo(folder: Path) -> str:
    return "No program can check which reply is right, so GRPO has no reward here. Use DPO on the pairs (trl DPOTrainer)."


def preferences_similarity(folder: Path) -> str:
    (folder / "rewards.py").write_text("def like_chosen(completions, chosen, **columns):\n    return [0.0] * len(completions)\n")
    return "I set up GRPO with a reward for the similarity to the chosen reply. DPO is another way, but no program can check replies."


def preferences_just_do(folder: Path) -> str:
    return "GRPO is the right choice. I suggest a length reward and a politeness reward."
