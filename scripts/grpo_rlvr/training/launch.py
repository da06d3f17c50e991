"""The steps of `templates/train.py`: gate, start, stop and finish of a run."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr import yaml_file
from grpo_rlvr.cli import say, write_json, write_text
from grpo_rlvr.config import Config, config_to_yaml, plain
from grpo_rlvr.device import device_type
from grpo_rlvr.errors import EXIT_YES, CheckFailed, MissingError, Problem, UserError
from grpo_rlvr.inspection.fingerprint import reward_parts
from grpo_rlvr.inspection.gate import check_gate
from grpo_rlvr.inspection.jsonl import sha256
from grpo_rlvr.inspection.model_files import model_folder
from grpo_rlvr.prompt_lengths import Unmeasured
from grpo_rlvr.rewards.registry import BuiltReward
from grpo_rlvr.training import changes, epochs, scaling
from grpo_rlvr.training.adapter import RewardBatch
from grpo_rlvr.training.epochs import Layout
from grpo_rlvr.training.guards import FailedBatch, RewardFailures
from grpo_rlvr.training.held_out import compare, describe, read_header, read_records, record_path
from grpo_rlvr.training.memory_here import ask_plan
from grpo_rlvr.training.preflight import check, check_disk, check_golds, check_prompt, look_again, model_parameters, processes, report_check, said
from grpo_rlvr.training.process import (
    explained_failures,
    is_main_process,
    leave_together,
    load_on_numbered_cpus,
    loading_errors,
    quiet_known_noise,
    world_size,
)  # fmt: skip
from grpo_rlvr.training.run_folder import RunFolder, read_record
from grpo_rlvr.training.settings import build_grpo_config, check_launch, check_machine, grpo_settings, peft_config
from grpo_rlvr.training.setup import Setup
from grpo_rlvr.training.vllm_failure import server_failures
from grpo_rlvr.training.vllm_server import VllmServer, vllm_server

__all__ = [
    "already_finished", "build_grpo_config", "check", "check_golds", "explained_failures", "finish",
    "held_out_digest", "lay_out", "loading_errors", "main_process_lock", "model_path", "needs_evaluation", "open_gate",
    "peft_config", "prepare", "report_check", "reward_batch", "RunFolder", "settings_for",
    "server_failures", "show_plan", "start", "steps_left", "stopped", "vllm_callback", "vllm_server",
]  # fmt: skip


INCOMPARABLE = "the held-out rows or the rewards changed since the first evaluation: before and after cannot be compared"


def __getattr__(name: str):
    # The callbacks derive from transformers' class, and importing that takes seconds that `--check` can do without.
    if name == "stop_on_symptoms":
        from grpo_rlvr.training.stop_on import stop_on_symptoms

        return stop_on_symptoms
    if name.endswith("Callback"):
        from grpo_rlvr.training import callbacks

        return getattr(callbacks, name)
    if name == "dry_step":
        from grpo_rlvr.training.dry_step import dry_step

        return dry_step
    raise AttributeError(name)


def show_plan(config: Config, args: Any) -> tuple[int, dict]:
    """`--launch`: print the commands that start this run on its machines; with `--go`, become the one of this machine.

    Raises:
        UserError: the hardware section asks for something that cannot be started.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") if args.go else None
    problems = scaling.launch_problems(config, args.go, visible)
    several = config.hardware.nodes > 1
    served = several and config.hardware.vllm_server is not None
    if args.go and several and (args.machine_rank is None or args.main_ip is None or (served and args.server_ip is None)):
        wanted = "--machine-rank and --main-ip" + (" and --server-ip" if served else "")
        problems.append(Problem("--go", f"the run has {config.hardware.nodes} machines, and this one's place is not said", f"add {wanted}"))
    rank = args.machine_rank or 0
    if rank >= config.hardware.nodes:
        problems.append(Problem("--machine-rank", f"got {rank}; the machines are 0 to {config.hardware.nodes - 1}", "count from 0"))
    if problems:
        raise UserError("launch", problems)
    flags = ["--resume"] * args.resume + ["--allow-changes"] * args.allow_changes + ["--json"] * (args.json and args.go)
    flags += ["--without-gate", args.without_gate] if args.without_gate is not None else []
    python = "python" if several and not args.go else sys.executable  # other machines may have it elsewhere
    places = {"main_ip": args.main_ip or "MAIN_IP", "server_ip": args.server_ip or "SERVER_IP"}
    made = scaling.plan(config, os.path.abspath(sys.argv[0]), python, flags, **places, visible=visible)
    findings, memory = ask_plan(config)
    said(findings)
    print(scaling.text(made), file=sys.stderr if args.go else args.out, flush=True)
    if args.go:
        scaling.start(made, rank, config, python)
    commands = [{**dataclasses.asdict(c), "text": str(c)} for c in made.commands]
    result = {"engine": made.engine, "processes": made.processes, "notes": made.notes, "commands": commands, "memory": memory}
    return EXIT_YES, {"schema": "grpo-rlvr/launch/1", **result, "findings": [vars(f) for f in findings]}


