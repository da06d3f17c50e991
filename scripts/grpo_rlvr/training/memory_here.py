"""The memory plan for the machine that trains: before the launch, and of a run that ran out of memory."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import traceback
from collections.abc import Mapping
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.device import device_type
from grpo_rlvr.errors import GrpoRlvrError, Problem
from grpo_rlvr.memory.cheapest import cheapest_fit
from grpo_rlvr.memory.estimate import GIB
from grpo_rlvr.memory.hardware import Gpu, find_gpu
from grpo_rlvr.memory.levers import options
from grpo_rlvr.memory.patches import tidy_patch
from grpo_rlvr.memory.plan import Plan, make_plan
from grpo_rlvr.memory.reading import read_workload
from grpo_rlvr.memory.workload import Workload
from grpo_rlvr.training.findings import Finding, note, warning
from grpo_rlvr.yaml_file import flow

CPU_GB_S, CPU_TFLOPS = 20.0, 0.2  # assumed, for a rough time only


def this_gpu(config: Config) -> Gpu:
    """The device that torch sees, with its own size; on a CPU the machine's memory."""
    if device_type(config) == "cuda":
        import torch

        name, total = torch.cuda.get_device_name(), torch.cuda.mem_get_info()[1] / GIB
        try:
            return dataclasses.replace(find_gpu(name), usable_gib=round(total, 2), plan_gib=round(total, 2), usable_measured=True)
        except GrpoRlvrError:
            return Gpu(name, name, round(total, 2), round(total, 2), 800.0, 100.0)
    total = round(ram_bytes() / GIB, 2)
    return Gpu("cpu", "CPU", total, total, CPU_GB_S, CPU_TFLOPS, bf16=False, unified=True)


