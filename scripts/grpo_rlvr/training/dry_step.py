"""`train.py --dry-step`: the run's worst step on the real device, through TRL's own trainer, beside what the plan says of it.

The longest prompt of the data, completions that may not end before `max_completion_length`, full groups. The optimizer's states come with the
first update, so the trainer goes on until a second generation and a second update, and only those are measured. Rewards are a stand-in (they
run on the host, and some cost money); no gate is asked for, nothing that is learned is kept.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.data import to_dataset
from grpo_rlvr.device import device_type
from grpo_rlvr.env_report import NAME, write_part
from grpo_rlvr.errors import CheckFailed, MissingError, Problem
from grpo_rlvr.memory.estimate import PHASES
from grpo_rlvr.training.dry_report import compared, gib, show
from grpo_rlvr.training.memory_here import is_out_of_memory, memory_problem, phase_of
from grpo_rlvr.training.meter import CudaProbe, Meter, RssProbe
from grpo_rlvr.training.process import is_main_process, quiet_known_noise
from grpo_rlvr.training.settings import build_grpo_config, check_launch, check_machine, peft_config
from grpo_rlvr.training.vllm_server import vllm_server

SAID = "grpo_rlvr/dry_step/said"  # the key under which a process tells the others that it is out of memory
CANDIDATES = 64  # prompts, longest as text, of which the longest in tokens is taken
# (method of the trainer, phase); the innermost that is running counts
WATCHED = (("training_step", "training step"), ("_generate_and_score_completions", "log-probs"), ("_generate", "rollout"))


def dry_step(config: Config, settings: dict[str, Any], rows: Sequence[dict], model: str) -> tuple[int, dict]:
    """Run it, write `env-report.json` in the run folder and print the comparison.

    Raises:
        CheckFailed: it ran out of memory; the plan's view and the next lever are in the message, and in the report.
        MissingError: this machine lacks what training needs.
    """
    machine = [*check_machine(config, device_type(config) != "cpu"), *check_launch(device_type(config) != "cpu")]
    if machine:
        raise MissingError("missing", machine)
    quiet_known_noise()
    if not sys.stderr.isatty():
        from transformers.utils import logging

        logging.disable_progress_bar()
    meter = Meter(CudaProbe() if device_type(config) == "cuda" else RssProbe())
    with tempfile.TemporaryDirectory(prefix="grpo-dry-step-") as folder, vllm_server(config, Path(folder)):
        try:
            found = measured_step(config, settings, rows, model, meter, folder)
        except Exception as exc:
            if not is_out_of_memory(exc):
                if problem := said_by_another():
                    raise CheckFailed("memory", problem) from exc
                raise
            # The optimizer's phase is opened by callbacks, which no error passes through.
            phase = phase_of(exc) if meter.failed == "training step" else meter.failed
            problem = memory_problem(exc, config, phase)
            report = {"ok": False, "device": meter.probe.device, "failed_in": phase, "message": problem.message, "fix": problem.fix}
            if is_first_to_say(problem):
                write_part(config.run_folder / NAME, "dry_step", {**report, "rank": int(os.environ.get("RANK", "0"))})
            raise CheckFailed("memory", problem) from exc
    result = {"ok": True, **found, **compared(config, found)}
    if is_main_process():
        write_part(config.run_folder / NAME, "dry_step", result)
        show(result)
        say(f"written to {config.run_folder / NAME}")
    return 0, {"schema": "grpo-rlvr/dry-step/1", **result}


def is_first_to_say(problem: Problem) -> bool:
    """Tell the other processes what went wrong in this one; whether it is the first, which writes the report. Any may run out, or all at once."""
    store = _store()
    if store is None:
        return is_main_process()
    try:
        first = store.add(f"{SAID}/count", 1) == 1
        if first:
            store.set(SAID, json.dumps(vars(problem)))
        return first
    except RuntimeError:  # the process that kept the store has ended
        return True


def said_by_another() -> Problem | None:
    """What another process ran out of, where an error of this one (a connection that is gone) may only be its consequence."""
    store = _store()
    with contextlib.suppress(RuntimeError):
        if store is not None and store.check([SAID]):
            return Problem(**json.loads(store.get(SAID)))
    return None


def _store() -> Any:
    """What the processes of one run share beside their tensors; None where there is one process."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return None
    from torch.distributed.distributed_c10d import _get_default_store

    return _get_default_store()


# ---- the step


