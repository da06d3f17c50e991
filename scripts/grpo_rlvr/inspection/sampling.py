"""Draw completions from the model as training will, through one of the backends, into `samples.jsonl`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.bars import progress
from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.backends.backend import BACKENDS, Batch, Drawn, backend_settings, choose, open_backend
from grpo_rlvr.inspection.early import EarlyBatches
from grpo_rlvr.inspection.fingerprint import same
from grpo_rlvr.inspection.jsonl import sha256
from grpo_rlvr.inspection.model_files import model_part
from grpo_rlvr.inspection.samples import COMPARED, SampleIds, append_samples, make_header, peek_header, start_samples
from grpo_rlvr.inspection.signal_model import keep_first_token


def draw_prompts(count: int, wanted: int, seed: int) -> list[int]:
    """Numbers of the training rows to inspect, without replacement; the same for the same seed."""
    return random.Random(f"inspection prompts {seed}").sample(range(count), min(wanted, count))  # noqa: S311  (draws prompts)


def planned_header(config: Config, rows: Sequence[dict], backend: str | None = None) -> dict:
    """The header that samples drawn today would have; equal to a file's header if its samples can still be used.

    Args:
        backend: what draws them. None: what drew those that are there, so that a flag given once need not be given again.
    """
    inspection = config.inspection
    backend = backend or _drawn_by(peek_header(config.inspection_folder)) or choose(config)
    drawn = draw_prompts(len(rows), inspection.prompts, inspection.seed)
    repeats = inspection.samples_per_prompt or config.num_generations
    settings = {
        "source": "model",
        **backend_settings(config, backend),
        "seed": inspection.seed,
        "prompts": len(drawn),
        "samples_per_prompt": repeats,
        "dtype": config.model.dtype,
        **config.sampling,
    }
    fingerprint = {"model": model_part(config), "prompts": sha256([[i, rows[i]] for i in drawn])}
    return make_header(settings, fingerprint, len(drawn) * repeats)


def draw_samples(
    config: Config,
    rows: Sequence[dict],
    *,
    backend: str | None = None,
    redraw: bool = False,
    model: Any = None,
    tokenizer: Any = None,
    quiet: bool = False,
) -> list[dict]:
    """Fill `samples.jsonl` and return its samples; goes on where an interrupted run stopped, and draws nothing if all are there.

    Args:
        backend: one of `BACKENDS`; None means the config's, else the one that drew the samples there, else the default.
        redraw: set samples of another backend aside instead of refusing.
        model, tokenizer: the config's model, if the caller has loaded it already; left as it was found.

    Raises:
        UserError: another backend drew the samples that are there, under the same settings.
    """
    folder = config.inspection_folder
    header = planned_header(config, rows, backend or config.inspection.backend)
    if not redraw:
        _refuse_other_backend(config, rows, header)
    drawn = draw_prompts(len(rows), config.inspection.prompts, config.inspection.seed)
    plan = [i for i in drawn for _ in range(header["sampling"]["samples_per_prompt"])]

    def fits(number: int, sample: dict) -> bool:
        row = rows[plan[number]]
        wanted = [plan[number], row["prompt"], {k: v for k, v in row.items() if k != "prompt"}]
        return same([sample["prompt_index"], sample["prompt"], sample["columns"]], wanted)

    samples = start_samples(folder, header, fits)
    if len(samples) == len(plan):
        return samples
    ids = SampleIds(samples)
    early = EarlyBatches(folder, header)

    def add(rows_of_batch: list[dict]) -> None:
        batch = [{"sample_id": ids.next(row["prompt"], row["completion"]), **row} for row in rows_of_batch]
        append_samples(folder, batch)
        samples.extend(batch)

    if config.grpo.get("use_vllm") and header["sampling"]["backend"] == "transformers" and not quiet:
        say("sampling with transformers although grpo.use_vllm is set: vllm is not installed here, or another backend was asked for")
    engine = open_backend(config, header["sampling"]["backend"], [rows[i]["prompt"] for i in dict.fromkeys(plan)], model=model, tokenizer=tokenizer)
    batches = _batches(config, rows, plan, len(samples), engine.batch_size)
    waiting = {b.start: kept for b in batches if len(kept := early.kept.get(b.start, [])) == len(b.prompts)}
    while len(samples) in waiting:
        add(waiting.pop(len(samples)))
    there = len(samples) + sum(map(len, waiting.values()))
    if there and not quiet:
        say(f"going on after {there} of {len(plan)} samples")
    missing = [b for b in batches if b.start >= len(samples) and b.start not in waiting]
    if missing:
        with engine, progress("sampling", len(plan), done=there, quiet=quiet) as advance:
            if hasattr(engine, "first_token"):
                keep_first_token(folder, header, engine.first_token([rows[i]["prompt"] for i in dict.fromkeys(plan)]))
            for batch, completions in engine.draw(missing):
                done = [_row(rows, plan, batch, k, one) for k, one in enumerate(completions)]
                if batch.start == len(samples):
                    add(done)
                else:  # batches before it are still under way
                    early.keep(batch.start, done)
                    waiting[batch.start] = done
                while len(samples) in waiting:
                    add(waiting.pop(len(samples)))
                advance(len(done))
    early.clear()
    return samples


def _batches(config: Config, rows: Sequence[dict], plan: Sequence[int], start: int, size: int) -> list[Batch]:
    return [Batch(at, [rows[i]["prompt"] for i in plan[at : at + size]], f"{config.inspection.seed} {at}") for at in range(start, len(plan), size)]


def _row(rows: Sequence[dict], plan: Sequence[int], batch: Batch, k: int, drawn: Drawn) -> dict:
    index = plan[batch.start + k]
    return {
        "prompt_index": index,
        "prompt": rows[index]["prompt"],
        "completion": drawn.completion,
        "columns": {name: v for name, v in rows[index].items() if name != "prompt"},
        "finish": drawn.finish,
        "tokens": drawn.tokens,
        "batch": [batch.start, len(batch.prompts)],
        **drawn.more,
    }


def _refuse_other_backend(config: Config, rows: Sequence[dict], header: dict) -> None:
    """Samples of the same settings may have been read by someone: another backend's are not set aside without a word."""
    there = peek_header(config.inspection_folder)
    other, wanted = _drawn_by(there), header["sampling"]["backend"]
    if other in (None, wanted) or not _is_filled(config.inspection_folder):
        return
    planned = planned_header(config, rows, other)
    if all(same(there.get(k), planned[k]) for k in COMPARED):
        message = f"it holds samples that {other} drew with the same settings, and {wanted} is asked for"
        fix = f"go on with them: --backend {other}; or set them aside and draw new ones: --backend {wanted} --redraw"
        raise UserError("samples", Problem("samples.jsonl", message, fix))


def _drawn_by(header: dict | None) -> str | None:
    sampling = (header or {}).get("sampling")
    backend = sampling.get("backend") if isinstance(sampling, dict) else None
    return backend if backend in BACKENDS else None


def _is_filled(folder: Path) -> bool:
    from grpo_rlvr.inspection.samples import samples_path

    with open(samples_path(folder), "rb") as lines:
        lines.readline()
        return bool(lines.readline().strip())
