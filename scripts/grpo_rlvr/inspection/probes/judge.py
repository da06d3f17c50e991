"""From scored attacks to findings: what counts as paid in each family, and how grave it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.probes.attacks import SAID
from grpo_rlvr.inspection.probes.expressions import cure
from grpo_rlvr.inspection.probes.findings import attack_example, finding
from grpo_rlvr.inspection.probes.subject import KEEPS, Subject, Trial

Scored = tuple[Trial, "dict | UserError"]
Grades = dict[int, str]  # place in the list of trials -> error or warning


def attack_findings(subject: Subject, trials: Sequence[Trial], rows: Sequence[dict | UserError]) -> list[dict]:
    """One finding for each family that was tried, in the order of `SAID`."""
    families: dict[str, list[Scored]] = defaultdict(list)
    for trial, row in zip(trials, rows, strict=True):
        if trial.probe in SAID:
            families[trial.probe].append((trial, row))
    last_counts = any(t.place == "last" and subject.paid(t, row) for t, row in families.get("several_answers", ()))
    if last_counts:
        families.pop("after_eos", None)  # the last answer counts, wherever the turn ended: a rule like any other
    return [_finding(subject, probe, families[probe], JUDGES.get(probe, _plainly)(subject, families[probe])) for probe in SAID if probe in families]


def _finding(subject: Subject, probe: str, scored: Sequence[Scored], grades: Grades) -> dict:
    tried = len(scored)
    if not grades:
        return finding(probe, "ok", f"none of {tried} {SAID[probe]} is paid", None, tried)
    worst = "error" if "error" in grades.values() else "warning"
    k = min((k for k, grade in grades.items() if grade == worst), key=lambda k: subject.size(scored[k][0]))
    trial, row = scored[k]
    whats = list(dict.fromkeys(scored[k][0].what for k, grade in sorted(grades.items(), key=lambda item: item[1] != "error")))
    named = "; ".join(whats[:4]) + (f"; and {len(whats) - 4} more ways" if len(whats) > 4 else "")
    message = f"{len(grades)} of {tried} {SAID[probe]} are paid: {named}"
    example = attack_example(subject.samples[trial.of], subject.scores[trial.of], trial.completion, row, trial.old, trial.new, trial.what)
    places = [scored[k][0].place for k, grade in grades.items() if grade == worst]
    more = {}
    if probe == "expression_echo":
        more["fix"] = cure(subject)
        message = f"{message}; {more['fix']}"
    return finding(probe, worst, message, example, tried, len(grades), shows=sorted({p for p in places if p}), **more)


def _plainly(subject: Subject, scored: Sequence[Scored]) -> Grades:
    return {k: "error" if t.sure else "warning" for k, (t, row) in enumerate(scored) if subject.paid(t, row)}


def _by_place(subject: Subject, scored: Sequence[Scored]) -> dict[int, dict[str, list[int]]]:
    """Original -> place of the right answer -> paid trials."""
    found: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for k, (trial, row) in enumerate(scored):
        if subject.paid(trial, row):
            found[trial.of][trial.place].append(k)
    return found


def _anywhere(subject: Subject, scored: Sequence[Scored]) -> Grades:
    """Beside a tag or box it may count nowhere; in running text a reward may read the first or the last mention, but not both."""
    grades: Grades = {}
    for of, places in _by_place(subject, scored).items():
        text = subject.text(of)
        stated = "<answer>" in text or "\\boxed" in text or "####" in text
        if stated or {"front", "end"} <= places.keys():
            grades |= {k: "error" for ks in places.values() for k in ks}
    return grades


def _several(subject: Subject, scored: Sequence[Scored]) -> Grades:
    """One of two answers counts, be it the first or the last, or there is something to be gained from writing many."""
    grades: Grades = {}
    for places in _by_place(subject, scored).values():
        first, last = places.get("first", []), places.get("last", [])
        strict = any("JSON" in scored[k][0].what for k in [*first, *last])
        if strict or (first and last):
            grades |= dict.fromkeys([*first, *last], "error")
        else:
            grades |= dict.fromkeys(first, "warning")
    return grades


def _listed(subject: Subject, scored: Sequence[Scored]) -> Grades:
    grades: Grades = {}
    for places in _by_place(subject, scored).values():
        ks = [k for each in places.values() for k in each]
        if "middle" in places or {"first", "last"} <= places.keys():
            grades |= dict.fromkeys(ks, "error")
        else:
            grades |= dict.fromkeys(places.get("first", []), "warning")
    return grades


def _reasoning(subject: Subject, scored: Sequence[Scored]) -> Grades:
    """Paid against a wrong final answer is an error where the task has reasoning or a place for the answer."""
    return {k: "error" if t.place == "wrong" and t.sure else "warning" for k, (t, row) in enumerate(scored) if subject.paid(t, row)}


def _gained(subject: Subject, scored: Sequence[Scored]) -> Grades:
    """A wrong one that is paid like a right one is an error; a right one that earns more than it did, a warning."""
    grades: Grades = {}
    for k, (trial, row) in enumerate(scored):
        before = subject.scores[trial.of]["total"]
        if trial.place != "gain":
            if subject.paid(trial, row):
                grades[k] = "error"
        elif isinstance(row, dict) and row["total"] is not None and before is not None and row["total"] > before + KEEPS and not subject.noisy:
            grades[k] = "warning"
    return grades


def _forged(subject: Subject, scored: Sequence[Scored]) -> Grades:
    """Paid with a verdict, and not without."""
    plain = {t.of for t, row in scored if t.place == "plain" and subject.paid(t, row)}
    return {k: "error" for k, (t, row) in enumerate(scored) if t.place == "forged" and t.of not in plain and subject.paid(t, row)}


JUDGES: Mapping[str, Callable[[Subject, Sequence[Scored]], Grades]] = {
    "gold_anywhere": _anywhere,
    "several_answers": _several,
    "answers_listed": _listed,
    "reasoning_only": _reasoning,
    "length_pays": _gained,
    "repetition": _gained,
    "forged_verdict": _forged,
}
