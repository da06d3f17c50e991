"""All probes on one set of scored samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grpo_rlvr.inspection.probes.attacks import attack_trials
from grpo_rlvr.inspection.probes.causes import one_for_each_cause
from grpo_rlvr.inspection.probes.contract import names, none_share, totals, value_range
from grpo_rlvr.inspection.probes.controls import control_findings, control_trials
from grpo_rlvr.inspection.probes.execution import cheat_trials, runs_completion
from grpo_rlvr.inspection.probes.forms import completion_format, message_forms, odd_input, raised_findings
from grpo_rlvr.inspection.probes.json_attacks import json_trials
from grpo_rlvr.inspection.probes.judge import attack_findings
from grpo_rlvr.inspection.probes.mutated import mutated_answer, mutated_trials
from grpo_rlvr.inspection.probes.names import PROBES
from grpo_rlvr.inspection.probes.repeat import pickling, repeatability
from grpo_rlvr.inspection.probes.rewrites import honest_rewriting, rewrite_trials
from grpo_rlvr.inspection.probes.subject import Subject, Trial
from grpo_rlvr.inspection.probes.unread import gold_like, unread_columns, unread_gold

ORDER = list(PROBES)


def run_probes(
    rewards: Sequence, samples: Sequence[dict], scores: Sequence[dict], threshold: float, labels: Mapping[str, str] | None = None
) -> list[dict]:
    """All probes' findings, in the order of `PROBES`: each with `probe`, `severity` (error, warning, ok), `message`, `mutants` (completions
    tried), `unpunished` (of them, those that prove the fault) and `example` (the smallest of these, with what it earned).

    A probe that does not fit the kind of task has no finding, and neither have the attacks on a reward that is random: nothing they show would
    mean anything.

    Args:
        scores: score rows aligned with `samples`.
        labels: sample_id -> pass, fail or unsure, as far as someone has read.
    """
    subject = Subject(rewards, samples, scores, threshold, labels or {})
    found = [*repeatability(subject), pickling(subject), names(subject), value_range(subject), totals(subject), none_share(subject)]
    if not any(f["probe"] == "determinism" and f["severity"] == "error" for f in found):
        found += _attacked(subject)
    return sorted(one_for_each_cause(found), key=lambda f: ORDER.index(f["probe"]))


def _attacked(subject: Subject) -> list[dict]:
    odd, faults = odd_input(subject)
    executed = runs_completion(subject)
    subject.gold_like = gold_like(subject)
    subject.unread = unread_columns(subject)
    trials = [*mutated_trials(subject), *attack_trials(subject), *json_trials(subject), *rewrite_trials(subject), *control_trials(subject)]
    if subject.kind == "code" and executed["severity"] == "ok":
        trials += cheat_trials(subject)
    trials = subject.affordable(trials)
    rows = subject.score(trials)
    if subject.noisy:
        # What is paid once may be luck: it has to be paid twice.
        second = subject.score(trials)
        rows = [
            b if isinstance(b, dict) and subject.paid(t, a) and not subject.paid(t, b) else a for t, a, b in zip(trials, rows, second, strict=True)
        ]
    forms = message_forms(subject)

    def of(probe: str) -> tuple[list[Trial], list]:
        chosen = [k for k, t in enumerate(trials) if t.probe == probe]
        return [trials[k] for k in chosen], [rows[k] for k in chosen]

    return [
        mutated_answer(subject, *of("mutated_answer")),
        *unread_gold(subject),
        executed,
        *raised_findings(subject, faults, trials, rows),
        odd,
        *forms,
        completion_format(subject),
        honest_rewriting(subject, *of("honest_rewriting")),
        *attack_findings(subject, trials, rows),
        *control_findings(subject, trials, rows),
    ]
