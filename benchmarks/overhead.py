#!/usr/bin/env python3
"""What our layer adds to a training step: the same TRL trainer twice in one process, plain and with our callbacks and reward adapter.

The two take turns step by step, each in a thread of its own, so that whatever else the machine does hits both alike. Every completion has the
same length, so that every step is the same work. Seconds are CPU time of the process (only one of the two runs at a time) and, beside it, wall
time; a step is measured from its beginning to the beginning of the next, so logging and writing to the disk count.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from transformers import TrainerCallback

CONFIG = """\
model: {{name_or_path: model}}
data: {{train: train.jsonl}}
rewards: [{{use: 'rewards.py:letters'}}]
grpo:
  use_cpu: true
  bf16: false
  per_device_train_batch_size: {completions}
  num_generations: 8
  max_completion_length: {tokens}
  generation_kwargs: {{min_new_tokens: {tokens}}}
  max_steps: {steps}
  save_strategy: "no"
  learning_rate: 1.0e-5
run: {{folder: run}}
"""
REWARD = "def letters(completions, **columns):\n    return [sum(c.isalpha() for c in x[0]['content']) / len(x[0]['content']) for x in completions]\n"
WARM_UP = 3  # steps of each that are not counted


class Turn:
    """Lets two threads run in turns."""

    def __init__(self) -> None:
        self.of, self.ended, self.changed = 0, set(), threading.Condition()

    def wait(self, me: int) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.of == me or 1 - me in self.ended)

    def over(self, me: int) -> None:
        with self.changed:
            self.of = 1 - me
            self.changed.notify_all()

    def end(self, me: int) -> None:
        with self.changed:
            self.ended.add(me)
            self.changed.notify_all()


class Stopwatch(TrainerCallback):
    """Measures a step from its beginning to the next one's, and gives the turn away between two."""

    def __init__(self, turn: Turn, me: int):
        self.turn, self.me = turn, me
        self.cpu: list[float] = []
        self.wall: list[float] = []
        self.began: tuple[float, float] | None = None

    def on_step_begin(self, args, state, control, **kwargs):
        if self.began is not None:
            self.cpu.append(time.process_time() - self.began[0])
            self.wall.append(time.perf_counter() - self.began[1])
            self.turn.over(self.me)
        self.turn.wait(self.me)
        self.began = time.process_time(), time.perf_counter()


