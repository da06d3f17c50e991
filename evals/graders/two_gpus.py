"""vLLM's server on one GPU, training on the other."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from urllib.parse import urlsplit

from graders.left import Left
from graders.machine import accepted, ask, completions_an_update, fits
from graders.task import Outcome

LEAST_LENGTH = 2048  # 512 of the prompt, 1536 of the completion
STARTERS = r"train\.py\b.*|accelerate(?:\.commands\.launch| launch)|torchrun|trl grpo"


def grade(left: Left) -> list[Outcome]:
    config, problem = left.read_config
    script = plain("\n".join(line for line in left.text("run.sh").splitlines() if not line.lstrip().startswith("#")))
    if config is None:
        return [(False, problem)] * 5 + [starts(left, script), (False, problem)]
    length = (
        config.setting("vllm_max_model_length")
        or _flag(script, "max-model-len")
        or (config.hardware.vllm_server or _None).arguments.get("max-model-len")
        or _computed(script)
    )
    same = {
        "completions an update": completions_an_update(config, 1 if by_commands(script) else None),
        "learning_rate": config.setting("learning_rate"),
        "max_completion_length": config.setting("max_completion_length"),
    }
    return [
        accepted(left),
        partial(apart, left, script),
        loopback(config, script),
        (isinstance(length, int) and length >= LEAST_LENGTH, f"model length {length}"),
        (list(same.values()) == [32, 1e-6, 1536], str(same)),
        starts(left, script),
        partial(fits, left.folder / "config.yaml", "--gpu", "h100-80gb", "--prompt-tokens", 512),
    ]


class _None:
    arguments: dict = {}


def _computed(script: str) -> int | None:
    """The least length, where the script computes the engine's from the prompt's and the completion's."""
    given = re.search(r"--max[-_]model[-_]len[= ]+[\"']?\$", script)
    return LEAST_LENGTH if given and "max_completion_length" in script and re.search(r"prompt\w*", script) else None


def plain(script: str) -> str:
    """The script without comments, and with the values of its own constants in their places."""
    script = re.sub(r"\s#.*$", "", script, flags=re.MULTILINE)
    for name, value in re.findall(r"^\s*(?:export\s+)?(\w+)=[\"']?([\w.:/,-]+)[\"']?\s*$", script, re.MULTILINE):
        script = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", value, script)
    return script


def by_commands(script: str) -> list[str]:
    """The GPUs of a server and of one training process that the script starts itself, else nothing."""
    named = re.findall(r"CUDA_VISIBLE_DEVICES=[\"']?([\d,]+)", script)
    return named if "serve" in script and set(named) == {"0", "1"} else []


def apart(left: Left, script: str) -> tuple[bool, str]:
    """By the skill's own launch plan, or by two commands in run.sh with GPUs of their own."""
    config, _ = left.read_config
    if config.setting("use_vllm") is not True or config.setting("vllm_mode") != "server":
        return False, f"use_vllm {config.setting('use_vllm')}, vllm_mode {config.setting('vllm_mode')}"
    if named := by_commands(script):
        return True, f"GPUs by command: {named}"
    code, plan = ask("train.py", left.folder / "config.yaml", "--launch")
    if code != 0:
        return False, str(plan.get("error"))
    place = plan["commands"][0]["environment"]
    trained, served = place.get("CUDA_VISIBLE_DEVICES"), place.get("GRPO_RLVR_SERVER_GPUS")
    return plan["processes"] == 1 and {trained, served} == {"0", "1"}, f"trains on {trained}, serves on {served}"


def loopback(config, script: str) -> tuple[bool, str]:
    """0.0.0.0 is TRL's and vLLM's own default, so a server that the script starts must be told otherwise."""
    if config.setting("vllm_mode") != "server":
        return False, "there is no server"
    host = urlsplit(config.grpo.get("vllm_server_base_url") or "").hostname or config.grpo.get("vllm_server_host") or "127.0.0.1"
    served = re.search(r"(?:vllm|trl) (?:vllm-)?serve\b", script)
    given = _flag(script, "host")
    if served and given not in ("127.0.0.1", "localhost"):
        return False, f"run.sh serves with --host {given}"
    return host in ("127.0.0.1", "localhost") and "0.0.0.0" not in script, f"vllm_server_host {host}, --host {given}"


def starts(left: Left, script: str) -> tuple[bool, str]:
    if not script.strip():
        return False, "there is no run.sh"
    checked = subprocess.run(["bash", "-n", str(left.folder / "run.sh")], capture_output=True, text=True, timeout=20)
    found = re.search(STARTERS, script)
    # train.py alone uses every GPU for nothing: with a server it must be launched.
    launched = found and (
        "--launch" in script and "--go" in script or "accelerate" in script or "CUDA_VISIBLE_DEVICES" in script or "trl grpo" in script
    )
    return checked.returncode == 0 and bool(launched), checked.stderr.strip() or (
        f"starts with: {found[0][:80]}" if found else "nothing starts a training"
    )


def _flag(script: str, name: str):
    found = re.search(rf"--{name.replace('-', '[-_]')}[= ]+[\"']?([\w.:]+)", script)
    return (int(found[1]) if found[1].isdigit() else found[1]) if found else None
