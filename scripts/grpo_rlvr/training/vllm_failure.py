"""When the vLLM server goes away in the middle of a run: noticed at once, a checkpoint saved, said plainly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.errors import MissingError, Problem
from grpo_rlvr.training.checkpoints import is_complete
from grpo_rlvr.training.process import is_main_process
from grpo_rlvr.training.server_address import address
from grpo_rlvr.training.vllm_server import VllmServer, uses_server


class ServerGone(Exception):
    """The server's process has ended."""


@contextlib.contextmanager
def server_failures(config: Config, trainer: Any, server: VllmServer | None) -> Iterator[None]:
    """Around everything that generates.

    Raises:
        MissingError: the server no longer answers; says which checkpoint is there to go on from.
    """
    if not uses_server(config):
        yield
        return
    if server is not None:
        _give_up_when_dead(trainer, server)
    try:
        yield
    except Exception as exc:
        if not _is_of_the_server(exc, server):
            raise
        where = "http://{}:{}".format(*address(config)) if server is None else server.url
        message = f"the vLLM server at {where} no longer answers (step {trainer.state.global_step}): {_first_line(exc)}"
        problem = Problem("hardware.vllm_server", message, "see the server's own output") if server is None else server.problem(message)
        fix = f"{problem.fix}; then the same command with --resume ({_save_now(trainer)})"
        raise MissingError("vllm", Problem(problem.where, problem.message, fix)) from exc


def _give_up_when_dead(trainer: Any, server: VllmServer) -> None:
    """TRL's client repeats a failed request for about a minute; for a process of ours that has ended there is nothing to wait for."""
    from requests.adapters import HTTPAdapter

    session = getattr(getattr(getattr(trainer, "vllm_generation", None), "vllm_client", None), "session", None)
    if session is None:
        return
    given = session.get_adapter("http://").max_retries

    class Retries(type(given)):
        def increment(self, *args, **kwargs):
            if not server.alive():
                raise ServerGone("its process has ended")
            return super().increment(*args, **kwargs)

    names = ("total", "connect", "read", "status", "status_forcelist", "backoff_factor", "allowed_methods")
    session.mount("http://", HTTPAdapter(max_retries=Retries(**{name: getattr(given, name) for name in names}), pool_maxsize=64))


def _is_of_the_server(exc: BaseException, server: VllmServer | None) -> bool:
    import requests

    if isinstance(exc, (ServerGone, requests.exceptions.RequestException)):
        return True
    return server is not None and not server.alive()


def _save_now(trainer: Any) -> str:
    """Save a checkpoint of the last whole step; returns what there is to go on from.

    Completions are asked for at the start of a generation cycle, so the weights are those of the last whole step. Several processes cannot
    save together any more: the others wait for completions.
    """
    step = trainer.state.global_step
    folder = Path(trainer.args.output_dir) / f"checkpoint-{step}"
    if trainer.args.save_strategy != "no" and trainer.args.world_size == 1 and step > 0:
        if not is_complete(folder):
            trainer._save_checkpoint(trainer.model, trial=None)  # as transformers' own checkpoint on a signal does
        return f"checkpoint-{step} is saved"
    from grpo_rlvr.training.checkpoints import newest_complete

    newest = newest_complete(Path(trainer.args.output_dir)) if is_main_process() else None
    return f"the last whole checkpoint is {newest.name}" if newest else "there is no checkpoint yet"


def _first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0][:200]
