"""The steps of `templates/train.py`: gate, checks, start, stop and finish of a run."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import say, write_json, write_text
from grpo_rlvr.config import Config, config_to_yaml
from grpo_rlvr.errors import EXIT_YES, CheckFailed, GrpoRlvrError, MissingError, Problem, UserError
from grpo_rlvr.inspection.gate import check_gate
from grpo_rlvr.inspection.model_files import model_folder
from grpo_rlvr.rewards import BuiltReward
from grpo_rlvr.rewards.dataset_check import check_dataset
from grpo_rlvr.training.adapter import RewardBatch
from grpo_rlvr.training.held_out import compare, read_records, record_path
from grpo_rlvr.training.lint import Finding, lint
from grpo_rlvr.training.run_folder import RunFolder
from grpo_rlvr.training.settings import build_grpo_config, check_machine, check_packages, checkpoint_bytes, grpo_settings, peft_config
from grpo_rlvr.trl_settings import installed_trl_version

__all__ = [
    "RewardBatch", "RunFolder", "build_grpo_config", "check", "check_disk", "check_golds", "finish", "grpo_settings", "has_accelerator",
    "main_process_lock", "model_path", "needs_first_evaluation", "open_gate", "peft_config", "quiet", "readable_errors", "report_check", "start",
    "stopped",
]  # fmt: skip


TESTED_TRL = "1.16"


def __getattr__(name: str):
    # The callbacks derive from transformers' class, and importing that takes seconds that `--check` can do without.
    if name in ("HeldOutCallback", "ProgressCallback", "StopCallback"):
        from grpo_rlvr.training import callbacks

        return getattr(callbacks, name)
    raise AttributeError(name)


def open_gate(config: Config, rewards: Sequence[BuiltReward], rows: Sequence[dict], without: str | None) -> dict:
    """The gate's summary for the run's record.

    Raises:
        CheckFailed: the gate is absent, shut, or stands for other code, settings, data or model; the message names which.
        UserError: `without` holds no reason.
    """
    if without is None:
        gate = check_gate(config, rewards, rows)
        for text in gate["warnings"] if is_main_process() else ():
            say(f"warning: {text}")
        return {"gate": {k: gate[k] for k in ("at", "reviewers", "reviewer_kind", "counts", "fingerprint")}}
    if not without.strip():
        raise UserError("gate", Problem("--without-gate", "the reason is empty", "say why nobody has read samples; it is recorded in the run"))
    say(f"warning: training without the inspection gate: {without}")
    return {"without_gate": without}


def check(config: Config, rows: Sequence[dict], held_out: Sequence[dict]) -> list[Finding]:
    """Warnings and notes on the settings, printed on the main process.

    Raises:
        UserError: a setting that cannot work (all of them at once), or a model folder that is not there.
        MissingError: training packages are not installed.
    """
    check_packages()
    model_folder(config)
    findings = lint(config, len(rows), int(os.environ.get("WORLD_SIZE", "1")))
    installed = installed_trl_version()
    if not (installed or "").startswith(f"{TESTED_TRL}."):
        findings.append(
            Finding(
                "warning", "trl_version", f"TRL {installed} is installed; this was tested with {TESTED_TRL}", f"pip install 'trl~={TESTED_TRL}.0'"
            )
        )
    prompts = {json.dumps(r["prompt"], sort_keys=True) for r in rows}
    leaked = sum(json.dumps(r["prompt"], sort_keys=True) in prompts for r in held_out)
    if leaked:
        findings.append(
            Finding(
                "warning",
                "held_out_leak",
                f"{leaked} of {len(held_out)} held-out prompts are training prompts too",
                "remove them from one of the two",
            )
        )
    errors = [f for f in findings if f.level == "error"]
    if errors:
        raise UserError("config", [Problem("", f.message, f.fix) for f in errors])
    if is_main_process():
        for f in findings:
            say(f"{f.level}: {f.message}" + (f"\n    -> {f.fix}" if f.fix else ""))
    return findings


def check_golds(config: Config, rewards: Sequence[BuiltReward], rows: Sequence[dict], held_out: Sequence[dict]) -> list[Finding]:
    """Warnings and notes of the data check (see `rewards.dataset_check`) on training and held-out rows, printed.

    Raises:
        UserError: rows whose own gold is refused, or whose reward accepts a wrong completion, with their numbers.
    """
    found, errors = [], []
    for place, part in (("data.train", rows), ("data.eval", held_out)):
        for f in check_dataset(rewards, part, threshold=config.inspection.pass_threshold):
            message = f"{place} {f['message']}" if f["rows"] and f["severity"] != "note" else f"{place}: {f['message']}"
            if f["severity"] == "error":
                errors.append(Problem(f"reward {f['reward']}", message, f["fix"]))
            found.append(Finding(f["severity"], f"gold-{f['check'].replace('_', '-')}", f"reward {f['reward']}: {message}", f["fix"]))
    if errors:
        raise UserError("gold", errors)
    for f in found:
        say(f"{f.level}: {f.message}" + (f"\n    -> {f.fix}" if f.fix else ""))
    return found


def has_accelerator() -> bool:
    """Whether torch sees a GPU (or another accelerator)."""
    import torch

    return torch.accelerator.is_available()


def report_check(config: Config, settings: dict[str, Any], findings: list[Finding], gate: dict) -> tuple[int, dict]:
    """The answer of `--check`: builds TRL's config and loads tokenizer and model shape, then says what training would use."""
    machine = check_machine(config, has_accelerator())
    if machine and has_accelerator():
        raise MissingError("missing", machine)
    # A config is often checked on a laptop; what only the training machine has cannot be asked for there.
    for problem in machine:
        say(f"warning: {problem}")
    with readable_errors(config):
        from transformers import AutoConfig, AutoTokenizer

        build_grpo_config({**settings, **({} if has_accelerator() else {"use_cpu": True, "use_vllm": False})}, eval_on_start=False)
        where = model_path(config)
        AutoConfig.from_pretrained(where, revision=config.model.revision)
        tokenizer = AutoTokenizer.from_pretrained(where, revision=config.model.revision)
    if tokenizer.chat_template is None:
        say("warning: the tokenizer has no chat template; prompts must be plain text")
    added = {k: v for k, v in settings.items() if k not in config.grpo}
    say(f"check passed; added to your grpo settings: {json.dumps(added, default=str)}")
    if not has_accelerator():
        say("no GPU here: this machine would train on the CPU")
    result = {"ok": True, "findings": [vars(f) for f in findings], "settings": json.loads(json.dumps(settings, default=str)), **gate}
    return EXIT_YES, {"schema": "grpo-rlvr/check/1", **result}


