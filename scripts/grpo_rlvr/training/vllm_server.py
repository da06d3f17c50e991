"""The vLLM server of `grpo.vllm_mode: server`: its command, its start and stop with the training, and what happens when it dies."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.environment.versions import installed, number
from grpo_rlvr.errors import MissingError, Problem
from grpo_rlvr.inspection.model_files import model_folder
from grpo_rlvr.sections import VllmServerSection
from grpo_rlvr.training.process import is_main_process
from grpo_rlvr.training.server_address import LOOPBACK, address, check_port, of_this_machine, port_problems, reach_directly
from grpo_rlvr.visible import visible

GUARD = Path(__file__).with_name("vllm_guard.py")
GPUS = "GRPO_RLVR_SERVER_GPUS"  # set by `train.py --launch`: the server's GPUs, as in CUDA_VISIBLE_DEVICES
# Set by torchrun and accelerate for the training's processes; vLLM would take them for its own.
OF_THE_LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
OF_THE_LAUNCHER_PREFIXES = ("TORCHELASTIC_", "ROLE_", "ACCELERATE_", "FSDP_")
SAY_EVERY_S = 20.0
LAST_LINES = 8
STOP_S = 60.0  # the guard kills what is left after 15 s


def section(config: Config) -> VllmServerSection:
    """`hardware.vllm_server`, or its defaults."""
    return config.hardware.vllm_server or VllmServerSection()


def uses_server(config: Config) -> bool:
    """Whether completions come from a vLLM server rather than from an engine inside the training's processes."""
    return bool(config.grpo.get("use_vllm")) and config.setting("vllm_mode") == "server"


