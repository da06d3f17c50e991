"""What the run does between TRL's steps: writes progress, records held-out accuracy, stops cleanly on a signal."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from transformers import TrainerCallback

from grpo_rlvr.bars import Bar
from grpo_rlvr.cli import say
from grpo_rlvr.errors import CheckFailed, GrpoRlvrError, MissingError, Problem
from grpo_rlvr.training.adapter import RewardBatch
from grpo_rlvr.training.display import figures
from grpo_rlvr.training.gpu import Thermometer, peak_memory_gb, used_memory_gb
from grpo_rlvr.training.held_out import write_records
from grpo_rlvr.training.progress import Pace, ProgressLog, progress_line
from grpo_rlvr.training.tables import surplus, table_path
from grpo_rlvr.training.timeline import Timeline, shares
from grpo_rlvr.training.vllm_monitor import SyncMonitor
from grpo_rlvr.training.vllm_server import VllmServer


class ProgressCallback(TrainerCallback):
    """Writes one JSON line a logged step to the log and to `out`, and shows the run on a terminal."""

    def __init__(self, log: ProgressLog, batch: RewardBatch, out: TextIO, epochs: float = 1.0):
        self.log = log
        self.epochs = epochs  # of the data, in one of the trainer's; see `epochs.Layout`
        self.batch = batch
        self.out = out
        self.pace = Pace()
        self.bar: Bar | None = None
        self.written = 0
        self.timeline = batch.timeline = Timeline()
        self.thermometer = Thermometer()
        self.tokens = 0
        self.rewards: list[float | None] = []

    def on_train_begin(self, args, state, control, **kwargs):
        self.written = state.global_step
        self.tokens = state.num_input_tokens_seen
        if state.is_world_process_zero and sys.stderr.isatty():
            self.bar = Bar("training", state.max_steps, state.global_step).__enter__()

    def on_step_begin(self, args, state, control, **kwargs):
        self.timeline.step_begins()

    def on_substep_end(self, args, state, control, **kwargs):
        self.timeline.substep_ends()

    def on_step_end(self, args, state, control, **kwargs):
        self.timeline.step_ends()

    def on_log(self, args, state, control, logs=None, **kwargs):
        # A step inside a generation cycle has a loss and no reward. The last entry of a run summarises it; only when nothing was
        # logged for that step do its metrics stand there alone.
        logs = logs or {}
        training = ("loss" in logs or "reward" in logs) and state.global_step > self.written
        if not state.is_world_process_zero or not training:
            return
        self.written = state.global_step
        eta_s = self.pace.eta_s(state.global_step, state.max_steps)
        line = progress_line(logs, state.global_step, peak_memory_gb(), self.thermometer.read_c(), eta_s)
        if isinstance(line.get("epoch"), float):
            line["epoch"] *= self.epochs
        line |= self._speed(state.num_input_tokens_seen)
        line["gpu_used_gb"] = used_memory_gb()
        line["dropped_share"] = self.batch.take_dropped_share()
        if self.batch.failures is not None and any(self.batch.failures.total.values()):
            line["reward_failures"] = dict(self.batch.failures.total)  # batches so far, by reward
        line["reward_seconds"] = {name: round(s, 4) for name, s in self.batch.seconds.items()}
        self._print(self.log.append(line))
        if self.bar is not None:
            self.rewards.append(line.get("reward"))
            self.bar.show(state.global_step, lines=figures(line, self.rewards))

    def _speed(self, tokens: int) -> dict:
        """Tokens a second (prompts and completions of all processes) and where the time of the steps went (on this process)."""
        seconds = self.timeline.take()
        more, spent = tokens - self.tokens, sum(seconds.values())
        self.tokens = tokens
        return {"tokens_per_s": round(more / spent, 1) if spent > 0 and more > 0 else None, **shares(seconds)}

    def _print(self, text: str) -> None:
        if self.bar is not None and self.out.isatty():
            return  # the figures below the bar tell it; the line is in the file
        try:
            print(text, file=self.out, flush=True)
        except BrokenPipeError:
            # Whoever read along has gone; training goes on, and the file has the lines.
            say("stdout was closed; progress goes on in progress.jsonl")
            self.out = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115

    def __enter__(self) -> ProgressCallback:
        return self

    def __exit__(self, *error) -> None:
        # Also after an error, when TRL does not call `on_train_end`.
        if self.bar is not None:
            self.bar.__exit__()
            self.bar = None


class FiniteCallback(TrainerCallback):
    """Ends the run before an update that would put NaN or infinity into the weights, and keeps the batch.

    Not with fp16, whose loss scaling meets infinity by design and passes over the step.
    """

    def __init__(self, batch: RewardBatch):
        self.batch = batch

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        import torch

        gradients = [] if model is None or args.fp16 else [p.grad for p in model.parameters() if p.grad is not None]
        if not gradients:  # under DeepSpeed they are not here
            return
        local = [g.to_local() if hasattr(g, "to_local") else g for g in gradients]
        finite = bool(torch.isfinite(torch.stack([n.float() for n in torch._foreach_norm(local)])).all())
        if not _any_process(not finite, args.device):
            return
        self._stop(state.global_step + 1, "the weights were not touched")

    def on_log(self, args, state, control, logs=None, **kwargs):
        # Clipping by an infinite norm makes every gradient 0: the update is lost without a sign but this number.
        norm = (logs or {}).get("grad_norm")
        if norm is not None and not args.fp16 and not math.isfinite(norm):
            self._stop(state.global_step, f"its norm was {norm}, and clipping made the update nothing")

    def _stop(self, step: int, what: str) -> None:
        problem = f"the gradient of step {step} is not finite: {what}"
        path = self.batch.save_last(problem)
        fix = "look for an extreme reward or ratio in the batch" + (f" ({path})" if path else "")
        fix += "; lower grpo.learning_rate or the rewards' weights, then --resume --allow-changes goes on from the last checkpoint"
        raise CheckFailed("run", Problem("train", problem, fix))


class TablesCallback(TrainerCallback):
    """Keeps the tables that `log_completions` writes apart and few.

    TRL names a table by its step only, so an evaluation would write over the table of the same step's training: that one is put aside
    meanwhile, and the evaluation's gets a name of its own.
    """

    def __init__(self, keep: int):
        self.keep = keep
        self.aside: Path | None = None

    def on_prediction_step(self, args, state, control, **kwargs):
        table = table_path(args.output_dir, state.global_step)
        if state.is_world_process_zero and self.aside is None and table.exists():
            self.aside = table.rename(table.with_suffix(".training"))

    def on_evaluate(self, args, state, control, **kwargs):
        if not state.is_world_process_zero:
            return
        table = table_path(args.output_dir, state.global_step)
        # Of this evaluation if it was written after the training's was put aside, or before the first step.
        if table.exists() and (self.aside is not None or state.global_step == 0):
            table.replace(table.with_name(f"eval_{table.name}"))
        if self.aside is not None:
            self.aside.rename(table)
            self.aside = None

    def on_save(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            for table in surplus(sorted(table_path(args.output_dir, 0).parent.glob("*completions_*.parquet")), self.keep):
                table.unlink(missing_ok=True)

    on_train_end = on_save


class VllmCallback(TrainerCallback):
    """Ends the training, with a checkpoint, when vLLM plainly does not follow it or its server is gone."""

    def __init__(self, monitor: SyncMonitor, stop_when_stale: bool, server: VllmServer | None):
        self.monitor = monitor
        self.stop_when_stale = stop_when_stale
        self.server = server
        self.problem: GrpoRlvrError | None = None

    def on_log(self, args, state, control, logs=None, **kwargs):
        found = self.monitor.see(logs or {}) if state.is_world_process_zero else None
        if found is None:
            return
        say(f"warning ({found.code}): step {state.global_step}: {found.message}\n    -> {found.fix}")
        if found.stop and self.stop_when_stale:
            fix = f"{found.fix}; then --resume (or run.on_stale_vllm: warn)"
            self.problem = CheckFailed("vllm", Problem(found.code, found.message, fix))

    def on_step_end(self, args, state, control, **kwargs):
        if not args.use_vllm:
            return control
        if self.problem is None and self.server is not None and not self.server.alive():
            self.problem = MissingError("vllm", self.server.problem(f"the server ended by step {state.global_step}", "then the same with --resume"))
        return end_together(self.problem is not None, args, state, control)

    def raise_problem(self) -> None:
        """After the training: what ended it, if it was this."""
        if self.problem is not None:
            raise self.problem


def end_together(wanted: bool, args, state, control):
    """End the training with a checkpoint after this step if a process wants it and the step ends a generation cycle."""
    # The processes learn of things at different moments; they must stop at the same step, or they wait for one another.
    cycle = args.steps_per_generation * args.num_iterations
    between = state.global_step * args.gradient_accumulation_steps % cycle == 0
    if _any_process(wanted, args.device) and between:
        control.should_log = True  # what has been measured since the last line
        control.should_save = args.save_strategy != "no"
        control.should_training_stop = True
    return control


class HeldOutCallback(TrainerCallback):
    """Records each evaluation's completions and accuracy."""

    def __init__(self, batch: RewardBatch, folder: Path, log: ProgressLog, prompts: Mapping[str, object], per_prompt: int, inputs: str):
        self.batch = batch
        self.folder = folder
        self.log = log
        self.prompts = prompts
        self.per_prompt = per_prompt
        self.inputs = inputs

    def on_evaluate(self, args, state, control, **kwargs):
        from accelerate.utils import gather_object

        records = gather_object(self.batch.take_held_out())
        if state.is_world_process_zero:
            summary = write_records(self.folder, state.global_step, records, self.prompts, self.per_prompt, self.inputs)
            self.log.append(summary)
            if summary["accuracy"] is not None:
                say(f"held-out accuracy at step {state.global_step}: {summary['accuracy']:.1%} of {summary['prompts']} prompts")


