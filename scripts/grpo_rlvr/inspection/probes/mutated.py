"""Accepted completions with only the answer made wrong: what is still paid is not being right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.completions import completion_text
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.agreement import correlation
from grpo_rlvr.inspection.equality import plain
from grpo_rlvr.inspection.mutate import Mutant, invalid_json, mutants, replaced
from grpo_rlvr.inspection.probes.calls import call_mutants
from grpo_rlvr.inspection.probes.code import program_mutants
from grpo_rlvr.inspection.probes.fields import field_trials, paid_paths, tried_paths
from grpo_rlvr.inspection.probes.findings import attack_example, finding
from grpo_rlvr.inspection.probes.subject import Subject, Trial, spread
from grpo_rlvr.inspection.probes.unread import way_out

MOST = 200  # completions that are attacked; more cost time and show nothing new
UNSCORED = 0.20
IGNORED = 0.90  # so many wrong answers paid: the answer is not looked at
NAMES_LEAST = 4  # rows with a paid other name, from which on it is no matter of names


def mutated_trials(subject: Subject) -> list[Trial]:
    """Wrong versions of up to `MOST` accepted completions, and of JSON each field made wrong."""
    whole = [
        Trial(i, m.completion, "mutated_answer", "the answer was made wrong", m.old, m.new, not m.near, m.part, near=m.near, name=m.name)
        for i in spread(subject.distinct, MOST)
        for m in wrong_versions(subject, i)
    ]
    return [*whole, *field_trials(subject)]


def wrong_versions(subject: Subject, i: int) -> list[Mutant]:
    """Sample i with another answer; by the kind of task where an answer is no text to be replaced."""
    completion, columns = subject.samples[i]["completion"], subject.samples[i]["columns"]
    if subject.kind == "schema":
        old = completion_text(completion)
        return [Mutant(replaced(completion, new), old, new) for new in invalid_json(columns.get("output_schema"))]
    if subject.kind == "code":
        return program_mutants(completion)
    if subject.kind == "calls":
        return call_mutants(completion)
    return mutants(completion, subject.golds(i), subject.others, subject.answers(i))


def mutated_answer(subject: Subject, trials: Sequence[Trial], rows: Sequence[dict | UserError]) -> dict:
    """The finding: error if an answer that is surely wrong is paid, or none could be scored; `shows` says what kind of fault it is.

    Besides the usual: `originals`, `unscored` (wrong answers without a total), `source` (who accepted the originals) and `correlation`.
    """
    result: dict[str, Any] = {
        **finding("mutated_answer", "ok", "", None, len(trials)),
        "originals": len({t.of for t in trials}),
        "unscored": 0,
        "source": subject.source,
        "correlation": _score_correlation(subject),
        "shows": [],
    }
    if not trials:
        why = (
            "no sample is accepted by the reward"
            if not subject.accepted
            else f"none of the {len(subject.accepted)} accepted samples has an answer that could be replaced"
        )
        return {**result, "severity": "warning", "message": f"{why}: whether the reward punishes wrong answers is unknown"}
    pairs = list(zip(trials, rows, strict=True))
    raised = sum(isinstance(row, UserError) for row in rows)
    unpunished = [k for k, (trial, row) in enumerate(pairs) if subject.paid(trial, row)]
    names = _surely_wrong_names(pairs, unpunished) | _surely_wrong_fields(trials, unpunished)
    far = [k for k in unpunished if trials[k].sure and (not trials[k].name or k in names)]
    result["unpunished"] = len(unpunished)
    unscored = [k for k, row in enumerate(rows) if isinstance(row, dict) and row["total"] is None]
    result["unscored"] = len(unscored)
    result["severity"], result["message"] = _judge(result, len(far), len(trials) - raised, len(subject.distinct), _tried(subject, trials))
    if paths := paid_paths([trials[k] for k in far or unpunished]):
        result["message"] += f"; paid though {'wrong' if far else 'changed'}: {paths}"
        result["message"] += f"; {way_out(subject)}" if far and subject.unread else ""
    if proof := far or unpunished or (unscored if result["severity"] != "ok" else []):
        k = min(proof, key=lambda k: subject.size(trials[k]))
        trial = trials[k]
        if unpunished and not far:
            why = "two names of one thing?" if trial.name else "a tolerance?"
            result["message"] = result["message"] if trial.path else f"pays {trial.new!r} for {trial.old!r}: {why} {result['message']}"
        said = f"{trial.path}: {trial.what}" if trial.path else ""
        sample, score = subject.samples[trial.of], subject.scores[trial.of]
        result["example"] = attack_example(sample, score, trial.completion, rows[k], trial.old, trial.new, said)
    result["shows"] = _shows([trials[k] for k in far], len(unpunished) >= IGNORED * max(1, len(trials) - raised))
    return result


def _judge(result: Mapping, far: int, scored: int, distinct: int, what: str) -> tuple[str, str]:
    """Severity and message; `scored` wrong answers did not make the reward raise."""
    count, unpunished, unscored, chosen = (result[k] for k in ("mutants", "unpunished", "unscored", "originals"))
    tried = min(distinct, MOST)
    capped = f" ({tried} of {distinct} accepted completions were attacked, evenly spread)" if tried < distinct else ""
    if far:
        return (
            "error",
            f"{unpunished} of {count} completions keep their reward after the answer was made wrong: being right is not what is paid{capped}",
        )
    if not scored:
        return "warning", f"the reward raised on all {count} wrong answers: whether it punishes them is unknown{capped}"
    if unscored == scored:
        return (
            "error",
            f"none of {count} wrong answers could be scored (None is not a punishment): whether the reward punishes them is unknown{capped}",
        )
    if unpunished:
        return "warning", f"{unpunished} of {count} wrong answers keep their reward, none of them surely wrong{capped}"
    if unscored > UNSCORED * scored:
        return "warning", f"{unscored} of {count} wrong answers could not be scored: None is no punishment, a wrong answer is 0{capped}"
    rest = f", {unscored} could not be scored" if unscored else ""
    return "ok", f"{scored - unscored} wrong answers put into {chosen} accepted completions lose reward{rest}; tried: {what}{capped}"


def _tried(subject: Subject, trials: Sequence[Trial]) -> str:
    """What the wrong answers were, so that nobody takes them for all there are."""
    kinds = {"schema": "JSON that breaks the row's schema", "code": "broken programs", "calls": "other calls"}
    words = [kinds.get(subject.kind, "other answers")] if any(not t.path for t in trials) else []
    words += [paths] if (paths := tried_paths(trials)) else []
    if subject.kind == "schema" and not paths:
        words.append("no values that are wrong and fit it, since no column says which are right")
    return "; ".join(words)


def _surely_wrong_fields(trials: Sequence[Trial], unpunished: Sequence[int]) -> set[int]:
    """Paid words of other rows at one path of the JSON: one may be another name of the same thing, several are not."""
    paid: dict[str, dict[tuple[str, str], list[int]]] = defaultdict(lambda: defaultdict(list))
    for k in unpunished:
        if trials[k].name and trials[k].path:
            paid[trials[k].path][trials[k].old, trials[k].new].append(k)
    return {k for pairs in paid.values() if len(pairs) > 1 for ks in pairs.values() for k in ks}


def _surely_wrong_names(pairs: Sequence[tuple[Trial, Any]], unpunished: Sequence[int]) -> set[int]:
    """Paid answers of other rows that are wrong beyond doubt.

    One of the other rows' answers that is paid may be a second name of the same thing. All of several are not, nor are those of most rows.
    """
    paid = set(unpunished)
    tried: dict[str, dict[str, bool]] = defaultdict(dict)
    for k, (trial, _) in enumerate(pairs):
        if trial.name and not trial.path:
            tried[plain(trial.old)][plain(trial.new)] = k in paid
    wrong = {old for old, news in tried.items() if len(news) > 1 and all(news.values())}
    some = [old for old, news in tried.items() if any(news.values())]
    if len(some) >= NAMES_LEAST and len(some) > len(tried) / 2:
        wrong |= set(some)
    return {k for k in unpunished if pairs[k][0].name and not pairs[k][0].path and plain(pairs[k][0].old) in wrong}


def _shows(far: Sequence[Trial], ignored: bool) -> list[str]:
    """What kind of fault the paid answers show; other probes that prove the same are not repeated."""
    if not far:
        return []
    found = ["ignored"] if ignored else []
    far = [t for t in far if not t.path]
    if not far:
        return found
    if any(not t.new.strip() for t in far):
        found.append("blank")
    if any(t.new != t.old and f", {t.old}, " in t.new for t in far):
        found.append("listed")
    if all(t.old.strip() and t.old in t.new for t in far):
        found.append("contained")
    return found


def _score_correlation(subject: Subject) -> dict:
    """Total against the readers' labels, or against the reward's own verdict where nobody has read."""
    labels = subject.labels
    read = {s["sample_id"]: labels[s["sample_id"]] == "pass" for s in subject.samples if labels.get(s["sample_id"]) in ("pass", "fail")}
    pairs = [
        (row["total"], read[row["sample_id"]] if read else row["verdict"])
        for row in subject.scores
        if row["total"] is not None and row["verdict"] is not None and (not read or row["sample_id"] in read)
    ]
    r = correlation([t for t, _ in pairs], [float(v) for _, v in pairs])
    against = "labels" if read else "verdicts"
    return {"against": against, "r": r, "pairs": len(pairs), "note": "agreement in honest samples proves nothing about dishonest ones"}
