"""All that can be known before the first step: settings, data split, model folder, machine, disk, run folder."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.data import to_dataset
from grpo_rlvr.data_repeats import repeat_findings
from grpo_rlvr.device import device_type
from grpo_rlvr.environment.places import hub_answers
from grpo_rlvr.errors import EXIT_YES, MissingError, Problem, UserError
from grpo_rlvr.inspection.model_files import model_folder
from grpo_rlvr.other_data import preferred_gold
from grpo_rlvr.prompt_lengths import Unmeasured
from grpo_rlvr.rewards.dataset_check import check_dataset
from grpo_rlvr.rewards.registry import BuiltReward
from grpo_rlvr.training.epochs import later_epochs
from grpo_rlvr.training.findings import LEVELS, Finding, LintError
from grpo_rlvr.training.lint import lint
from grpo_rlvr.training.measure import both_sides, few_held_out, few_prompts, here, look, look_closer, no_end, nothing_held_out
from grpo_rlvr.training.process import is_main_process, loading_errors
from grpo_rlvr.training.run_folder import RunFolder
from grpo_rlvr.training.scaling import trainers
from grpo_rlvr.training.seen import Seen
from grpo_rlvr.training.settings import build_grpo_config, bytes_on_disk, check_launch, check_machine
from grpo_rlvr.training.setup import Setup
from grpo_rlvr.training.two_forms import forms_of_config
from grpo_rlvr.training.vllm_server import server_problems

# What a model's folder must hold. Without a tokenizer's files transformers makes an empty one of the model's kind, which knows no word.
PARTS = {
    "weights (*.safetensors)": ("*.safetensors", "*.bin"),
    "tokenizer (tokenizer.json)": ("tokenizer*", "vocab*", "merges*", "*.model", "*.tiktoken", "*.spm", "*token*.py"),
}


def check(
    config: Config, rows: Sequence[dict], held_out: Sequence[dict], planned: bool = False, unmeasured: Sequence[Unmeasured] | None = None
) -> list[Finding]:
    """Warnings and notes on the settings, printed on the main process.

    Args:
        planned: for the processes that `hardware:` asks for, whatever a scheduler has told this one (WORLD_SIZE) of its own.
        unmeasured: what `load_rows` could not measure.

    Raises:
        UserError: a setting that cannot work (all of them at once), or a model folder that is not there or holds no weights.
    """
    folder = model_folder(config)
    missing = [what for what, patterns in PARTS.items() if folder is not None and not any(any(folder.glob(pattern)) for pattern in patterns)]
    if missing:
        fix = "give the folder that save_pretrained wrote, of the model and of its tokenizer"
        raise UserError("model", [Problem("model.name_or_path", f"{folder} holds no {what}", fix) for what in missing])
    world = trainers(config) if planned else processes(config)
    findings = lint(config, len(rows), world, look(config))
    findings += both_sides(rows, held_out) + few_prompts(rows) + nothing_held_out(config) + few_held_out(held_out)
    findings += later_epochs(Setup(config, len(rows), world)) + forms_of_config(config, rows) + _unmeasured(config, unmeasured or ())
    if preferred := preferred_gold(config, rows):
        findings.append(Finding("warning", "preferred-gold", preferred, "right for a choice of given answers; for preferences TRL's DPOTrainer"))
    findings += [Finding("error", p.where, p.message, p.fix) for p in server_problems(config)]
    return said(findings)


def _unmeasured(config: Config, unmeasured: Sequence[Unmeasured]) -> list[Finding]:
    if not unmeasured:
        return []
    rows = ", ".join(f"{part.rows} of {part.place}" for part in unmeasured)
    message = f"how many prompts have more than max_prompt_tokens {config.data.max_prompt_tokens} is not known ({rows}), so all are looked at: "
    fix = f"check again where the tokenizer is, or get it: hf download {config.model.name_or_path}; training stops without it"
    return [Finding("warning", "prompts-not-measured", message + unmeasured[0].why, fix)]


def said(findings: list[Finding]) -> list[Finding]:
    """The findings, printed on the main process; LintError if one of them is an error, after the warnings."""
    wrong = any(f.level == "error" for f in findings)
    if is_main_process():
        for f in findings:
            if f.level != "error" and not (wrong and f.level == "note"):
                say(f"{f.level} ({f.code}): {f.message}" + (f"\n    -> {f.fix}" if f.fix else ""))
    if wrong:
        raise LintError(sorted(findings, key=lambda f: LEVELS.index(f.level)))
    return findings


def look_again(config: Config, rows: Sequence[dict], tokenizer: Any, model: Mapping[str, Any], parameters: Sequence[tuple]) -> list[Finding]:
    """What the lint says once tokenizer and model are known, without what `check` said before; printed, or LintError.

    Args:
        model: its config.json.
        parameters: as `model_parameters` returns them.
    """
    world, seen = processes(config), look(config)
    before = lint(config, len(rows), world, seen)
    closer = look_closer(seen, tokenizer, rows, config, model, sum(count for count, _, _ in parameters))
    return said([f for f in lint(config, len(rows), world, closer) if f not in before] + no_end(tokenizer))


def check_golds(config: Config, rewards: Sequence[BuiltReward], rows: Sequence[dict], held_out: Sequence[dict]) -> list[Finding]:
    """Warnings and notes of the data check (see `rewards.dataset_check`) on training and held-out rows, and on repeated prompts, printed.

    Raises:
        UserError: rows whose own gold is refused, or whose reward accepts a wrong completion, with their numbers.
    """
    found, errors = [], []
    golds = {column for reward in rewards for column in reward.columns}
    for place, part in (("data.train", rows), ("data.eval", held_out)):
        found += [Finding(f["severity"], f["check"].replace("_", "-"), f["message"], f["fix"]) for f in repeat_findings(part, golds, place)]
        for f in check_dataset(rewards, part, threshold=config.inspection.pass_threshold):
            message = f"{place} {f['message']}" if f["rows"] and f["severity"] != "note" else f"{place}: {f['message']}"
            if f["severity"] == "error":
                errors.append(Problem(f"reward {f['reward']}", message, f["fix"]))
            found.append(Finding(f["severity"], f"gold-{f['check'].replace('_', '-')}", f"reward {f['reward']}: {message}", f["fix"]))
    if errors:
        raise UserError("gold", errors)
    for f in found:
        say(f"{f.level} ({f.code}): {f.message}" + (f"\n    -> {f.fix}" if f.fix else ""))
    return found


def processes(config: Config) -> int:
    """How many processes train: as launched, else as the config's hardware says."""
    return int(os.environ.get("WORLD_SIZE") or trainers(config))


