"""Before any sampling: does each verifier accept its own gold, honestly written, and refuse what only looks like it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grpo_rlvr.data_files import row_number
from grpo_rlvr.errors import UserError
from grpo_rlvr.rewards.few_tests import few_tests
from grpo_rlvr.rewards.gold_forms import LIMIT, forms_of, golds_of, in_common_forms, names_forms, spread
from grpo_rlvr.rewards.registry import BuiltReward
from grpo_rlvr.rewards.scoring import score_all
from grpo_rlvr.rewards.unnamed import unnamed

SHOWN = 10
THINKING = "<reasoning>Let us work it out step by step and check the result.</reasoning>\n"
ROW_ID = "row_id"
# Where in the row's neighbourhood another gold is looked for.
NEIGHBOURS = 20


@dataclass(frozen=True)
class _Try:
    """One text to score for a row: an honest form, or a decoy of the named kind."""

    row: int
    kind: str
    text: str


@dataclass(frozen=True)
class _Outcome:
    """An honest form of a row, tried behind reasoning with its `score` there; `bare_only`: accepted, but not behind reasoning."""

    row: int
    tried: _Try
    score: float | None
    accepted: bool
    bare_only: bool


def check_dataset(rewards: Sequence[BuiltReward], rows: Sequence[dict], limit: int = LIMIT, threshold: float = 0.5) -> list[dict[str, Any]]:
    """What is wrong between the correctness rewards and the golds.

    Each row's gold is written in the honest forms that its reward names, behind some reasoning, and where that is refused bare,
    and must score at least `threshold`; what is accepted only bare is noted. Decoys must score less: nothing at all, the right
    answer in the reasoning only, another row's answer, and the right answer with another one after it. The last two are tried
    where the reward can say that the golds differ.

    A user's function that is `required` and has no `honest_forms` is tried with the gold in a tag, in a box and bare, on a
    few rows; what it refuses is only a note, since its format is unknown.

    A reward may also have `honest_forms_of_row(row, gold)`, where other columns of the row hold a right answer (a reference solution),
    `decoys(gold)`: (kind, text) pairs of its own that must not pass, `test_count(gold)` (rows of few tests are noted), and
    `words_needed(gold)`: names that the row's prompt has to say.

    Args:
        rewards: what `build_rewards` returned.
        limit: rows looked at; of more rows every n-th is taken, and a note says so.

    Returns:
        Findings (none if all is well), gravest first, each with `check` (own_gold, form, bare_only, decoy, few_tests, unnamed, skipped, sampled,
        user_gold), `severity` (error, warning, note), `reward`, `message`, `fix`, `rows` (their numbers in the source from 0, all of them) and
        `examples` (up to 3 of `row`, `kind`, `text`, `score`).
    """
    findings: list[dict[str, Any]] = []
    for reward in rewards:
        function = reward.function
        if names_forms(function):
            findings += _check_reward(reward, function, rows, limit, threshold)
        else:
            findings += _check_user_function(reward, rows, limit, threshold)
    return [_numbered(f, rows) for f in sorted(findings, key=lambda f: ("error", "warning", "note").index(f["severity"]))]


def _check_reward(reward: BuiltReward, function: Any, rows: Sequence[dict], limit: int, threshold: float) -> list[dict[str, Any]]:
    numbers = spread(len(rows), limit)
    golds = golds_of(reward, rows, numbers)
    forms = {i: forms_of(function, rows[i], gold) for i, gold in golds.items()}
    able = [i for i in golds if forms[i]]
    others = _other_golds(able, golds, getattr(function, "clearly_different", lambda a, b: False))
    honest = _honest(reward, rows, [(i, form) for i in able for form in forms[i]], threshold)
    bare = {o.row for o in honest if o.bare_only}
    decoys = [decoy for i in able for decoy in _decoys(i, forms[i][0], forms[others[i]][0] if i in others else None)]
    own = getattr(function, "decoys", lambda gold: [])
    decoys += [_Try(i, kind, THINKING + text) for i, gold in golds.items() for kind, text in own(gold)]
    decoys = [replace(t, text=t.text.removeprefix(THINKING)) if t.row in bare else t for t in decoys]
    findings = _honest_findings(reward, honest)
    taken = [(t, s) for t, s in zip(decoys, _scores(reward, rows, decoys), strict=True) if _passes(s, threshold)]
    for kind in dict.fromkeys(t.kind for t, _ in taken):
        of_kind = [(t, s) for t, s in taken if t.kind == kind]
        findings.append(
            _finding("decoy", "error", reward, f"a wrong completion is accepted: {kind}", "mend the gold of these rows, or the reward", of_kind)
        )
    findings += [_finding("few_tests", "note", reward, message, fix, [], few) for message, fix, few in few_tests(function, rows, golds)]
    findings += [_finding("unnamed", severity, reward, message, fix, [], places) for severity, message, fix, places in unnamed(function, rows, golds)]
    without = [i for i in golds if not forms[i]]
    if without:
        message = f"no right answer can be written down from the gold of {len(without)} of {len(numbers)} rows; they were not tried"
        findings.append(_finding("skipped", "note", reward, message, "", [], without))
    if len(numbers) < len(rows):
        findings.append(_finding("sampled", "note", reward, f"{len(numbers)} of {len(rows)} rows were tried, evenly spread", "", []))
    return findings


def _honest(reward: BuiltReward, rows: Sequence[dict], forms: Sequence[tuple[int, str]], threshold: float) -> list[_Outcome]:
    """Each form (row, text) behind some reasoning, and those that are refused so bare: a reward may demand that nothing stands in front."""
    tries = [_Try(i, "honest", THINKING + form) for i, form in forms]
    scores = _scores(reward, rows, tries)
    again = [k for k, score in enumerate(scores) if not _passes(score, threshold)]
    bare = dict(zip(again, _scores(reward, rows, [_Try(forms[k][0], "honest", forms[k][1]) for k in again]), strict=True))
    return [
        _Outcome(i, tries[k], scores[k], k not in bare or _passes(bare[k], threshold), k in bare and _passes(bare[k], threshold))
        for k, (i, _) in enumerate(forms)
    ]


def _honest_findings(reward: BuiltReward, honest: Sequence[_Outcome]) -> list[dict[str, Any]]:
    good = {o.row for o in honest if o.accepted}
    never = [(o.tried, o.score) for o in honest if o.row not in good]
    some = [(o.tried, o.score) for o in honest if o.row in good and not o.accepted]
    findings = []
    if never:
        message = "its own gold is not accepted in any honest form, behind <reasoning> or bare: these rows can never be earned"
        findings.append(_finding("own_gold", "error", reward, message, "mend or remove these rows, or choose another reward", never))
    if some:
        message = "its own gold is accepted in one honest form and refused in another"
        findings.append(_finding("form", "warning", reward, message, "write the gold in plain form, or tell the model which form counts", some))
    return [*findings, *_bare_only(reward, honest)]


def _bare_only(reward: BuiltReward, honest: Sequence[_Outcome]) -> list[dict[str, Any]]:
    """A note where a right answer is refused once reasoning stands before it: right for a model that is to write nothing else."""
    only = [(o.tried, o.score) for o in honest if o.bare_only]
    if not only:
        return []
    count = len({t.row for t, _ in only})
    shown = only[0][0].text.removeprefix(THINKING)[:80]
    message = f"the gold of {count} rows is accepted bare and refused behind <reasoning>, e.g. {shown!r}"
    fix = "right if the model is to write nothing else; else score what follows the reasoning (grpo_rlvr.completions.after_reasoning)"
    return [_finding("bare_only", "note", reward, message, fix, only)]


def _passes(score: float | None, threshold: float) -> bool:
    return score is not None and score >= threshold - 1e-9


def _check_user_function(reward: BuiltReward, rows: Sequence[dict], limit: int, threshold: float) -> list[dict[str, Any]]:
    forms = [(i, form) for i, of_row in in_common_forms(reward, rows, limit).items() for form in of_row]
    if not forms:
        return []
    try:
        honest = _honest(reward, rows, forms, threshold)
    except UserError as exc:
        return [_finding("user_gold", "warning", reward, f"it failed on its own gold: {exc}", "", [])]
    good = {o.row for o in honest if o.accepted}
    never = [(o.tried, o.score) for o in honest if o.row not in good]
    if not never:
        behind = {o.row for o in honest if o.accepted and not o.bare_only}
        return _bare_only(reward, [o for o in honest if o.row not in behind])
    count = len({t.row for t, _ in never})
    message = (
        f"none of the forms tag, box and plain text, behind <reasoning> or bare, is accepted for the gold of {count} of the "
        f"{len({i for i, _ in forms})} rows tried"
    )
    fix = "no fault if it wants another form; an honest_forms(gold) method on the reward makes this a real check"
    return [_finding("user_gold", "note", reward, message, fix, never)]


def _other_golds(able: Sequence[int], golds: Mapping[int, Any], different: Callable[[Any, Any], bool]) -> dict[int, int]:
    """For each row one of the following rows whose gold is certainly another."""
    found = {}
    for at, i in enumerate(able):
        near = (able[(at + step) % len(able)] for step in range(1, min(NEIGHBOURS, len(able) - 1) + 1))
        other = next((j for j in near if different(golds[i], golds[j])), None)
        if other is not None:
            found[i] = other
    return found


def _decoys(row: int, form: str, other: str | None) -> list[_Try]:
    decoys = [
        _Try(row, "no answer", THINKING),
        _Try(row, "the right answer in the reasoning only", f"<reasoning>It could be {form}, but this must be checked.</reasoning>\nI do not know."),
    ]
    if other is not None:
        decoys.append(_Try(row, "another row's answer", THINKING + other))
        decoys.append(_Try(row, "the right answer, then another one", f"{THINKING}{form}\n{other}"))
    return decoys


def _scores(reward: BuiltReward, rows: Sequence[dict], tries: Sequence[_Try]) -> list[float | None]:
    if not tries:
        return []
    names = sorted({name for t in tries for name in rows[t.row]} - {"prompt", ROW_ID})
    columns = {name: [rows[t.row].get(name) for t in tries] for name in names}
    prompts = [rows[t.row].get("prompt", "") for t in tries]
    # As TRL does: text for a text prompt, messages for messages.
    completions = [t.text if isinstance(p, str) else [{"role": "assistant", "content": t.text}] for t, p in zip(tries, prompts, strict=True)]
    return score_all([reward], completions, prompts=prompts, **columns).values[reward.name]


def _finding(
    check: str, severity: str, reward: BuiltReward, message: str, fix: str, tries: Sequence[tuple[_Try, float | None]], rows: Sequence[int] = ()
) -> dict[str, Any]:
    examples = [{"row": t.row, "kind": t.kind, "text": t.text.removeprefix(THINKING)[:400], "score": score} for t, score in tries[:3]]
    if examples and severity != "note":
        message += f"; e.g. {examples[0]['text'][:80]!r} scores {'None' if examples[0]['score'] is None else format(examples[0]['score'], 'g')}"
    return {
        "check": check, "severity": severity, "reward": reward.name, "message": message, "fix": fix,
        "rows": sorted({t.row for t, _ in tries} | set(rows)), "examples": examples,
    }  # fmt: skip


def _numbered(finding: dict[str, Any], rows: Sequence[dict]) -> dict[str, Any]:
    """The finding with the numbers that its rows have in their source, and those in front of its message."""
    numbers = sorted(row_number(rows[i], i) for i in finding["rows"])
    examples = [{**e, "row": row_number(rows[e["row"]], e["row"])} for e in finding["examples"]]
    message = f"{_row_numbers(numbers)}: {finding['message']}" if numbers and finding["severity"] != "note" else finding["message"]
    return {**finding, "message": message, "rows": numbers, "examples": examples}


def _row_numbers(rows: Sequence[int]) -> str:
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:SHOWN]))}{more}"
