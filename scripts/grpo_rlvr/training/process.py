"""This process among several, and what goes wrong in it, said so that people can act on it."""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import logging
import os
import sys
from collections.abc import Iterator

from grpo_rlvr.config import Config
from grpo_rlvr.errors import CheckFailed, GrpoRlvrError, MissingError, Problem, UserError
from grpo_rlvr.inspection.model_files import model_folder


def is_main_process() -> bool:
    """Whether this is the process that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def world_size() -> int:
    """How many processes there are, as the launcher says it."""
    return int(os.environ.get("WORLD_SIZE") or 1)


@contextlib.contextmanager
def loading_errors(config: Config) -> Iterator[None]:
    """Around the building of config, model and trainer: what TRL and transformers refuse becomes one message.

    Raises:
        UserError: a model that cannot be loaded, or a setting that is refused.
    """
    try:
        with explained_failures(config):
            yield
    except GrpoRlvrError:
        raise
    except OSError as exc:
        # transformers raises bare OSErrors, without errno, for names and folders that it cannot load.
        if exc.errno is not None:
            raise
        problem = f"{config.model.name_or_path} cannot be loaded: {_first_line(exc)}"
        if model_folder(config) is None:
            fix = "check the name, the network and HF_TOKEN, or download it first and give the folder"
            raise MissingError("model", Problem("model.name_or_path", problem, fix)) from exc
        fix = "give the folder that save_pretrained wrote, with config, weights and tokenizer"
        raise UserError("model", Problem("model.name_or_path", problem, fix)) from exc
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as exc:
        trl = importlib.metadata.version("trl")
        message = f"TRL {trl} or transformers refuses this: {type(exc).__name__}: {_first_line(exc)}"
        raise UserError("config", Problem("grpo, model", message, "change what it names")) from exc


@contextlib.contextmanager
def explained_failures(config: Config | None = None) -> Iterator[None]:
    """Around everything that trains or saves: a full disk, full GPU memory, a missing package, a ruined model, which come as errors of many kinds.

    Args:
        config: of the run, for the memory plan's view of it where memory was not enough.

    Raises:
        MissingError: one of these, said so that people can act on it.
        CheckFailed: a model whose probabilities are no numbers.
    """
    try:
        yield
    except GrpoRlvrError:
        raise
    except Exception as exc:
        text = _first_line(exc)
        if "PytorchStreamWriter" in text or "enforce fail at inline_container" in text or type(exc).__name__ == "SafetensorError":
            raise MissingError("disk", Problem("run.folder", f"a checkpoint could not be written: {text}", "free space, then --resume")) from exc
        if text.startswith("Failed to import ") and exc.__cause__ is not None:
            # trl imports vllm wherever it is installed, also when it is not used.
            message = f"{text.split(' because')[0][0].lower()}{text.split(' because')[0][1:]}: {_first_line(exc.__cause__)}"
            raise MissingError("missing", Problem("packages", message, "install what it names (pip install -c SKILL/constraints.txt ...)")) from exc
        if isinstance(exc, ImportError) or "requires" in text and "to be installed" in text:
            raise MissingError("missing", Problem("grpo", f"a setting needs a package: {text}", "install it, or change the setting")) from exc
        if isinstance(exc, RuntimeError) and "probability tensor contains" in text:
            problem = "the model gives no probabilities any more (NaN or infinite): an earlier update destroyed its weights"
            fix = "lower grpo.learning_rate (and look at grad_norm in progress.jsonl), then --resume --allow-changes from the last good checkpoint"
            raise CheckFailed("run", Problem("train", problem, fix)) from exc
        from grpo_rlvr.training.memory_here import is_out_of_memory, memory_problem

        if is_out_of_memory(exc):
            raise MissingError("memory", memory_problem(exc, config)) from exc
        raise


def load_on_numbered_cpus() -> None:
    """Let torch load a checkpoint on "cpu:0": the name accelerate gives the device of each of several processes on CPUs."""
    import torch

    torch.serialization.register_package(0, lambda storage: None, lambda storage, location: storage if location.startswith("cpu:") else None)


def leave_together(code: int) -> None:
    """One of several processes is done: end the process group while all are there, and in the end skip the teardown of C++ libraries.

    Threads of theirs that are still there then abort the process (torch 2.13 with gloo: one run in thirty on a busy machine), and its launcher
    calls the run, which is finished and saved, a failure. What `atexit` has to do, and other Python threads, end as ever before.
    """
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
        _codes.append(code)


_codes: list[int] = []


def _skip_teardown() -> None:
    if _codes:
        with contextlib.suppress(OSError, ValueError):  # a reader that has gone
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(_codes[-1])


# Registered first, called last.
atexit.register(_skip_teardown)


def quiet_known_noise() -> None:
    """Leave out two log messages that mislead.

    TRL logs each dropped completion whole, with advice that does not apply: the progress line counts them. transformers misses the
    `lm_head` of a checkpoint whose head is tied to the embeddings and was therefore never saved.
    """
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(lambda record: "All reward functions returned None" not in str(record.msg))
    logging.getLogger("transformers.trainer").addFilter(
        lambda record: "missing keys" not in str(record.msg) or "['lm_head.weight']" not in str(record.msg)
    )


def _first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
