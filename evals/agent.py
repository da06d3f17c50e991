"""Starts somebody's agent in a folder, with a prompt, for a limited time."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

HELP = (
    "a shell command, started in the task's folder; {prompt_file} is the prompt, {answer_file} where the agent may write its closing message "
    "(else its standard output is taken), {folder} the task's folder"
)


def run_agent(template: str, folder: Path, prompt: str, beside: Path, timeout_s: float, python: str) -> dict:
    """Run the agent to its end or to the limit; what it started is ended with it.

    Args:
        beside: a folder outside the agent's, for prompt.txt, answer.txt, stdout.txt and stderr.txt.
        python: the interpreter with the skill's packages; its folder goes first on PATH.

    Returns:
        `status` (done, failed or timeout), `exit_code`, `seconds`, `answer`.
    """
    beside.mkdir(parents=True, exist_ok=True)
    places = {"prompt_file": beside / "prompt.txt", "answer_file": beside / "answer.txt", "folder": folder}
    places["prompt_file"].write_text(prompt, encoding="utf-8")
    command = template
    for name, path in places.items():
        command = command.replace("{" + name + "}", shlex.quote(str(path)))
    environment = {**os.environ, "PATH": f"{Path(python).absolute().parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    began = time.monotonic()
    with open(beside / "stdout.txt", "wb") as out, open(beside / "stderr.txt", "wb") as errors:
        process = subprocess.Popen(  # noqa: S602  (the command of whoever runs the evals)
            command, shell=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True
        )
        try:
            code = process.wait(timeout_s)
            status = "done" if code == 0 else "failed"
        except subprocess.TimeoutExpired:
            status, code = "timeout", None
        finally:
            # Servers and watchers that it left behind belong to its process group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if not places["answer_file"].is_file():
        places["answer_file"].write_bytes((beside / "stdout.txt").read_bytes())
    answer = places["answer_file"].read_text(encoding="utf-8", errors="replace")
    return {"status": status, "exit_code": code, "seconds": round(time.monotonic() - began, 1), "answer": answer}