def report_check(config: Config, settings: dict[str, Any], rows: Sequence[dict], findings: list[Finding], resume: bool) -> tuple[int, dict]:
    """The answer of `--check` but for the gate: everything but the training, and nothing written.

    What only the training machine has cannot be asked for on a laptop: without a GPU, what is missing is a warning.
    """
    RunFolder(config.run_folder).refuse(resume)
    accelerator = device_type(config) != "cpu"
    machine = check_machine(config, accelerator)
    if machine and accelerator:
        raise MissingError("missing", machine)
    for problem in [*machine, *check_launch(accelerator)]:
        say(f"warning: {problem}")
    with loading_errors(config):
        args = build_grpo_config({**settings, **({} if accelerator else {"use_cpu": True, "use_vllm": False})}, eval_on_start=False)
    closer = _closer(config, rows, args, accelerator)
    known = {f.code for f in closer}  # now with the model's own numbers
    findings = [f for f in findings if f.code not in known] + closer + said(here(config, accelerator))
    to_dataset(rows)
    say(f"settings, data, model and machine: checked for {processes(config)} process(es), {len(rows)} training rows")
    say("added to your grpo settings:")
    for name, value in settings.items():
        if name not in (config.raw.get("grpo") or {}):
            say(f"  {name}: {value}")
    if not accelerator:
        say("no GPU is used: this machine would train on the CPU")
    plain = json.loads(json.dumps(settings, default=str))
    result = {"ok": True, "processes": processes(config), "findings": [vars(f) for f in findings], "settings": plain}
    return EXIT_YES, {"schema": "grpo-rlvr/check/1", **result}


