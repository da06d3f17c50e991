"""Controls over the batch: what rewards pay where nothing is right. Numbers, since agreement in honest samples proves nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from grpo_rlvr.completions import completion_text
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.agreement import correlation
from grpo_rlvr.inspection.equality import clearly_differs, differs, may_name_the_same
from grpo_rlvr.inspection.jsonl import canonical
from grpo_rlvr.inspection.probes.findings import attack_example, finding
from grpo_rlvr.inspection.probes.golds import answers_of, says_nothing
from grpo_rlvr.inspection.probes.subject import Subject, Trial, spread
from grpo_rlvr.inspection.probes.unread import differ_in_unread, way_out

MOST, STEPS = 200, 25  # completions of a control; rows looked at for one with another gold
NEAR, SOME = 0.50, 0.10  # shares paid: an error, a warning
LENGTH_R, LENGTH_PAIRS, LENGTH_GAIN = 0.6, 20, 0.05
SAID = {
    "shuffled_golds": "scored against the gold of another row",
    "other_prompts": "put under another prompt",
    "constant_completion": "replaced by the one that earns most",
}


def control_trials(subject: Subject) -> list[Trial]:
    """Accepted completions against the golds of other rows, and the best completion of all under other prompts."""
    trials = []
    chosen = spread(subject.distinct, MOST)
    best = max(chosen, key=lambda i: (subject.scores[i]["total"] or 0.0, -len(subject.text(i))), default=None)
    for place, i in enumerate(chosen):
        j = _other_row(subject, i, place)
        if j is not None:
            columns = subject.samples[j]["columns"]
            trials.append(Trial(i, subject.samples[i]["completion"], "shuffled_golds", "against another row's gold", columns=columns))
        if subject.kind == "none" and (k := _other_prompt(subject, i, place)) is not None:
            trials.append(Trial(k, subject.samples[i]["completion"], "other_prompts", "under another prompt"))
        if best is not None and i != best and _constant_is_wrong(subject, best, i):
            trials.append(Trial(i, subject.samples[best]["completion"], "constant_completion", "the completion that earns most"))
    return trials


def control_findings(subject: Subject, trials: Sequence[Trial], rows: Sequence[dict | UserError]) -> list[dict]:
    """A finding for each control that was tried, with the shares paid and the mean totals of honest completions and of the control."""
    found = []
    for probe in SAID:
        pairs = [(t, row) for t, row in zip(trials, rows, strict=True) if t.probe == probe]
        if pairs:
            found.append(_control(subject, probe, pairs))
    return [*found, length_only(subject)]


def length_only(subject: Subject) -> dict:
    """Whether totals follow the length among completions that are equally right (by the readers' labels, else the reward's verdict)."""
    labels = subject.labels
    right = {s["sample_id"]: labels[s["sample_id"]] == "pass" for s in subject.samples if labels.get(s["sample_id"]) in ("pass", "fail")}
    judged_by = "readers" if right else "reward"
    groups: dict[bool, list[tuple[int, float]]] = {True: [], False: []}
    for i, row in enumerate(subject.scores):
        verdict = right.get(row["sample_id"]) if right else row["verdict"]
        if verdict is not None and row["total"] is not None:
            groups[verdict].append((len(subject.text(i)), row["total"]))
    said, words, numbers = [], [], {}
    for verdict, pairs in groups.items():
        word = "right" if verdict else "wrong"
        r = correlation([float(n) for n, _ in pairs], [t for _, t in pairs]) if len(pairs) >= LENGTH_PAIRS else None
        numbers[word] = r
        words.append(f"{word} {f'{r:.2f}' if r is not None else 'all alike' if len(pairs) >= LENGTH_PAIRS else f'too few ({len(pairs)})'}")
        gain = max((t for _, t in pairs), default=0.0) - min((t for _, t in pairs), default=0.0)
        if r is not None and r > LENGTH_R and gain > LENGTH_GAIN:
            said.append(f"among {len(pairs)} {word} completions the total grows with the length (r = {r:.2f}, from end to end {gain:.2g})")
    more = {"r": numbers, "judged_by": judged_by}
    if said:
        return finding("length_only", "warning", f"{'; '.join(said)}: long completions will be learned", **more)
    return finding("length_only", "ok", f"correlation of total and length among equally right completions: {', '.join(words)}", **more)


def _control(subject: Subject, probe: str, pairs: Sequence[tuple[Trial, dict | UserError]]) -> dict:
    rows = [row for _, row in pairs if isinstance(row, dict)]
    paid = [(t, row) for t, row in pairs if isinstance(row, dict) and row["verdict"] is True]
    share = len(paid) / len(rows) if rows else 0.0
    honest, control = _mean([subject.scores[t.of] for t, _ in pairs]), _mean(rows)
    # A schema, or a judge without gold, may rightly take what another prompt got.
    unread = probe == "constant_completion" and bool(subject.unread)
    sure = subject.kind not in ("none", "schema") or unread
    severity = "ok" if share < SOME else "error" if share >= NEAR and sure else "warning"
    numbers = f"mean total {_number(honest)} honest, {_number(control)} so; {len(paid)} of {len(rows)} pass"
    example = None
    if severity != "ok":
        trial, row = min(paid, key=lambda pair: subject.size(pair[0]))
        sample = subject.samples[trial.of] if trial.columns is None else {**subject.samples[trial.of], "columns": trial.columns}
        example = attack_example(sample, subject.scores[trial.of], trial.completion, row, "", "", trial.what)
    message = f"{len(rows)} accepted completions {SAID[probe]}: {numbers}"
    if unread and severity != "ok":
        message += f": the form is paid, whatever the values are; {way_out(subject)}"
    shows = ["unread"] if unread else []
    return finding(probe, severity, message, example, len(rows), len(paid), honest=honest, control=control, shows=shows)


def _other_row(subject: Subject, i: int, turn: int) -> int | None:
    """A row whose gold certainly is another one; rows are tried from a different place each time."""
    count = len(subject.samples)
    for step in range(1, STEPS):
        j = (i + step * (1 + turn % 7) + turn) % count
        if subject.samples[j]["prompt_index"] != subject.samples[i]["prompt_index"] and _another(subject, i, j):
            return j
    return None


def _another(subject: Subject, i: int, j: int) -> bool:
    """Whether what is right for row i is certainly wrong for row j."""
    one, other = subject.samples[i]["columns"], subject.samples[j]["columns"]
    if says_nothing(one, subject.names) or says_nothing(other, subject.names) or not subject.names:
        return False
    if subject.kind in ("code", "calls", "schema"):
        return all(canonical(one.get(name)) != canonical(other.get(name)) for name in subject.names)
    mine, theirs = answers_of(one, subject.names), answers_of(other, subject.names)
    if not mine or not theirs:
        return False
    words = any(may_name_the_same(a, b) for a in mine for b in theirs)
    stated = completion_text(subject.samples[i]["completion"]) if len(theirs[0]) > 40 else ""
    return not words and all(differs(b, mine) and clearly_differs(b, mine) for b in theirs) and (not stated or differs(stated, theirs))


def _constant_is_wrong(subject: Subject, best: int, i: int) -> bool:
    """Whether the completion of row `best` is certainly, or may well be, wrong for row i; not where a gold that nobody reads is the same."""
    if subject.unread:
        return differ_in_unread(subject, best, i)
    return _another(subject, best, i) or _same_schema_other_prompt(subject, best, i)


def _same_schema_other_prompt(subject: Subject, i: int, j: int) -> bool:
    """Where one schema stands for all rows, whatever fits it may be paid for every prompt: that is worth a word."""
    return subject.kind == "schema" and canonical(subject.samples[i]["prompt"]) != canonical(subject.samples[j]["prompt"])


def _other_prompt(subject: Subject, i: int, turn: int) -> int | None:
    count = len(subject.samples)
    for step in range(1, STEPS):
        j = (i + step + turn) % count
        if canonical(subject.samples[j]["prompt"]) != canonical(subject.samples[i]["prompt"]):
            return j
    return None


def _mean(rows: Sequence[Mapping]) -> float | None:
    found = [row["total"] for row in rows if row["total"] is not None]
    return statistics.fmean(found) if found else None


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
