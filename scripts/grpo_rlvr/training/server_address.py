"""Where the vLLM server is, and how the training reaches it and nobody else does."""

from __future__ import annotations

import contextlib
import os
import socket
from urllib.parse import SplitResult, urlsplit

from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError

HOST = "GRPO_RLVR_SERVER_HOST"  # set by `train.py --launch` on several machines: where the server is
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def address(config: Config) -> tuple[str, int]:
    """Host and port of the server: what `--launch` says on several machines, what is written, else this machine only (TRL: all interfaces)."""
    host = os.environ.get(HOST) or config.grpo.get("vllm_server_host") or "127.0.0.1"
    return host, config.setting("vllm_server_port")


def shown_address(config: Config) -> str:
    """Where the training looks for the server, for people."""
    given = _given_url(config)
    host, port = (given.hostname, given.port or 80) if given.hostname else address(config)
    return f"{host}:{port}"


def _given_url(config: Config) -> SplitResult:
    return urlsplit(config.grpo.get("vllm_server_base_url") or "")


def port_problems(config: Config) -> list[Problem]:
    """Ports that no machine has, and one for two things."""
    ports = {name: config.setting(name) for name in ("vllm_server_port", "vllm_group_port")}
    problems = [
        Problem(f"grpo.{name}", f"{port!r} is no port", "write one from 1024 to 65535")
        for name, port in ports.items()
        if not isinstance(port, int) or not 0 < port < 65536
    ]
    if not problems and len(set(ports.values())) == 1:
        message = f"{ports['vllm_group_port']} is vllm_server_port too; requests and weights need a port each"
        problems.append(Problem("grpo.vllm_group_port", message, "write another port"))
    return problems


def of_this_machine(host: str) -> dict[str, str]:
    """What keeps the training and a server at a loopback address off the network.

    TRL opens its second port, of the weight transfer (`vllm_group_port`), at vLLM's `get_ip()`: the address of the network interface unless
    VLLM_HOST_IP says another.
    """
    return {"VLLM_HOST_IP": "127.0.0.1" if host == "localhost" else host} if host in LOOPBACK else {}


def reach_directly(config: Config) -> None:
    """Keep proxies out of the way to the server, for this process and those that it starts."""
    # TRL's client asks the environment for a proxy, and a company's knows nothing of this machine or of the machines beside it.
    host = _given_url(config).hostname or address(config)[0]
    for name in ("no_proxy", "NO_PROXY"):
        others = [known for known in os.environ.get(name, "").split(",") if known.strip() not in ("", host)]
        if os.environ.get(name, "").strip() != "*":  # which counts only where it stands alone
            os.environ[name] = ",".join([*others, host])


def check_port(host: str, port: int, setting: str) -> None:
    """Raises:
    UserError: something listens there already.
    """
    # Another server there would answer in place of ours, and be trained from and written to; another's weight transfer would be joined.
    with contextlib.closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        probe.settimeout(5)
        if probe.connect_ex((host, port)) == 0:
            raise UserError("run", Problem(f"grpo.{setting}", f"something listens at {host}:{port} already", "write another port, or end it"))