def model_path(config: Config) -> str:
    """The model's folder if it is a local one, else its name on the hub; UserError if it looks local and is not there."""
    folder = model_folder(config)
    return config.model.name_or_path if folder is None else str(folder)


def is_main_process() -> bool:
    """Whether this is the process that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def main_process_lock(run: RunFolder):
    """The run folder's lock, held by the main process only."""
    return run.locked() if is_main_process() else contextlib.nullcontext()


def start(run: RunFolder, config: Config, settings: dict[str, Any], gate: dict, resume: bool) -> Path | None:
    """Record what this run is and return the checkpoint to resume from."""
    machine = check_machine(config, has_accelerator())
    if machine:
        raise MissingError("missing", machine)
    model_path(config)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if resume and config.grpo.get("save_only_model"):
        raise UserError(
            "run",
            Problem("--resume", "grpo.save_only_model leaves out the optimizer, so a resumed run would start it afresh", "start a new run folder"),
        )
    checkpoint = run.start(resume)
    if is_main_process():
        if not has_accelerator():
            say("no GPU found: training on the CPU")
        if resume:
            say(f"going on from {checkpoint.name}" if checkpoint else "nothing to resume: starting from step 0")
            _name_changes(run, config)
        write_text(run.root / "config.resolved.yaml", config_to_yaml(config))
        record = run.train / "run.json"
        before = json.loads(record.read_text(encoding="utf-8")).get("starts", []) if resume and record.exists() else []
        begun = {"at": _now(), "from_step": int(checkpoint.name.split("-")[1]) if checkpoint else 0, "versions": versions(), **gate}
        write_json(record, "run", 1, {"starts": [*before, begun], "settings": json.loads(json.dumps(settings, default=str))})
    return checkpoint


def needs_first_evaluation(run: RunFolder) -> bool:
    """Whether the held-out accuracy before training is still unknown."""
    return not record_path(run.logs, 0).exists()


def quiet(trainer) -> None:
    """Take out the callbacks that print to stdout, where only our progress lines go."""
    from transformers import PrinterCallback, ProgressCallback

    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)


