"""From `hardware:` to the commands that start a run: which GPUs train, which serve vLLM, and accelerate's engine settings.

Those are TRL's own files in the installed package. Every command is the same on each machine but for its rank, so a scheduler can run
`train.py CONFIG --launch --go --machine-rank N` everywhere.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem
from grpo_rlvr.training.server_address import HOST, address, of_this_machine, shown_address
from grpo_rlvr.training.setup import Setup
from grpo_rlvr.training.vllm_server import GPUS, section, serve_arguments, uses_server

ENGINES = {"none": "multi_gpu", "ddp": "multi_gpu", "fsdp2": "fsdp2", "zero2": "zero2", "zero3": "zero3"}
PORT = 29500
# torchrun sends its processes SIGTERM and kills them 30 s later; a step and its checkpoint may take longer.
PATIENCE = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "600"}


@dataclass(frozen=True)
class Command:
    """One process to start: on machine `machine`, to `role` "train" or "serve"."""

    machine: int
    role: str
    environment: dict[str, str]
    arguments: list[str]

    def __str__(self) -> str:
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.environment.items()), shlex.join(self.arguments)])


@dataclass(frozen=True)
class Plan:
    """How a run is started. `processes` train, over all machines."""

    engine: str
    processes: int
    commands: list[Command]
    notes: list[str]


def trainers(config: Config) -> int:
    """Processes that train: all GPUs, less those of a vLLM server that `hardware.vllm_server` gives GPUs (or machines) of its own."""
    count, nodes, _ = config.hardware.split(uses_server(config) and not config.grpo.get("use_cpu"))
    return count * nodes


def plan(
    config: Config,
    script: str,
    python: str = "python",
    flags: Sequence[str] = (),
    main_ip: str = "MAIN_IP",
    server_ip: str = "SERVER_IP",
    visible: str | None = None,
) -> Plan:
    """The commands of all machines.

    Args:
        script: train.py, as it is to be started.
        flags: passed on to it, such as --resume.
        main_ip: address of machine 0, for several machines.
        server_ip: address of the last machine, where that one serves vLLM.
        visible: `$CUDA_VISIBLE_DEVICES` where the commands are started at once: GPUs are taken from those, in that order.
    """
    h, processes = config.hardware, trainers(config)
    apart = uses_server(config) and h.vllm_server is not None
    machines = h.nodes - (1 if apart and h.nodes > 1 else 0)
    environment = dict(PATIENCE) if processes > 1 else {}
    if apart and h.nodes > 1:
        environment[HOST] = server_ip
    elif apart and not config.grpo.get("use_cpu"):
        train = processes // machines
        environment["CUDA_VISIBLE_DEVICES"] = _gpus(0, train, visible)
        if h.vllm_server.start:
            environment[GPUS] = _gpus(train, train + h.vllm_server.gpus, visible)
    elif processes == 1 and not config.grpo.get("use_cpu"):
        environment["CUDA_VISIBLE_DEVICES"] = _gpus(0, 1, visible)  # one process that sees more would be torch's DataParallel
    if apart and h.nodes == 1:
        environment |= of_this_machine(address(config)[0])
    commands = [
        Command(rank, "train", environment, [*_launcher(config, python, processes, machines, rank, main_ip), script, str(config.path), *flags])
        for rank in range(machines)
    ]
    served = Command(h.nodes - 1, "serve", _serve_environment(config, visible), ["vllm", *_serve(config, server_ip)])
    if uses_server(config) and not section(config).start:
        commands.insert(0, served)
    return Plan(h.sharding or "ddp", processes, commands, _notes(config, processes))


def _launcher(config: Config, python: str, processes: int, machines: int, rank: int, main_ip: str) -> list[str]:
    if processes == 1:
        # accelerate would hide the exit code and keep a SIGTERM to itself.
        return [python]
    if config.grpo.get("use_cpu"):
        # `accelerate launch --cpu` starts one process whatever it is told.
        return [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    file = engine_file(ENGINES[config.hardware.sharding or "ddp"])
    precision = "fp16" if config.grpo.get("fp16") else "no" if config.grpo.get("bf16") is False else "bf16"
    launcher = [python, "-m", "accelerate.commands.launch", "--config_file", str(file), "--num_processes", str(processes)]
    launcher += ["--num_machines", str(machines), "--machine_rank", str(rank), "--mixed_precision", precision]
    return launcher + (["--main_process_ip", main_ip, "--main_process_port", str(PORT)] if machines > 1 else [])


def engine_file(name: str) -> Path:
    """One of the accelerate settings that come with TRL."""
    spec = importlib.util.find_spec("trl")
    return Path(spec.origin).parent / "accelerate_configs" / f"{name}.yaml"


def _serve(config: Config, server_ip: str) -> list[str]:
    if config.hardware.nodes > 1 and config.hardware.vllm_server is not None:
        return serve_arguments(config, host=server_ip, gpus=config.hardware.count)
    return serve_arguments(config)


def _serve_environment(config: Config, visible: str | None) -> dict[str, str]:
    h, own = config.hardware, {}
    if h.vllm_server is not None and h.nodes == 1:
        own = of_this_machine(address(config)[0])
        if not config.grpo.get("use_cpu"):
            own["CUDA_VISIBLE_DEVICES"] = _gpus(trainers(config), h.count, visible)
    return {**own, "VLLM_SERVER_DEV_MODE": "1"}


def _gpus(first: int, end: int, visible: str | None) -> str:
    return ",".join((list(map(str, range(end))) if visible is None else named_gpus(visible))[first:end])


def named_gpus(visible: str) -> list[str]:
    """The GPUs that `$CUDA_VISIBLE_DEVICES` names; as for CUDA itself, the first that is none ends the list."""
    return list(takewhile(lambda name: name and not name.startswith("-"), (name.strip() for name in visible.split(","))))


def _notes(config: Config, processes: int) -> list[str]:
    setup = Setup(config, None, processes)
    update = setup.step_batch * setup["gradient_accumulation_steps"]
    notes = [
        f"{update} completions an update = {processes} process(es) x {setup['per_device_train_batch_size']} x gradient_accumulation_steps"
        f" {setup['gradient_accumulation_steps']}; {setup.generation_batch} generated at once = {setup.generation_batch // setup.group} prompts"
        f" x {setup.group}",
    ]
    if uses_server(config):
        own = config.hardware.nodes == 1 or config.hardware.vllm_server is None
        where = shown_address(config) if own else f"the last machine, port {address(config)[1]}"
        started = "train.py starts and stops it" if section(config).start else "start it first; training waits vllm_server_timeout seconds for it"
        notes.append(f"vLLM's server: {where}; {started}")
        notes.append("whoever reaches that port can replace the weights and run code in the server: keep it from everyone but the training")
    return notes


def launch_problems(config: Config, go: bool, visible: str | None = None) -> list[Problem]:
    """What makes the plan impossible.

    Args:
        go: it is to be started on this machine, so what is missing here counts.
        visible: `$CUDA_VISIBLE_DEVICES`, where it is set.
    """
    h, problems = config.hardware, []
    if config.grpo.get("use_cpu") and h.sharding not in (None, "ddp"):
        message = f"{h.sharding} on a CPU would silently train as ddp"
        problems.append(Problem("hardware.sharding", message, "delete it, or grpo.use_cpu"))
    if config.grpo.get("use_cpu") and h.nodes > 1:
        problems.append(Problem("hardware.nodes", f"{h.nodes} machines on CPUs are not supported", "set nodes: 1"))
    tensor_parallel = config.setting("vllm_tensor_parallel_size") or 1
    if config.grpo.get("use_vllm") and not uses_server(config) and trainers(config) % tensor_parallel:
        message = f"{trainers(config)} processes are no multiple of {tensor_parallel}, so the engines cannot be shared among them"
        problems.append(Problem("grpo.vllm_tensor_parallel_size", message, "choose a divisor of the number of processes"))
    if h.sharding in ("fsdp2", "zero2", "zero3") and trainers(config) == 1:
        problems.append(Problem("hardware.sharding", f"{h.sharding} shares the model among GPUs, and one GPU trains", "delete it"))
    if go and (h.sharding or "").startswith("zero") and importlib.util.find_spec("deepspeed") is None:
        problems.append(Problem("hardware.sharding", f"{h.sharding} needs the package deepspeed", "run: pip install deepspeed, or take fsdp2"))
    if go and visible is not None and not config.grpo.get("use_cpu"):
        named = len(named_gpus(visible))
        if named < h.count:
            message = f"is {h.count}, and CUDA_VISIBLE_DEVICES={visible!r} leaves {named} to this run"
            problems.append(Problem("hardware.count", message, "set it to what the run may use, or unset CUDA_VISIBLE_DEVICES"))
    return problems


def text(made: Plan) -> str:
    """The plan as lines to read and to paste; what is not a command begins with `#`."""
    lines = [f"# {made.processes} process(es) train ({made.engine})", *(f"# {note}" for note in made.notes)]
    for command in made.commands:
        lines += [f"# machine {command.machine}: {command.role}", str(command)]
    return "\n".join(lines)


def start(made: Plan, machine: int, config: Config, python: str) -> None:
    """Become the command of `machine`: a signal then reaches accelerate itself. Returns only where there is nothing to start."""
    mine = [c for c in made.commands if c.machine == machine and (c.role == "train" or config.hardware.nodes > 1)]
    if not mine:
        return
    command = mine[-1]
    arguments = [python, "-m", "vllm.entrypoints.cli.main", *command.arguments[1:]] if command.role == "serve" else command.arguments
    os.execvpe(arguments[0], arguments, {**os.environ, **_cpu(config), **command.environment})  # noqa: S606  (a list, no shell)


def _cpu(config: Config) -> dict[str, str]:
    return {"ACCELERATE_USE_CPU": "true"} if config.grpo.get("use_cpu") else {}