def open_gate(
    config: Config, rewards: Sequence[BuiltReward], rows: Sequence[dict], without: str | None, unmeasured: Sequence[Unmeasured] | None = None
) -> dict:
    """The gate's summary for the run's record.

    Args:
        unmeasured: what `load_rows` could not measure; the rows may then be more than those of the gate, and are not compared.

    Raises:
        CheckFailed: the gate is absent, shut, or stands for other code, settings, data or model; the message names which.
        UserError: `without` holds no reason.
    """
    if without is None:
        gate = check_gate(config, rewards, rows, compare_data=not unmeasured)
        for text in gate["warnings"] if is_main_process() else ():
            say(f"warning: {text}")
        say("the gate is open") if is_main_process() else None
        kept = {k: gate[k] for k in ("at", "reviewers", "reviewer_kind", "counts", "fingerprint", "warnings")}
        return {"gate": {**kept, "accepted": gate.get("accepted") or [], "completions_from": gate["sampling"].get("source")}}
    if not without.strip():
        raise UserError("gate", Problem("--without-gate", "the reason is empty", "say why nobody has read samples; it is recorded in the run"))
    say(f"warning: training without the inspection gate: {without}")
    return {"without_gate": without}


def model_path(config: Config) -> str:
    """The model's folder if it is a local one, else its name on the hub; UserError if it looks local and is not there."""
    folder = model_folder(config)
    return config.model.name_or_path if folder is None else str(folder)


def reward_batch(config: Config, rewards: Sequence[BuiltReward], run: RunFolder) -> RewardBatch:
    """The rewards as TRL calls them; what fails is kept in the run folder."""
    failures = RewardFailures(rewards, config.run.reward_failures, FailedBatch(run.train))
    return RewardBatch(rewards, config.inspection.pass_threshold, failures)


def main_process_lock(run: RunFolder):
    """The run folder's lock, held by the main process only."""
    return run.locked() if is_main_process() else contextlib.nullcontext()


def settings_for(config: Config, rewards: Sequence[BuiltReward], run: RunFolder, held_out: bool) -> dict[str, Any]:
    """`grpo_settings` for this machine."""
    return grpo_settings(config, rewards, run, held_out, device_type(config) != "cpu")


def lay_out(config: Config, rows: Sequence[dict], settings: dict[str, Any]) -> Layout:
    """`epochs.lay_out` for the processes of this run."""
    return epochs.lay_out(Setup(config, len(rows), processes(config)), rows, settings)


def held_out_digest(config: Config, rewards: Sequence[BuiltReward], held_out: Sequence[dict]) -> str:
    """What an accuracy rests on; two evaluations are compared only if theirs are equal, and a resumed run says now that they are not."""
    digest, first = sha256([reward_parts(config, rewards), list(held_out)]), record_path(RunFolder(config.run_folder).logs, 0)
    if held_out and is_main_process() and needs_evaluation(RunFolder(config.run_folder), 0) is False and read_header(first)["inputs"] != digest:
        say(f"warning: {INCOMPARABLE}; undo the change, or begin in another run.folder")
    return digest


def already_finished(run: RunFolder) -> tuple[int, dict] | None:
    """The answer for `--resume` of a run that is done: its result again, so that a scheduler that always resumes sees a yes."""
    if not run.result.exists():
        return None
    say(f"nothing to do: {run.root} holds a finished run")
    return EXIT_YES, read_record(run.result)


def start(
    run: RunFolder, config: Config, settings: dict[str, Any], gate: dict, resume: bool, rows: Sequence[dict] = (), allow_changes: bool = False
) -> Path | None:
    """Record what this run is and return the checkpoint to resume from.

    Raises:
        UserError: a resumed run whose settings or training rows (`rows`) are not those it began with, unless `allow_changes`.
    """
    accelerator = device_type(config) != "cpu"
    machine = [*check_machine(config, accelerator), *check_launch(accelerator)]
    if machine:
        raise MissingError("missing", machine)
    if resume and config.grpo.get("save_only_model"):
        message = "grpo.save_only_model leaves out the optimizer, so a resumed run would start it afresh"
        raise UserError("run", Problem("--resume", message, "start a new run folder"))
    if not accelerator:
        load_on_numbered_cpus()
    if not sys.stderr.isatty():
        from transformers.utils import logging

        logging.disable_progress_bar()
    record = run.train / "run.json"
    digest = changes.digest_of(rows)
    if resume and is_main_process():
        _settle_changes(run, config, record, digest, allow_changes)
    checkpoint = run.start(resume, is_main_process())
    if is_main_process():
        if not accelerator:
            say("no GPU is used: training on the CPU")
        if resume:
            say(f"going on from {checkpoint.name}" if checkpoint else "nothing to resume: starting from step 0")
        write_text(run.root / "config.resolved.yaml", config_to_yaml(config))
        before = read_record(record).get("starts", []) if resume else []
        begun = {"at": _now(), "from_step": int(checkpoint.name.split("-")[1]) if checkpoint else 0, "versions": versions(), **gate}
        begun |= {"rows": digest, "processes": world_size()}
        write_json(record, "run", 1, {"starts": [*before, begun], "settings": json.loads(json.dumps(settings, default=str))})
    return checkpoint