def check_disk(trainer, run: RunFolder) -> None:
    """Refuse a run whose checkpoints cannot fit on the disk.

    Raises:
        MissingError: less free space than the checkpoints that are kept, plus one that is being written.
    """
    if trainer.args.save_strategy == "no":
        return
    counts = [(p.numel(), p.requires_grad) for p in trainer.model.parameters()]
    size = checkpoint_bytes(
        sum(n for n, grad in counts if grad), sum(n for n, _ in counts), trainer.args.save_only_model is False and _is_lora(trainer)
    )
    kept = trainer.args.save_total_limit or 2
    free = shutil.disk_usage(run.root).free
    if free < (kept + 1) * size:
        message = (
            f"{free / 1e9:.1f} GB free, and {kept} checkpoints of {size / 1e9:.1f} GB plus one being written need {(kept + 1) * size / 1e9:.1f} GB"
        )
        raise MissingError("disk", Problem("run.folder", message, "free space, choose another run.folder, or lower grpo.save_total_limit"))


@contextlib.contextmanager
def readable_errors(config: Config) -> Iterator[None]:
    """Turn what goes wrong inside TRL and torch into one clear message, where we know what it means."""
    try:
        yield
    except GrpoRlvrError:
        raise
    except RuntimeError as exc:
        # torch reports a full disk only as a failed write of its own.
        if "PytorchStreamWriter" in str(exc) or "enforce fail at inline_container" in str(exc):
            raise MissingError(
                "disk", Problem("run.folder", f"a checkpoint could not be written: {str(exc).splitlines()[0][:160]}", "free space, then --resume")
            ) from exc
        if "out of memory" in str(exc).lower():
            fix = "lower per_device_train_batch_size (and raise gradient_accumulation_steps), or max_completion_length"
            raise MissingError("memory", Problem("grpo", str(exc).splitlines()[0][:200], fix)) from exc
        raise
    except OSError as exc:
        if exc.errno is not None and exc.filename is None and "model" not in str(exc).lower():
            raise
        text = str(exc).splitlines()[0][:200]
        raise UserError(
            "config",
            Problem(
                "model.name_or_path",
                f"{config.model.name_or_path} cannot be loaded: {text}",
                "a folder or hub name with config, weights and tokenizer",
            ),
        ) from exc


def stopped(trainer, run: RunFolder, stop) -> tuple[int, dict]:
    """The answer of a run that ended early; 128 + signal number, as shells count, so that a scheduler sees it is not done."""
    step, steps = trainer.state.global_step, trainer.state.max_steps
    if stop.received is None:
        raise CheckFailed(
            "run", Problem("train", f"training ended at step {step} of {steps} without a signal", "a callback stopped it; --resume goes on")
        )
    name = signal.Signals(stop.received).name
    if is_main_process():
        say(f"stopped by {name} at step {step} of {steps}; checkpoint-{step} is saved; go on with --resume")
    return 128 + stop.received, {"schema": "grpo-rlvr/result/1", "finished": False, "stopped_by": name, "steps": step, "max_steps": steps}


def finish(trainer, run: RunFolder, config: Config, gate: dict) -> tuple[int, dict]:
    """Write `train/result.json` and print what was learned."""
    step = trainer.state.global_step
    result = {"finished": True, "steps": step, "model": "train/model", "at": _now(), **gate}
    first, last = record_path(run.logs, 0), record_path(run.logs, step)
    if first.exists() and last.exists() and step > 0:
        result["held_out"] = compare(read_records(first), read_records(last))
    if is_main_process():
        write_json(run.result, "result", 1, result)
        if "held_out" in result:
            say(describe(result["held_out"]))
        say(f"done: {step} steps; model in {run.model}")
    return EXIT_YES, {"schema": "grpo-rlvr/result/1", **result}


def describe(held_out: dict) -> str:
    """'held-out accuracy 35.2% -> 94.1% (+58.9 points, 95% interval +52.0 to +64.7, 256 prompts)'."""
    if held_out["difference"] is None:
        return "held-out accuracy: no prompt was judged both before and after"
    low, high = held_out["ci95"]
    return (
        f"held-out accuracy {held_out['before']:.1%} -> {held_out['after']:.1%} ({100 * held_out['difference']:+.1f} points, "
        f"95% interval {100 * low:+.1f} to {100 * high:+.1f}, {held_out['prompts']} prompts, paired)"
    )


def versions() -> dict[str, str]:
    """Versions of the packages that decide what a run does."""
    found = {}
    for name in ("torch", "transformers", "trl", "datasets", "accelerate", "peft", "vllm", "math-verify"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _name_changes(run: RunFolder, config: Config) -> None:
    before = run.root / "config.resolved.yaml"
    if before.exists() and before.read_text(encoding="utf-8") != config_to_yaml(config):
        write_text(run.root / f"config.before-{_now().replace(':', '')}.yaml", before.read_text(encoding="utf-8"))
        say("warning: the config differs from the one this run began with; the earlier one is kept beside config.resolved.yaml")


def _is_lora(trainer) -> bool:
    return hasattr(trainer.model, "peft_config")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
