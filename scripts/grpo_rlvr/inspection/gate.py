"""The gate: training starts only if someone read enough samples and nothing speaks against the reward.

`gate.json` is written whether it opens or not, with the fingerprint of everything the answer rests on.
"""

from __future__ import annotations

import datetime
import json
import platform
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.cli import write_json
from grpo_rlvr.config import Config
from grpo_rlvr.errors import CheckFailed, Problem, UserError
from grpo_rlvr.inspection.agreement import disagrees, measure_agreement, weigh_agreement
from grpo_rlvr.inspection.fingerprint import differences, fingerprint, is_fingerprint, same
from grpo_rlvr.inspection.labels import LABELS, load_judgements
from grpo_rlvr.inspection.probe import run_probes
from grpo_rlvr.inspection.provenance import is_recorded, origin_warnings, signal_of_step, step_of
from grpo_rlvr.inspection.readers import summarise_readers
from grpo_rlvr.inspection.recorded import unknown_prompts, what_changed
from grpo_rlvr.inspection.samples import COMPARED, load_header, load_samples
from grpo_rlvr.inspection.sampling import planned_header
from grpo_rlvr.inspection.scores import load_scores
from grpo_rlvr.inspection.seal import broken_seal, is_sealed, sealed
from grpo_rlvr.inspection.select import content, count_distinct, load_weights
from grpo_rlvr.inspection.signal import signal_of
from grpo_rlvr.inspection.waivers import accepted, lost_waivers, open_errors, waiver_warnings, with_waivers
from grpo_rlvr.version import __version__

SCHEMA = "grpo-rlvr/gate/1"
EACH = 5  # at least one in so many of `min_read` must be a completion that the reward passes, and as many one that it fails
REVIEW = "run: inspect_rewards.py review CONFIG"
DECIDE = (
    "run: inspect_rewards.py run CONFIG, then review CONFIG as far as it asks, then gate CONFIG; "
    "or name the gate of an earlier run with the same rewards, data and model: run.gate"
)


def decide_gate(config: Config, *, rewards: Sequence | None = None, rows: Sequence[dict] | None = None) -> dict:
    """Decide from samples, scores and labels, write the gate file and return what it holds.

    Args:
        rewards, rows: what `build_rewards` and `load_rows(config, "train")` return, if the caller has them.

    Raises:
        UserError: samples, scores or labels are missing, unreadable or not those of today's settings and rewards.
    """
    rewards, rows = _inputs(config, rewards, rows)
    folder = config.inspection_folder
    samples = load_samples(folder)
    header = load_header(folder)
    if header["sampling"].get("source") == "model":
        planned = planned_header(config, rows)
        if any(not same(header.get(k), planned[k]) for k in COMPARED):
            fix = "run again: inspect_rewards.py run CONFIG (the old samples are kept beside the new ones)"
            raise UserError("samples", Problem("samples.jsonl", f"{_what_differs(header, planned)} since the samples were drawn", fix))
    scores = load_scores(folder, config, rewards, samples)
    signal = signal_of_step(signal_of(samples, scores, config.num_generations), step_of(header))
    judgements = load_judgements(folder)
    read = merge_labels([row for row in judgements if row["label"] in LABELS], samples, scores, config.inspection.reviewers)
    labels = {sample_id: entry["label"] for sample_id, entry in read["by_sample"].items()}
    accept = config.inspection.accept
    findings = with_waivers(run_probes(rewards, samples, scores, config.inspection.pass_threshold, labels), accept)
    by_id = {row["sample_id"]: row for row in scores}
    said, judged = list(labels.values()), [by_id[i]["verdict"] for i in labels]
    agreement = measure_agreement(said, judged)
    agreement["weighted"] = weigh_agreement(list(labels), said, judged, [row["verdict"] for row in scores], load_weights(folder))
    people = summarise_readers(judgements, {i: row["verdict"] for i, row in by_id.items()}, config.inspection.reviewers)
    disagreements = [{"sample_id": i, "label": labels[i], **_score(by_id[i])} for i in labels if disagrees(labels[i], by_id[i]["verdict"])]
    reasons = _reasons(config, samples, scores, read, agreement, disagreements, findings, signal)
    if people["undone"]:
        reasons.append(f"{len(people['undone'])} labels were undone and not given again: judge these samples, or withdraw the label with a note")
    recorded = is_recorded(header)
    strangers = unknown_prompts(samples, rows) if recorded else 0
    if recorded and (changed := what_changed(header, config, rows)):
        reasons.insert(0, f"the completions were recorded for other inputs: {'; '.join(changed)}: run again with --completions FILE")
    if strangers == len(samples):
        reasons.insert(0, f"none of the {strangers} recorded completions answers a prompt of the training data")
    gate = {
        "open": not reasons,
        "reasons": reasons,
        "warnings": [
            *_warnings(strangers, findings),
            *origin_warnings(header, samples),
            *_second_thoughts(people),
            *waiver_warnings(findings, accept),
        ],
        "accepted": accepted(findings),
        "reviewer_kind": "+".join(sorted(read["kinds"])) or None,
        "reviewers": sorted(read["reviewers"]),
        "counts": {
            "samples": len(samples),
            "read": len(labels),
            **{word: sum(label == word for label in labels.values()) for word in ("pass", "fail", "unsure")},
            "needed": config.inspection.min_read,
            "disagreements": len(disagreements),
            "revised": read["revised"],
            "withdrawn": len(people["withdrawn"]),
            "undone": len(people["undone"]),
            "not_counted": dict(read["not_counted"]),
            "of_other_samples": read["elsewhere"],
        },
        **people,
        "agreement": agreement,
        "disagreements": [d["sample_id"] for d in disagreements],
        "worst": _worst(disagreements, {s["sample_id"]: s for s in samples}),
        "signal": signal["verdict"],
        "signal_reason": signal["reason"],
        "probes": [{k: f[k] for k in ("probe", "severity", "message", "mutants", "unpunished", "example", "accepted") if k in f} for f in findings],
        "fingerprint": fingerprint(config, rewards, rows),
        "sampling": header["sampling"],
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"grpo_rlvr": __version__, "python": platform.python_version()},
    }
    gate = sealed(gate, folder, config.gate_path)
    write_json(config.gate_path, "gate", 1, gate)
    return {"schema": SCHEMA, **gate}