class StopCallback(TrainerCallback):
    """On SIGTERM or SIGINT: finishes the generation cycle, saves a checkpoint and ends the training. A second signal ends it at once.

    Only a checkpoint between two generations resumes exactly, and a cycle is seldom more than one step.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict = {}

    def __enter__(self) -> StopCallback:
        for number in self.SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame) -> None:
        if self.received is not None:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.received = number
        say(f"{signal.Signals(number).name}: finishing this step, then a checkpoint (again to leave at once, without one)")

    def on_step_end(self, args, state, control, **kwargs):
        return end_together(self.received is not None, args, state, control)


class AlreadyTrained(Exception):
    """The checkpoint that was loaded holds all the steps that were asked for."""


class NoMoreStepsCallback(TrainerCallback):
    """Stops before a step beyond `max_steps`.

    transformers looks at `max_steps` only after a step, so a run that is resumed from its last checkpoint would train one more.
    """

    def on_train_begin(self, args, state, control, **kwargs):
        # The checkpoint's weights have been loaded by now.
        if state.global_step >= state.max_steps:
            raise AlreadyTrained


def _any_process(flag: bool, device) -> bool:
    import torch

    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return flag
    shared = torch.tensor(int(flag), device=device)
    torch.distributed.all_reduce(shared, op=torch.distributed.ReduceOp.MAX)
    return bool(shared.item())
