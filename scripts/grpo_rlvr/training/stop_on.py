"""Ends the training on chosen symptoms (`run.stop_on`), by the rules that `diagnose.py` applies to the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transformers import TrainerCallback

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.diagnosis.findings import Finding
from grpo_rlvr.diagnosis.metrics import build
from grpo_rlvr.diagnosis.rules import RULES, diagnose
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.texts import finding_lines
from grpo_rlvr.training.run_folder import RunFolder

EVERY_LINES = 5  # a look costs milliseconds; a trend needs more than one line to change
AT_ONCE = {rule.name for rule in RULES if rule.least <= 1}  # broken numbers: waiting for a second look would help nobody


class StopOnCallback(TrainerCallback):
    """Looks at the log every few lines; a symptom of high or medium confidence that two looks in a row see ends the training."""

    def __init__(self, symptoms: Sequence[str], settings: dict, config: dict, progress: Path):
        self.symptoms = tuple(symptoms)
        self.settings = settings
        self.config = config
        self.progress = progress
        self.lines: list[dict] = []
        self.suspected: set[str] = set()
        self.found: Finding | None = None

    def on_train_begin(self, args, state, control, **kwargs):
        # After a resume the log goes on; what was logged before it counts.
        self.lines = [dict(line) for line in state.log_history if "step" in line]

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.lines.append({**(logs or {}), "step": state.global_step})
        broken = any(isinstance(v, float) and v - v != 0 for v in (logs or {}).values())
        if self.found is None and (broken or len(self.lines) % EVERY_LINES == 0):
            self.look(state.max_steps, broken)

    def look(self, max_steps: int, at_once: bool = False) -> None:
        """Apply the chosen rules; keeps the first finding that stands."""
        run = Run(build(self.lines, "run folder"), self.progress, settings={**self.settings, "max_steps": max_steps}, known=True, config=self.config)
        only = [s for s in self.symptoms if s in AT_ONCE] if at_once else self.symptoms
        found = {f.name: f for f in diagnose(run, only).findings if f.confidence != "low"}
        sure = [f for name, f in found.items() if name in AT_ONCE or name in self.suspected]
        if not at_once:
            self.suspected = set(found)
        if sure:
            self.found = sure[0]

    def on_step_end(self, args, state, control, **kwargs):
        from grpo_rlvr.training.callbacks import _any_process

        cycle = args.steps_per_generation * args.num_iterations
        between = state.global_step * args.gradient_accumulation_steps % cycle == 0
        if _any_process(self.found is not None, args.device) and between:
            if state.is_world_process_zero and self.found is not None:
                say(f"run.stop_on: stopping at step {state.global_step}\n" + "\n".join(finding_lines(self.found, 1)))
            control.should_log = True
            # A state that holds NaN is nothing to go on from.
            control.should_save = args.save_strategy != "no" and not (self.found is not None and self.found.name in AT_ONCE)
            control.should_training_stop = True
        return control


def stop_on_symptoms(trainer, config: Config, settings: dict, run: RunFolder) -> None:
    """Add the callback that `run.stop_on` asks for, if it asks for anything."""
    if config.run.stop_on:
        trainer.add_callback(StopOnCallback(config.run.stop_on, dict(settings), config.raw, run.progress.path))
