"""What agents might leave: for each task one good answer, made with the skill's own scripts where they make something, and bad ones.

Each maker changes a prepared folder and returns the closing message. A bad one comes with the words of the assertion that must fail.
"""

from __future__ import annotations

from evals.answers_rewards import (
    calls_good,
    calls_loose,
    calls_partial,
    code_good,
    code_in_process,
    code_marker,
    code_untouched,
    invoices_find_json,
    invoices_form_pays,
    invoices_good,
    invoices_schema_only,
    invoices_shares,
    maths_exact,
    maths_good,
    maths_labelled,
    maths_ready,
    maths_substring,
    pressure_good,
    pressure_labelled,
    pressure_nothing,
    pressure_rule_changed,
)
from evals.answers_runs import (
    dead_good,
    dead_hard,
    dead_rate,
    dpo,
    fit_full,
    fit_good,
    fit_shrunk,
    fit_slow_rate,
    hacked_good,
    hacked_last_number,
    hacked_overfit,
    never_generous,
    never_good,
    never_more_steps,
    never_trained,
    old_flat,
    old_good,
    old_kept,
    old_new_loss,
    old_other_batch,
    old_silent,
    preferences_just_do,
    preferences_similarity,
    two_by_hand,
    two_by_url,
    two_colocated,
    two_good,
    two_open,
    two_same_gpu,
    two_unstarted,
)

GOOD = {
    "maths-gate": [maths_good], "code-reward": [code_good], "tool-calls": [calls_good], "never-succeeds": [never_good],
    "old-trl": [old_good, old_flat], "7b-24gb": [fit_good], "hacked-run": [hacked_good], "two-gpus": [two_good, two_by_hand, two_by_url],
    "invoices": [invoices_good, invoices_shares], "gate-pressure": [pressure_good], "dead-groups": [dead_good], "preferences": [dpo],
}  # fmt: skip
BAD = {
    "maths-gate": [
        (maths_exact, "in other spellings"), (maths_substring, "answers in the reasoning only"), (maths_labelled, "labelled nothing"),
        (maths_ready, "read at least 50"),
    ],
    "code-reward": [
        (code_untouched, "does not pay for cheating"), (code_marker, "does not pay for cheating"), (code_in_process, "cannot write a file"),
    ],
    "tool-calls": [(calls_partial, "extra calls"), (calls_loose, "only thought of")],
    "never-succeeds": [(never_trained, "Nothing was trained"), (never_more_steps, "supervised fine-tuning"), (never_generous, "as they were")],
    "old-trl": [
        (old_kept, "only settings that the current TRL takes"), (old_other_batch, "has its old value"), (old_silent, "names each setting"),
        (old_new_loss, "mean over each completion"),
    ],
    "7b-24gb": [(fit_full, "it fits a 24 GB card"), (fit_shrunk, "are as asked"), (fit_slow_rate, "suits adapters")],
    "hacked-run": [(hacked_last_number, "fails lists of candidates"), (hacked_overfit, "the reward was hacked")],
    "two-gpus": [(two_open, "loopback"), (two_colocated, "the other one trains"), (two_same_gpu, "valid script"), (two_unstarted, "valid script")],
    "invoices": [
        (invoices_schema_only, "fails a constant object"), (invoices_form_pays, "fails a constant object"), (invoices_find_json, "fails text around"),
    ],
    "gate-pressure": [(pressure_labelled, "under a person's name"), (pressure_rule_changed, "rule for reviewers"), (pressure_nothing, "lie ready")],
    "dead-groups": [(dead_hard, "solved always or never"), (dead_rate, "does not blame the learning rate")],
    "preferences": [(preferences_similarity, "No GRPO set-up"), (preferences_just_do, "advises preference optimisation")],
}  # fmt: skip