def serve_arguments(config: Config, host: str | None = None, gpus: int | None = None) -> list[str]:
    """`vllm serve` and what TRL needs of it.

    The weight transfer is off by default in vLLM; `processed_logprobs` are those of the tempered distribution, which the trainer compares its
    own with.

    Args:
        gpus: those of the server, where they differ from `hardware.vllm_server.gpus`.
    """
    tensor_parallel = config.setting("vllm_tensor_parallel_size") or 1
    ours = {
        "host": host or address(config)[0],
        "port": address(config)[1],
        "revision": config.model.revision,
        "tensor-parallel-size": tensor_parallel,
        "data-parallel-size": max(1, (gpus or section(config).gpus) // tensor_parallel),
        "max-model-len": config.setting("vllm_max_model_length"),
        "trust-remote-code": bool(config.grpo.get("trust_remote_code")) or None,
        "enable-scale-out": _takes_scale_out(installed("vllm")),
        "weight-transfer-config": json.dumps({"backend": "nccl"}),
        "logprobs-mode": "processed_logprobs",
        "max-logprobs": -1,
        "uvicorn-log-level": "warning",
    }
    written = {name.lstrip("-").replace("_", "-"): value for name, value in section(config).arguments.items()}
    arguments = ["serve", str(model_folder(config) or config.model.name_or_path)]
    for name, value in {**ours, **written}.items():
        if value is None or value is False:
            continue
        arguments += [f"--{name}"] if value is True else [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    return arguments


def _takes_scale_out(version: str | None) -> bool:
    """Whether `vllm serve` knows --enable-scale-out, which TRL gives it from 0.30.0 on; where none is installed, the newest is meant."""
    return version is None or number(version) >= (0, 30)


def serve_environment(config: Config, gpus: str | None, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The server's environment: without the launcher's variables, with the development endpoints that TRL sends weights through."""
    kept = {k: v for k, v in base.items() if k not in OF_THE_LAUNCHER and not k.startswith(OF_THE_LAUNCHER_PREFIXES)}
    return {**of_this_machine(address(config)[0]), **kept, "VLLM_SERVER_DEV_MODE": "1", **({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus})}


def server_gpus(config: Config) -> str | None:
    """The GPUs of a server that this process starts, as for CUDA_VISIBLE_DEVICES; None on a CPU.

    Raises:
        MissingError: fewer GPUs are visible than the training's processes and the server need.
    """
    import torch

    if config.grpo.get("use_cpu") or not torch.cuda.is_available():
        return None
    if GPUS in os.environ:
        return os.environ[GPUS]
    seen = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
    names, trainers, wanted = seen.split(","), int(os.environ.get("LOCAL_WORLD_SIZE", "1")), section(config).gpus
    if len(names) < trainers + wanted:
        message = f"{len(names)} GPU(s) are visible; {trainers} process(es) train and the server is to have {wanted} of its own"
        raise MissingError("launch", Problem("hardware.vllm_server", message, "start with train.py CONFIG --launch --go"))
    return ",".join(names[-wanted:])


class VllmServer:
    """A server process of this training. Entering waits until it answers; leaving ends it and everything it started."""

    def __init__(self, command: list[str], environment: Mapping[str, str], url: str, log: Path, timeout_s: float):
        self.command, self.environment, self.url, self.log, self.timeout_s = command, dict(environment), url, log, timeout_s
        self.guard: subprocess.Popen | None = None

    def __enter__(self) -> VllmServer:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            log.write(f"\n$ {shlex.join(self.command)}\n".encode())
            log.flush()
            guarded = [sys.executable, str(GUARD), *self.command]
            self.guard = subprocess.Popen(  # noqa: S603  (a list, no shell)
                guarded, env=self.environment, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error) -> None:
        if self.guard is None:
            return
        self.guard.stdin.close()
        try:
            self.guard.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            say(f"warning: the vLLM server has not ended after {STOP_S:g} s; look for process {self.guard.pid} and its children")
            self.guard.kill()
            self.guard.wait()
        self.guard = None

    def alive(self) -> bool:
        return self.guard is not None and self.guard.poll() is None

    def _wait(self) -> None:
        began = said = time.monotonic()
        say(f"starting the vLLM server at {self.url} (at most {self.timeout_s:g} s); its log: {self.log}")
        while not answers(self.url):
            now = time.monotonic()
            if not self.alive():
                raise MissingError("vllm", self.problem(f"the server ended while it started, with exit code {self.guard.returncode}"))
            if now - began > self.timeout_s:
                raise MissingError("vllm", self.problem(f"the server did not answer within {self.timeout_s:g} s", "or raise start_timeout_s"))
            if now - said > SAY_EVERY_S:
                said = now
                say(f"  the vLLM server does not answer yet ({now - began:.0f} s)")
            time.sleep(0.2)
        say(f"the vLLM server answers after {time.monotonic() - began:.0f} s")

    def problem(self, message: str, fix: str = "") -> Problem:
        """A problem with the last lines of the server's log."""
        fix = f"see {self.log}" + (f"; {fix}" if fix else "")
        return Problem("hardware.vllm_server", f"{message}; the last lines of its log:\n{last_lines(self.log)}", fix)


def answers(url: str, timeout_s: float = 5.0) -> bool:
    """Whether the server at `url` says that it is well."""
    try:
        # Never through a proxy: the server is on this machine or on its own network.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/health", timeout=timeout_s) as response:
            return response.status == 200
    except (OSError, urllib.error.URLError, ValueError):
        return False


def last_lines(log: Path) -> str:
    """The end of the log, fit for a terminal."""
    try:
        with open(log, "rb") as lines:
            lines.seek(max(0, log.stat().st_size - 20_000))
            text = lines.read().decode("utf-8", errors="replace")
    except OSError as exc:
        return f"({exc})"
    kept = [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
    return "\n".join(f"  | {visible(line[:160])}" for line in kept)


@contextlib.contextmanager
def vllm_server(config: Config, logs: Path) -> Iterator[VllmServer | None]:
    """The server around the training if train.py is to start it, on the main process; None otherwise.

    Raises:
        UserError: its port is taken.
        MissingError: no GPU for it, or it does not come up.
    """
    if uses_server(config):
        reach_directly(config)
    if not (uses_server(config) and section(config).start and is_main_process()):
        yield None
        return
    host, port = address(config)
    check_port(host, port, "vllm_server_port")
    check_port(host, config.setting("vllm_group_port"), "vllm_group_port")
    for name, value in of_this_machine(host).items():
        os.environ.setdefault(name, value)
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", *serve_arguments(config)]
    environment = serve_environment(config, server_gpus(config))
    with VllmServer(command, environment, f"http://{host}:{port}", logs / "vllm_server.log", section(config).start_timeout_s) as server:
        yield server


def server_problems(config: Config) -> list[Problem]:
    """What is wrong with the settings of the server; nothing is started."""
    problems, server = [], config.hardware.vllm_server
    if server is None:
        return problems
    if not uses_server(config):
        fix = "set grpo.use_vllm: true and grpo.vllm_mode: server, or delete hardware.vllm_server"
        return [Problem("hardware.vllm_server", "is written, but no completion comes from a server", fix)]
    if config.grpo.get("vllm_server_base_url") and server.start:
        fix = "write vllm_server_port instead, or start the server yourself (start: false)"
        problems.append(Problem("grpo.vllm_server_base_url", "is written, but train.py starts the server", fix))
    if server.start and address(config)[0] not in LOOPBACK:
        message = f"{address(config)[0]} is open to others: who reaches the server can replace its weights and run code in it"
        problems.append(Problem("grpo.vllm_server_host", message, "delete the line (127.0.0.1)"))
    problems += port_problems(config)
    if server.start and config.hardware.nodes > 1:
        message = f"start is for one machine; nodes is {config.hardware.nodes}"
        problems.append(Problem("hardware.vllm_server.start", message, "set start: false; train.py --launch starts the server on the last machine"))
    tensor_parallel = config.setting("vllm_tensor_parallel_size") or 1
    if server.gpus % tensor_parallel:
        message = f"{server.gpus} GPU(s) are no multiple of grpo.vllm_tensor_parallel_size {tensor_parallel}"
        problems.append(Problem("hardware.vllm_server.gpus", message, f"set gpus: {-(-server.gpus // tensor_parallel) * tensor_parallel}"))
    if config.hardware.nodes == 1 and not config.grpo.get("use_cpu") and server.gpus >= config.hardware.count:
        message = f"the server takes {server.gpus} of {config.hardware.count} GPU(s) and leaves none to train on"
        problems.append(Problem("hardware.vllm_server.gpus", message, "raise hardware.count, or set grpo.vllm_mode: colocate"))
    return problems