def project(folder: Path, options: argparse.Namespace) -> Path:
    """A config, its data and a random model of the given width."""
    import torch
    from grpo_rlvr.demo.tiny import build_tokenizer
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = build_tokenizer()
    torch.manual_seed(0)
    heads = max(1, options.width // 32)
    shape = Qwen2Config(
        vocab_size=-(-len(tokenizer) // 16) * 16, hidden_size=options.width, intermediate_size=3 * options.width, num_hidden_layers=options.layers,
        num_attention_heads=heads, num_key_value_heads=heads, max_position_embeddings=1024, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    Qwen2ForCausalLM(shape).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    rows = [{"prompt": [{"role": "user", "content": f"{i}+1=?"}], "answer": str(i + 1)} for i in range(4000)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "rewards.py").write_text(REWARD, encoding="utf-8")
    steps = options.pairs + WARM_UP + 1
    (folder / "config.yaml").write_text(CONFIG.format(completions=options.completions, tokens=options.tokens, steps=steps), encoding="utf-8")
    return folder / "config.yaml"


def trainers(path: Path, watches: list[Stopwatch], out):
    """The plain trainer and ours, on the same settings."""
    from datasets import Dataset
    from grpo_rlvr.config import load_config
    from grpo_rlvr.data import load_rows, to_dataset
    from grpo_rlvr.rewards import build_rewards
    from grpo_rlvr.training import launch
    from trl import GRPOConfig, GRPOTrainer

    config = load_config(path)
    rows, rewards, run = load_rows(config, "train"), build_rewards(config), launch.RunFolder(config.run_folder)
    model = launch.model_path(config)
    settings = launch.settings_for(config, rewards, run, False)

    plain_settings = {**settings, "output_dir": str(path.parent / "plain"), "model_init_kwargs": {"dtype": "float32"}}
    space: dict = {}
    exec(REWARD, space)  # the very same function, handed to TRL as it is
    data = Dataset.from_list([{k: row[k] for k in ("prompt", "answer")} for row in rows])
    plain = GRPOTrainer(model=model, args=GRPOConfig(**plain_settings), train_dataset=data, reward_funcs=[space["letters"]], callbacks=[watches[0]])
    batch = launch.RewardBatch(rewards, config.inspection.pass_threshold)
    progress = launch.ProgressCallback(run.progress, batch, out)
    recorder = launch.HeldOutCallback(batch, run.logs, run.evaluations, {}, 1, "")
    tables, vllm = launch.TablesCallback(config.run.completion_tables), launch.vllm_callback(run, config, None)
    callbacks = [watches[1], progress, recorder, tables, vllm, launch.StopCallback(), launch.NoMoreStepsCallback()]
    ours = GRPOTrainer(
        model=model, args=launch.build_grpo_config(settings, False), train_dataset=to_dataset(rows), reward_funcs=batch.functions(),
        callbacks=callbacks,
    )  # fmt: skip
    for trainer in (plain, ours):
        launch.prepare(trainer, config, rows)
    return plain, ours


def measure(options: argparse.Namespace) -> dict:
    turn, failures = Turn(), []
    watches = [Stopwatch(turn, 0), Stopwatch(turn, 1)]
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w", encoding="utf-8") as out:
        both = trainers(project(Path(folder), options), watches, out)

        def train(me: int) -> None:
            try:
                both[me].train()
            except BaseException as exc:
                failures.append(exc)
            finally:
                turn.end(me)

        threads = [threading.Thread(target=train, args=(me,)) for me in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        parameters = sum(p.numel() for p in both[0].model.parameters())
    result = {"parameters": parameters, "completions": options.completions, "tokens": options.tokens, "pairs": options.pairs}
    for name in ("cpu", "wall"):
        plain, ours = (getattr(w, name)[WARM_UP : WARM_UP + options.pairs] for w in watches)
        result[name] = compare(plain, ours)
    return result


def compare(plain: list[float], ours: list[float]) -> dict:
    """Medians in seconds, and the median of the paired differences with a bootstrap interval, absolute and relative."""
    differences = [b - a for a, b in zip(plain, ours, strict=True)]
    base, rng = statistics.median(plain), random.Random(0)
    medians = sorted(statistics.median(rng.choices(differences, k=len(differences))) for _ in range(2000))
    low, high = medians[50], medians[1949]
    middle = statistics.median(differences)
    return {
        "plain_s": base, "ours_s": statistics.median(ours),
        "added_ms": 1000 * middle, "added_ms_ci95": [1000 * low, 1000 * high],
        "added_share": middle / base, "added_share_ci95": [low / base, high / base],
    }  # fmt: skip


def show(result: dict) -> None:
    shape = f"{result['parameters'] / 1e6:.1f} million parameters, {result['completions']} completions of {result['tokens']} tokens"
    print(f"{shape}, {result['pairs']} steps of each in turns")
    for name in ("cpu", "wall"):
        r = result[name]
        low, high = (100 * x for x in r["added_share_ci95"])
        added = f"{r['added_ms']:+.1f} ms = {100 * r['added_share']:+.2f}%"
        print(f"{name:5} plain {r['plain_s']:.3f} s a step; ours adds {added} (95% interval {low:+.2f} to {high:+.2f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60, help="steps of each that count")
    parser.add_argument("--completions", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):
        found = measure(chosen)
    if chosen.json:
        print(json.dumps(found))
    else:
        show(found)