def ram_bytes() -> int:
    """Memory of this machine, or what its control group may use of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                total = min(total, int(file.read()))
        except (OSError, ValueError):
            continue
    return total


def workload_here(config: Config, **changes: Any) -> Workload:
    """The run as it is on this machine: its device, and on a CPU without autocast and vLLM, as training has it there.

    Raises:
        UserError, MissingError: the model's shape, or a setting, is not known well enough to plan.
    """
    w = read_workload(config, gpu=this_gpu(config))
    if device_type(config) == "cpu":
        w = w.but(autocast=config.grpo.get("bf16") is True, vllm="none")
    return w.but(**changes)


# ---- before the launch


def ask_plan(config: Config) -> tuple[list[Finding], dict[str, Any] | None]:
    """What the memory plan says of the GPUs of `hardware:`: a warning unless it fits, and the verdict with its numbers.

    Those GPUs need not be here, and torch is not asked. Without a plan the second is None.
    """
    if config.grpo.get("use_cpu"):
        return [], None
    command = f"memory_plan.py {shlex.quote(str(config.path))}"
    if not config.hardware.gpu:
        return [note("memory-plan", "hardware.gpu is not set, so whether the run fits is not known", f"{command} --gpu h100-80gb (or another)")], None
    try:
        plan = make_plan(read_workload(config))
    except GrpoRlvrError as exc:
        return [warning("memory-plan", f"whether the run fits is not known: {exc.problems[0].message}", exc.problems[0].fix)], None
    found = {"verdict": plan.verdict, "phase": plan.deciding.name, "peak_gib": round(plan.deciding.peak / GIB, 2)}
    found |= {"high_gib": round(plan.deciding.high / GIB, 2), "usable_gib": round(plan.capacity / GIB, 2)}
    if plan.fits:
        return [], found
    message = view(plan, None, "each GPU") + (f"; it may take up to {found['high_gib']:.2f} GiB" if plan.verdict == "TIGHT" else "")
    return [warning("memory-plan", message, f"the cheapest changes that fit: {command} --fit")], found


# ---- out of memory

# What torch, its allocator on a CPU, and vLLM say.
_SAID = re.compile(
    r"out of memory|can't allocate memory|not enough memory|No available memory for the cache blocks|is less than desired GPU memory utilization"
    r"|KV cache is needed|To serve at least one request",
    re.IGNORECASE,
)
# The function in the traceback that tells the phase, innermost first.
_PHASES = (
    ("sync_weights", "weight sync"), ("_generate_single_turn", "rollout"), ("_generate", "rollout"), ("compute_loss", "training step"),
    ("_generate_and_score_completions", "log-probs"), ("backward", "training step"), ("training_step", "training step"),
    ("_init_vllm", "start"), ("from_pretrained", "start"), ("step", "optimizer step"),
)  # fmt: skip


def is_out_of_memory(exc: BaseException) -> bool:
    """Whether the memory of a GPU (or of the machine) was not enough, whoever says so and with whatever error."""
    if isinstance(exc, GrpoRlvrError):
        return False
    kinds = {kind.__name__ for kind in type(exc).__mro__}
    return bool(kinds & {"OutOfMemoryError", "MemoryError"} or (isinstance(exc, RuntimeError | ValueError) and _SAID.search(str(exc))))


def phase_of(exc: BaseException) -> str | None:
    """The phase of the plan in which it happened, by the functions of the traceback."""
    names = [frame.name for frame in traceback.extract_tb(exc.__traceback__)]
    for name in reversed(names):
        for known, phase in _PHASES:
            if name == known:
                return phase
    return None


def memory_problem(exc: BaseException, config: Config | None, failed: str | None = None) -> Problem:
    """What was said, where it happened, what the plan has for this device, and the next change to try."""
    said = (str(exc).strip().splitlines() or [type(exc).__name__])[0][:400]
    phase = failed or phase_of(exc)
    message = f"out of memory{f' in the phase {phase!r}' if phase else ''}: {said}"
    fix = "lower per_device_train_batch_size (and raise gradient_accumulation_steps as much), or max_completion_length"
    if config is None:
        return Problem("grpo", message, fix)
    try:
        plan = make_plan(workload_here(config))
        return Problem("grpo", f"{message}\n    {view(plan, phase)}", next_lever(plan, config.raw))
    except GrpoRlvrError as exc:
        return Problem("grpo", f"{message}\n    (no plan: {exc.problems[0].message})", fix)


def view(plan: Plan, phase: str | None, device: str = "this device") -> str:
    """The plan in a sentence, of the phase that failed if it is known."""
    w = plan.workload
    shown = next((p for p in plan.estimate.phases if p.name == phase), plan.deciding)
    terms = ", ".join(f"{k} {v / GIB:.2f}" for k, v in sorted(shown.terms.items(), key=lambda kv: -kv[1])[:4])
    text = f"the plan for {device} ({w.gpu.title}, {plan.capacity / GIB:.1f} GiB) says {plan.verdict}: {shown.name} {shown.peak / GIB:.2f} GiB"
    text += f" ({terms})"
    if shown is not plan.deciding:
        text += f"; its largest phase is {plan.deciding.name}, {plan.deciding.peak / GIB:.2f} GiB"
    return text + "".join(f"; {b.code}: {b.message}" for b in plan.blockers)


def next_lever(plan: Plan, raw: Mapping[str, Any]) -> str:
    """What to change: the cheapest set that fits by the plan, or, where it thinks that the run fits, what the plan cannot see and a lever."""
    more = "all of it, with what each change saves: memory_plan.py config.yaml --fit"
    if plan.blockers:
        return f"{plan.blockers[0].fix}; {more}"
    if not plan.fits:
        fit = cheapest_fit(plan.workload)
        if fit is None:
            return f"no change to this config fits on this device; a smaller model or more GPUs: {more}"
        return f"{'; '.join(lever.what for lever, _, _ in fit.steps)}. In config.yaml: {flow(tidy_patch(fit.patch, dict(raw)))}. {more}"
    fix = "the plan has room, so look for what it does not see: other processes on the device (nvidia-smi), fragmentation"
    fix += " (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)"
    smaller = next((found[0] for found in options(plan.workload) if found[0].name == "micro-batch"), None)
    if smaller is not None:
        fix += f". Then {smaller.what}: {flow(tidy_patch(smaller.patch, dict(raw)))}"
    return f"{fix}. train.py config.yaml --dry-step measures one worst-case step"