def prepare(trainer, config: Config, rows: Sequence[dict]) -> None:
    """Last checks with the model in memory, and silence on stdout but for our progress lines."""
    from transformers import PrinterCallback, ProgressCallback

    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    quiet_known_noise()
    check_prompt(trainer.processing_class, rows[0]["prompt"], config)
    parameters = model_parameters(trainer.model)
    look_again(config, rows, trainer.processing_class, trainer.model.config.to_dict(), parameters)
    check_disk(parameters, trainer.args, config)


def vllm_callback(run: RunFolder, config: Config, server: VllmServer | None):
    """What watches vLLM: that it follows the training, and that its server lives."""
    from grpo_rlvr.training.callbacks import VllmCallback
    from grpo_rlvr.training.vllm_monitor import SyncMonitor

    return VllmCallback(SyncMonitor(run.progress.lines()), config.run.on_stale_vllm == "stop", server)


@contextlib.contextmanager
def steps_left(trainer, checkpoint: Path | None) -> Iterator[None]:
    """Around `trainer.train`: a checkpoint that already holds all the steps is loaded, and nothing is trained."""
    from grpo_rlvr.training.callbacks import AlreadyTrained

    try:
        yield
    except AlreadyTrained:
        # transformers does this before its first step only; the last evaluation must draw what it would have drawn without the kill.
        trainer._load_rng_state(str(checkpoint))


def needs_evaluation(run: RunFolder, step: int) -> bool:
    """Whether the held-out accuracy at `step` is not on record; its line is written after its records."""
    return step not in run.evaluations.steps()


def stopped(trainer, run: RunFolder, stop) -> tuple[int, dict]:
    """The answer of a run that ended early; 128 + signal number, as shells count, so that a scheduler sees it is not done."""
    step, steps = trainer.state.global_step, trainer.state.max_steps
    if stop.received is None:
        raise CheckFailed("run", Problem("train", f"training ended at step {step} of {steps} without a signal", "a callback stopped it; see above"))
    name = signal.Signals(stop.received).name
    if is_main_process():
        saved = f"checkpoint-{step} is saved; go on with --resume" if trainer.args.save_strategy != "no" else "nothing is saved (save_strategy: no)"
        say(f"stopped by {name} at step {step} of {steps}; {saved}")
    leave_together(128 + stop.received)
    return 128 + stop.received, {"schema": "grpo-rlvr/result/1", "finished": False, "stopped_by": name, "steps": step, "max_steps": steps}


def finish(trainer, run: RunFolder, gate: dict) -> tuple[int, dict]:
    """Write `train/result.json` and print what was learned."""
    step = trainer.state.global_step
    # With load_best_model_at_end the saved model is that of an earlier step.
    best = trainer.state.best_global_step if trainer.args.load_best_model_at_end and trainer.state.best_model_checkpoint else None
    of_model = best or step
    # The hashes of the gate are in run.json; here stands what people look for.
    gate = {"gate": {k: v for k, v in gate["gate"].items() if k != "fingerprint"}} if "gate" in gate else gate
    result = {"finished": True, "steps": step}
    if is_main_process():
        result |= _before_and_after(run, of_model)
        result |= {"model": "train/model", "model_step": of_model, "at": _now(), **gate}
        write_json(run.result, "result", 1, result)
        say(f"done: {step} steps; model in {run.model}")
    leave_together(EXIT_YES)
    return EXIT_YES, {"schema": "grpo-rlvr/result/1", **result}


def _before_and_after(run: RunFolder, step: int) -> dict:
    first, last = record_path(run.logs, 0), record_path(run.logs, step)
    if step == 0 or not first.exists() or not last.exists():
        return {}
    if read_header(first)["inputs"] != read_header(last)["inputs"]:
        say(f"warning: {INCOMPARABLE}")
        return {"held_out_note": INCOMPARABLE}
    held_out = compare(read_records(first), read_records(last))
    say(describe(held_out))
    return {"held_out": held_out}


def versions() -> dict[str, str]:
    """Versions of the packages that decide what a run does."""
    found = {}
    for name in ("torch", "transformers", "trl", "datasets", "accelerate", "peft", "vllm", "math-verify"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _settle_changes(run: RunFolder, config: Config, record: Path, digest: str, allowed: bool) -> None:
    """Compare with what the run began with; the earlier config is kept beside the new one."""
    before = run.root / "config.resolved.yaml"
    starts = read_record(record).get("starts", [])
    last = starts[-1] if starts else {}
    was, now = yaml_file.read_mapping(before) if before.exists() else {}, plain(config)
    found = changes.changes(was, now) if was else {}
    told = changes.but_moves(found, str((was.get("run") or {}).get("folder") or run.root), str(now["run"]["folder"]))
    changes.settle(told, last.get("rows") not in (None, digest), allowed, (last.get("processes"), world_size()))
    if found:
        write_text(run.root / f"config.before-{_now().replace(':', '')}.yaml", before.read_text(encoding="utf-8"))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