def check_gate(config: Config, rewards: Sequence | None = None, rows: Sequence[dict] | None = None, compare_data: bool = True) -> dict:
    """The gate for training: the gate file's content if it is open and about today's rewards, data and model.

    Args:
        compare_data: False where it is not known which rows `data.max_prompt_tokens` leaves out; a warning says so.

    Returns:
        The gate; to its `warnings` are added the sampling settings of the training that are not those of the inspection.

    Raises:
        CheckFailed: there is no gate, it is shut, or something it rests on has changed; names it and what to run next.
        UserError: the gate file cannot be read.
    """
    rewards, rows = _inputs(config, rewards, rows)
    gate = _load(config)
    if gate["open"] is not True:
        reasons = gate["reasons"] or ["no reason given"]
        fix = _what_to_do(reasons).replace("CONFIG", shlex.quote(str(config.path)))
        raise CheckFailed("gate", [Problem("gate", f"the gate is shut: {r}", "" if i < len(reasons) - 1 else fix) for i, r in enumerate(reasons)])
    now = fingerprint(config, rewards, rows)
    changed = differences(gate["fingerprint"], now if compare_data else {**now, "data": gate["fingerprint"].get("data")})
    if changed:
        fix = "run: inspect_rewards.py run CONFIG, then gate CONFIG (labels stay good for samples that are the same)"
        raise CheckFailed("gate", Problem("gate", f"the gate was decided on other inputs: {'; '.join(changed)}", fix))
    if lost := lost_waivers(gate, config.inspection.accept):
        fix = "accept it again under inspection.accept, or mend the reward and run: inspect_rewards.py run CONFIG, then gate CONFIG"
        raise CheckFailed(
            "gate", Problem("gate", f"the gate is open on an accepted finding that the config no longer accepts: {', '.join(lost)}", fix)
        )
    kinds, count = str(gate.get("reviewer_kind") or "").split("+"), gate["counts"]["read"]
    if not set(kinds) <= set(config.inspection.reviewers):
        allowed = ", ".join(config.inspection.reviewers)
        raise CheckFailed("gate", Problem("gate", f"samples were read by {', '.join(kinds)}; inspection.reviewers allows {allowed}", REVIEW))
    if count < config.inspection.min_read:
        raise CheckFailed("gate", Problem("gate", f"{count} samples were read; inspection.min_read is {config.inspection.min_read}", REVIEW))
    if broken := broken_seal(gate, config.gate_path, config.inspection_folder, config.inspection.reviewers):
        raise CheckFailed("gate", Problem(str(config.gate_path), *broken))
    drawn, today = gate.get("sampling") or {}, config.sampling
    warnings = list(gate.get("warnings") or [])
    if not compare_data:
        warnings.append("the training data was not compared with the gate's: which rows data.max_prompt_tokens leaves out is not known here")
    if drawn.get("source") == "model":
        warnings += [
            f"{k} is {today[k]!r} in training and was {drawn[k]!r} in the inspection" for k in today if k in drawn and not same(today[k], drawn[k])
        ]
    return {**gate, "warnings": warnings}


