"""One inspection from config to `signal.json`, `probes.json` and the selection to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import write_json
from grpo_rlvr.config import Config
from grpo_rlvr.inspection import report
from grpo_rlvr.inspection.band import check_band, write_band
from grpo_rlvr.inspection.gate import merge_labels
from grpo_rlvr.inspection.jsonl import locked
from grpo_rlvr.inspection.labels import KINDS, load_labels
from grpo_rlvr.inspection.probe import has_error, run_probes
from grpo_rlvr.inspection.provenance import UNPROVEN, VOUCH, origin_warnings, signal_of_step, step_of
from grpo_rlvr.inspection.recorded import import_recorded, recorded_before
from grpo_rlvr.inspection.samples import peek_header
from grpo_rlvr.inspection.sampling import draw_samples
from grpo_rlvr.inspection.scores import save_scores, score_samples, scores_header
from grpo_rlvr.inspection.select import load_weights, save_selection, select_rows
from grpo_rlvr.inspection.signal import signal_of
from grpo_rlvr.inspection.signal_gold import length_findings, measure_golds, payment, token_counter
from grpo_rlvr.inspection.signal_model import first_token_of, with_model
from grpo_rlvr.inspection.waivers import accepted, open_errors, waiver_warnings, with_waivers


def run_inspection(
    config: Config,
    *,
    completions: str | Path | None = None,
    match: str | None = None,
    backend: str | None = None,
    redraw: bool = False,
    keep_band: Sequence[float] | None = None,
    band_file: str | Path | None = None,
    model: Any = None,
    tokenizer: Any = None,
    quiet: bool = False,
) -> dict:
    """Sample (or take recorded completions), score, probe, estimate the signal, select what to read.

    Args:
        completions: a file of recorded completions in the place of sampling; see `recorded_lines.FORMAT`. Those that are there are kept
            without it, until `backend` or `redraw` asks for others.
        match: the column by which its lines name data rows.
        backend, redraw: as of `draw_samples`.
        keep_band, band_file: bounds of the success rate, and where the training rows within are written; see `band.write_band`.
        model, tokenizer: the config's model if the caller has loaded it.
        quiet: no progress and no table.

    Returns:
        `go` (nothing speaks against going on), `next`, `signal`, `probes`, `dataset` (of `check_dataset`), `repeats` (of `repeat_findings`),
        `mean_scores`, `seconds`, `source` (model or recorded), `samples`, `selected`, `folder`; `band` if one is asked for.
    """
    from grpo_rlvr.data import check_rows, load_rows
    from grpo_rlvr.data_repeats import repeat_findings
    from grpo_rlvr.rewards.dataset_check import check_dataset
    from grpo_rlvr.rewards.registry import build_rewards

    bounds = check_band(keep_band) if keep_band is not None else None
    rewards = build_rewards(config)
    rows = load_rows(config, "train")
    check_rows(rewards, rows)
    dataset = check_dataset(rewards, rows, threshold=config.inspection.pass_threshold)
    repeats = repeat_findings(rows, {column for reward in rewards for column in reward.columns}, "data.train")
    folder, inspection = config.inspection_folder, config.inspection
    with locked(folder):
        if completions is not None:
            samples = import_recorded(Path(completions), config, rewards, rows, match)
        elif redraw or backend or (samples := recorded_before(config, rewards, rows)) is None:
            samples = draw_samples(config, rows, backend=backend, redraw=redraw, model=model, tokenizer=tokenizer, quiet=quiet)
        scores, seconds = score_samples(rewards, samples, inspection.pass_threshold)
        save_scores(folder, scores_header(config, rewards, samples), scores)
        labels = _labels(folder, samples, scores, inspection.reviewers)
        header = peek_header(folder)
        golds = measure_golds(rewards, rows, token_counter(config, tokenizer), config.sampling["max_completion_length"])
        dataset += length_findings(golds, rows)
        signal = signal_of_step(signal_of(samples, scores, config.num_generations, golds), step_of(header))
        if signal["success"]["passed"] == 0 and (said := payment(rewards, rows, dataset)):
            signal["reason"] += f"; {said}"
        signal = with_model(signal, first_token_of(folder, header))
        probes = with_waivers(run_probes(rewards, samples, scores, inspection.pass_threshold, labels), inspection.accept)
        chosen = select_rows(samples, scores, inspection.read, inspection.seed, keep=labels, weights=load_weights(folder))
        save_selection(folder, chosen, inspection.seed, len(samples))
        result = {
            "go": signal["verdict"] == "go" and not has_error([*probes, *dataset]),
            "next": _next_step(signal, probes, dataset),
            "signal": signal,
            "probes": probes,
            "accepted": accepted(probes),
            "warnings": [*_doubtful_golds(repeats), *_origin(header, samples), *waiver_warnings(probes, inspection.accept)],
            "dataset": dataset,
            "repeats": repeats,
            "mean_scores": {r.name: _mean([row["scores"][r.name] for row in scores]) for r in rewards},
            "seconds": seconds,
            "source": header["sampling"].get("source"),
            "samples": len(samples),
            "selected": len(chosen),
            "folder": str(folder),
        }
        write_json(folder / "signal.json", "signal", 1, {**signal, "mean_scores": result["mean_scores"]})
        write_json(folder / "probes.json", "probes", 1, {"findings": probes, "dataset": dataset})
        if bounds:
            result["band"] = write_band(config, signal, bounds, Path(band_file) if band_file else None)
    if not quiet:
        report.show_run(result, rewards, inspection.min_read)
    return result


def _doubtful_golds(repeats: Sequence[Mapping]) -> list[str]:
    return [f"{f['message']}: {f['fix']}" for f in repeats if f["severity"] == "warning"]


def _origin(header: Mapping, samples: Sequence[dict]) -> list[str]:
    """Said before a person spends time on them, not at the gate only."""
    return [f"{w}; {VOUCH}" if w == UNPROVEN else w for w in origin_warnings(header, samples)]


def _labels(folder: Path, samples: Sequence[dict], scores: Sequence[dict], allowed: Sequence[str]) -> Mapping[str, str]:
    read = merge_labels(load_labels(folder), samples, scores, allowed or KINDS)
    return {sample_id: row["label"] for sample_id, row in read["by_sample"].items()}


def _next_step(signal: Mapping, probes: Sequence[Mapping], dataset: Sequence[Mapping]) -> str:
    broken = next((f for f in dataset if f["severity"] == "error"), None)
    if broken:
        return f"{broken['fix']} (data check of reward {broken['reward']}), then run again"
    if errors := open_errors(probes):
        return (
            f"{errors[0].get('fix', 'mend the reward')} (probe {errors[0]['probe']}), then run again: samples are kept and only scored anew; "
            f"a finding that does no harm here can be accepted in the config: inspection.accept: [{{probe: {errors[0]['probe']}, reason: WHY}}]"
        )
    return signal["next_step"]


def _mean(values: Sequence[float | None]) -> float | None:
    scored = [v for v in values if v is not None]
    return sum(scored) / len(scored) if scored else None