def measured_step(config: Config, settings: dict[str, Any], rows: Sequence[dict], model: str, meter: Meter, folder: str) -> dict[str, Any]:
    """Peaks by phase (bytes), sizes of what is held (bytes), seconds by phase, of the worst step."""
    import torch
    from trl import GRPOTrainer

    base = meter.probe.now()
    with meter.phase("start"):
        args = build_grpo_config(worst_case(config, settings, folder), eval_on_start=False)
        args.max_steps = 1 + max(1, args.steps_per_generation * args.num_iterations // args.gradient_accumulation_steps)
        row = longest_prompt(config, rows, model)
        prompts = max(8, math.ceil(args.generation_batch_size / args.num_generations))
        watcher = Watcher(meter, args.max_steps)
        trainer = GRPOTrainer(
            model=model, args=args, train_dataset=to_dataset([row] * prompts), reward_funcs=_alternating, peft_config=peft_config(config),
            callbacks=[watcher],
        )  # fmt: skip
    from transformers import PrinterCallback, ProgressCallback

    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    watch(trainer, meter)
    tokens = _lengths(trainer)
    trainer.train()
    # Python and its libraries, which only resident memory counts: what was there before the model, and after the first step beside it.
    own = {p: 0 if meter.probe.device != "cpu" else base if p == "start" else watcher.base for p in meter.peaks}
    return {
        "device": torch.cuda.get_device_name() if meter.probe.device == "cuda" else "cpu", "method": meter.probe.method, "rank": args.process_index,
        "processes": args.world_size, "prompt_tokens": tokens[0], "completion_tokens": tokens[1], "batch": args.per_device_train_batch_size,
        "completions_a_generation": args.per_device_train_batch_size * args.steps_per_generation, "base_gib": gib(max(own.values())),
        "autocast": bool(args.bf16 or args.fp16), "steps_run": trainer.state.global_step,
        "measured": {p: {k: gib(v - (own[p] if k == "peak" else 0)) for k, v in meter.peaks[p].items()} for p in PHASES if p in meter.peaks},
        "held": {k: gib(v) for k, v in watcher.held.items()}, "seconds": {k: round(v, 3) for k, v in meter.seconds.items()},
    }  # fmt: skip


def worst_case(config: Config, settings: dict[str, Any], folder: str) -> dict[str, Any]:
    """The run's settings, with completions that go on to their limit, and nothing saved, evaluated or reported."""
    length = config.setting("max_completion_length")
    vllm = bool(settings.get("use_vllm"))
    long = {"min_tokens": length, "ignore_eos": True} if vllm else {"min_new_tokens": length}
    return {
        **settings, "generation_kwargs": {**(settings.get("generation_kwargs") or {}), **long}, "output_dir": folder, "reward_weights": [1.0],
        "save_strategy": "no", "eval_strategy": "no", "load_best_model_at_end": False, "report_to": "none", "push_to_hub": False,
        "mask_truncated_completions": False, "log_completions": False, "logging_steps": 1, "disable_tqdm": True,
    }  # fmt: skip


def longest_prompt(config: Config, rows: Sequence[dict], model: str) -> dict:
    """The row whose prompt has the most tokens; the longest as text are looked at."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, revision=config.model.revision, trust_remote_code=bool(config.grpo.get("trust_remote_code")))
    kwargs = config.sampling["chat_template_kwargs"] or {}

    def tokens(row: dict) -> int:
        prompt = row["prompt"]
        if isinstance(prompt, str):
            return len(tokenizer(prompt)["input_ids"])
        return len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False, **kwargs))

    return max(sorted(rows, key=lambda r: -len(str(r["prompt"])))[:CANDIDATES], key=tokens)


def _alternating(completions: list, **columns: Any) -> list[float]:
    """Rewards that differ within each group, so that there is something to learn."""
    return [float(i % 2) for i in range(len(completions))]


class Watcher(TrainerCallback):
    """Tells the meter when the optimizer works, and counts what is held then."""

    def __init__(self, meter: Meter, steps: int) -> None:
        self.meter, self.steps, self.held = meter, steps, {}
        self.base = 0

    def on_pre_optimizer_step(self, args, state, control, model=None, optimizer=None, **kwargs):
        if state.global_step == self.steps - 1:
            self.held = held(model, optimizer, self.trainer.ref_model)
        self.meter.push("optimizer step")

    def on_optimizer_step(self, args, state, control, **kwargs):
        self.meter.pop()

    def on_step_end(self, args, state, control, model=None, optimizer=None, **kwargs):
        if state.global_step == 1:
            probe = self.meter.probe
            probe.settle()
            # What a first step imports and keeps for itself is no part of the run's memory on a GPU.
            self.base = max(0, probe.now() - sum(held(model, optimizer, self.trainer.ref_model).values()))
            self.meter.forget()


def watch(trainer: Any, meter: Meter) -> None:
    """Have the meter told whenever TRL's trainer, which is left as it is, begins and ends a phase."""
    for name, phase in WATCHED:
        setattr(trainer, name, _within(meter, phase, getattr(trainer, name)))
    engine = getattr(trainer, "vllm_generation", None)
    if engine is not None:
        engine.sync_weights = _within(meter, "weight sync", engine.sync_weights)
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, Watcher):
            callback.trainer = trainer


def _within(meter: Meter, phase: str, function: Callable) -> Callable:
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with meter.phase(phase):
            return function(*args, **kwargs)

    return wrapped


def _lengths(trainer: Any) -> list[int]:
    """[tokens of the longest prompt, of the shortest completion], filled while the trainer works; all completions should be at the limit."""
    found, generate = [0, 0], trainer._generate

    @functools.wraps(generate)
    def noted(*args, **kwargs):
        out = generate(*args, **kwargs)
        found[0] = max([found[0], *(len(ids) for ids in out[0])])
        found[1] = min([found[1] or 10**9, *(len(ids) for ids in out[1])])
        return out

    trainer._generate = noted
    return found


def held(model: Any, optimizer: Any, reference: Any) -> dict[str, int]:
    """Bytes of what lives through the step on this process, each storage once; of sharded tensors the local part."""
    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    frozen = [p for p in parameters if not p.requires_grad]
    full = not frozen
    states = getattr(optimizer, "optimizer", optimizer).state.values()
    return {
        "weights": _bytes(trained if full else frozen),
        "adapters": 0 if full else _bytes(trained),
        "reference": _bytes(reference.parameters()) if reference is not None else 0,
        "gradients": _bytes(p.grad for p in trained if p.grad is not None),
        "optimizer": _bytes(value for state in states for value in state.values()),
    }


def _bytes(tensors: Any) -> int:
    import torch

    seen: dict[int, int] = {}
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor):
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            with contextlib.suppress(RuntimeError, NotImplementedError):
                seen[local.untyped_storage().data_ptr()] = local.untyped_storage().nbytes()
    return sum(seen.values())