def merge_labels(labels: Sequence[dict], samples: Sequence[dict], scores: Sequence[dict], allowed: Sequence[str]) -> dict:
    """One label a text (prompt and completion) from the allowed kinds of reviewers: the same text read twice has been read once.

    Where several read the same, a label that contradicts the verdict wins, then pass and fail before unsure: nobody's objection
    is outvoted.
    """
    verdicts = {row["sample_id"]: row["verdict"] for row in scores}
    texts = {s["sample_id"]: content(s) for s in samples}
    by_text: dict[str, dict] = {}
    not_counted: Counter[str] = Counter()
    used: list[dict] = []
    elsewhere = 0
    for label in labels:
        sample_id = label["sample_id"]
        if sample_id not in verdicts:
            elsewhere += 1
        elif label["reviewer_kind"] not in allowed:
            not_counted[label["reviewer_kind"]] += 1
        else:
            used.append(label)
            best = by_text.get(texts[sample_id])
            if best is None or _rank(label, verdicts[sample_id]) > _rank(best, verdicts[best["sample_id"]]):
                by_text[texts[sample_id]] = label
    chosen = {label["sample_id"]: label for label in by_text.values()}
    return {
        "by_sample": {s["sample_id"]: chosen[s["sample_id"]] for s in samples if s["sample_id"] in chosen},
        "not_counted": not_counted,
        "elsewhere": elsewhere,
        "kinds": {label["reviewer_kind"] for label in used},
        "reviewers": {label["reviewer"] for label in used},
        "against": sorted({label["reviewer"] for label in used if disagrees(label["label"], verdicts[label["sample_id"]])}),
        "revised": sum(label["revised"] for label in used),
    }