def _closer(config: Config, rows: Sequence[dict], args: Any, accelerator: bool) -> list[Finding]:
    """What model and tokenizer add. A model of the hub that this machine cannot get is a warning where no GPU would train it either."""
    try:
        with loading_errors(config):
            shape, parameters, tokenizer = _shape(config)
    except MissingError as exc:
        if accelerator or exc.kind != "model":
            raise
        message = f"{exc.problems[0].message}; its chat template, tokenizer and size are not checked"
        return said([Finding("warning", "model-not-here", message, "check again on the machine that trains")])
    check_prompt(tokenizer, rows[0]["prompt"], config)
    closer = look_again(config, rows, tokenizer, shape, parameters)
    check_disk(parameters, args, config)
    return closer


def check_prompt(tokenizer: Any, prompt: str | list[dict], config: Config) -> None:
    """Refuse chat prompts that the tokenizer cannot render.

    Raises:
        UserError: no chat template, or a template that fails on the first prompt.
    """
    if isinstance(prompt, str):
        return
    if not tokenizer.chat_template:
        fix = "give text prompts (and no data.system_prompt), or a tokenizer with a chat template"
        raise UserError("model", Problem("model.name_or_path", "the prompts are messages, but the tokenizer has no chat template", fix))
    try:
        tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False, **(config.sampling["chat_template_kwargs"] or {}))
    except Exception as exc:  # a template is a program of its own
        message = f"the chat template fails on the first prompt: {type(exc).__name__}: {exc}"
        raise UserError("model", Problem("data.train", message, "bring the messages into the form the template wants")) from exc


def check_disk(parameters: list[tuple[int, int, bool]], args: Any, config: Config, max_steps: int | None = None) -> None:
    """Refuse a run whose checkpoints cannot fit on the disk.

    Args:
        parameters: (count, bytes an element, trained) of each tensor of the model.
        max_steps: optimizer steps of the run, where they are known.

    Raises:
        MissingError: less free space than the checkpoints that are kept, one that is being written, and the final model.
    """
    steps = max_steps or (args.max_steps if args.max_steps > 0 else None)
    every = args.save_steps if args.save_strategy == "steps" and args.save_steps >= 1 else None
    kept = 0 if args.save_strategy == "no" else math.ceil(steps / every) if steps and every else 2
    if args.save_total_limit and kept:
        kept = min(kept, args.save_total_limit) + 1
    needed = bytes_on_disk(parameters, config.model.lora is not None, bool(args.save_only_model), kept)
    place = config.run_folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        message = f"{free / 1e9:.1f} GB free; {kept} checkpoint(s) and the final model need {needed / 1e9:.1f} GB"
        raise MissingError("disk", Problem("run.folder", message, "free space, choose another run.folder, or set a lower grpo.save_total_limit"))


def model_parameters(model: Any) -> list[tuple[int, int, bool]]:
    """(count, bytes an element, trained) of each tensor."""
    return [(p.numel(), p.element_size(), p.requires_grad) for p in model.parameters()]


def _shape(config: Config):
    """The model's config.json, its parameters without the weights in memory, and its tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder = model_folder(config)
    name = str(folder or config.model.name_or_path)
    shared = {"revision": config.model.revision, "trust_remote_code": bool(config.grpo.get("trust_remote_code"))}
    shared["local_files_only"] = folder is None and not hub_answers()  # at once, where the hub's own client would try for half a minute
    shape = AutoConfig.from_pretrained(name, **shared)
    if Seen(model=shape.to_dict()).sees_images:  # a model of the hub: `check` saw no config.json
        raise LintError([f for f in lint(config, seen=Seen(model=shape.to_dict())) if f.code == "vision-model"])
    dtype = None if config.model.dtype == "auto" else getattr(torch, config.model.dtype)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(shape, dtype=dtype or shape.dtype, trust_remote_code=shared["trust_remote_code"])
    model.requires_grad_(config.model.lora is None)
    return shape.to_dict(), model_parameters(model), AutoTokenizer.from_pretrained(name, **shared)