def _reasons(
    config: Config, samples: Sequence[dict], scores: Sequence[dict], read: dict, agreement: dict, disagreements: list, findings: list, signal: dict
) -> list[str]:
    """Why the gate stays shut; empty opens it."""
    needed, count, reasons = config.inspection.min_read, len(read["by_sample"]), []
    if count < needed:
        kinds = " or ".join("a person" if kind == "human" else f"an {kind}" for kind in config.inspection.reviewers)
        others = "".join(f"; {n} by {kind} do not count" for kind, n in sorted(read["not_counted"].items()))
        distinct = count_distinct(samples)
        few = "" if distinct >= needed else f"; there are only {distinct} different ones: raise inspection.prompts"
        reasons.append(f"{count} of {needed} samples have been read by {kinds}{others}{few}")
    for word, verdict in (("passes", True), ("fails", False)) if count >= needed else ():
        # Whether the reward pays wrong answers shows only in completions that it pays, and the other way round.
        there = count_distinct([s for s, row in zip(samples, scores, strict=True) if row["verdict"] is verdict])
        seen = sum(agreement["table"][label]["pass" if verdict else "fail"] for label in agreement["table"])
        least = min(needed // EACH, there)
        if seen < least:
            reasons.append(f"{seen} of the {there} completions that the reward {word} have been read; {least} are the least")
    if count and agreement["unsure_share"] > 0.5:
        reasons.append(f"{agreement['unsure_share']:.0%} of the labels are 'unsure'; more than half must say pass or fail")
    if disagreements:
        paid = sum(d["label"] == "fail" for d in disagreements)
        reasons.append(
            f"reader and reward disagree on {len(disagreements)} samples ({paid} wrong ones paid, "
            f"{len(disagreements) - paid} right ones not): mend the reward, or the label (review CONFIG shows each of these readers theirs: "
            f"{', '.join(read['against'])})"
        )
    reasons += [f"probe {f['probe']}: {f['message']}" for f in open_errors(findings)]
    if signal["verdict"] != "go":
        reasons.append(f"signal {signal['verdict']}: {signal['reason']}; {signal['next_step']}")
    return reasons


def _warnings(strangers: int, findings: Sequence[Mapping]) -> list[str]:
    """What does not shut the gate and must not go unsaid."""
    said = [f"probe {f['probe']}: {f['message']}" for f in findings if f["severity"] == "warning" and not f.get("accepted")]
    if strangers:
        said.append(f"{strangers} recorded completions answer prompts that the training data does not have")
    return said


def _second_thoughts(people: Mapping) -> list[str]:
    """Labels that went against the reward and no longer do: the agreement of those that are left says less."""
    first, said = people["first_labels"], []
    if first["changed"]:
        said.append(f"{first['changed']} labels contradicted the reward when they were first given and were changed after the score was seen")
    if first["withdrawn"]:
        said.append(f"{first['withdrawn']} labels contradicted the reward when they were first given and were withdrawn")
    return said + [f"withdrawn by {w['reviewer']}, sample {w['sample_id']}: {w['note'][:300]}" for w in people["withdrawn"]]


def _what_to_do(reasons: Sequence[str]) -> str:
    text = " ".join(reasons)
    if any(words in text for words in ("probe ", "disagree")):
        accept = ", or accept the probe's finding with a reason (inspection.accept)" if "probe " in text else ""
        return f"mend the reward (or the label){accept}, then run: inspect_rewards.py run CONFIG (it only scores anew), and gate CONFIG"
    if "signal " in text:
        return "do what the signal says, then: inspect_rewards.py run CONFIG"
    return REVIEW + ", then gate CONFIG"


def _load(config: Config) -> dict:
    path = config.gate_path
    if not path.is_file():
        raise CheckFailed("gate", Problem(str(path), "there is no gate: nobody has inspected the rewards yet", DECIDE))
    try:
        gate: Any = json.loads(path.read_text(encoding="utf-8"))
        fine = gate["schema"] == SCHEMA and isinstance(gate["open"], bool) and isinstance(gate["reasons"], list)
        fine = fine and is_fingerprint(gate["fingerprint"]) and type(gate["counts"]["read"]) is int and isinstance(gate["at"], str)
        fine = fine and isinstance(gate["reviewer_kind"], str | None) and isinstance(gate["reviewers"], list)
        fine = fine and isinstance(gate["warnings"], list) and isinstance(gate["sampling"], dict) and is_sealed(gate)
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as exc:
        raise UserError("gate", Problem(str(path), f"the gate file cannot be read: {str(exc)[:100]}", "run: inspect_rewards.py gate CONFIG")) from exc
    if not fine:
        raise UserError("gate", Problem(str(path), "this is not a gate file of this version", "run: inspect_rewards.py gate CONFIG"))
    return gate


def _inputs(config: Config, rewards: Sequence | None, rows: Sequence[dict] | None) -> tuple[Sequence, Sequence[dict]]:
    from grpo_rlvr.data import load_rows
    from grpo_rlvr.rewards.registry import build_rewards

    return (build_rewards(config) if rewards is None else rewards), (load_rows(config, "train") if rows is None else rows)


def _what_differs(old: Mapping, new: Mapping) -> str:
    said = [
        f"{k} changed ({old['sampling'].get(k)!r} -> {new['sampling'].get(k)!r})"
        for k in new["sampling"]
        if not same(old["sampling"].get(k), new["sampling"].get(k))
    ]
    before, after = old.get("fingerprint") or {}, new["fingerprint"]
    said += differences({"model": before.get("model")}, {"model": after["model"]})
    return "; ".join(said) or "the prompts changed"


def _rank(label: Mapping, verdict: bool | None) -> int:
    return 2 if disagrees(label["label"], verdict) else int(label["label"] != "unsure")


def _score(row: Mapping) -> dict:
    return {"verdict": row["verdict"], "total": row["total"], "scores": row["scores"]}


def _worst(disagreements: list[dict], samples: Mapping[str, dict]) -> dict | None:
    """A wrong completion that is paid before a right one that is not; among equals the one the reward errs most on."""
    if not disagreements:
        return None
    worst = min(disagreements, key=lambda d: (d["label"] != "fail", -d["total"] if d["label"] == "fail" else d["total"], d["sample_id"]))
    return {**worst, **{k: samples[worst["sample_id"]][k] for k in ("prompt", "completion", "columns")}}
