"""One accepted completion as the attacks see it: where its answer stands, and a wrong version of it."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_rlvr.completions import completion_text
from grpo_rlvr.inspection.mutate import json_spans
from grpo_rlvr.inspection.probes.mutated import wrong_versions
from grpo_rlvr.inspection.probes.shape import Shape, shape_of
from grpo_rlvr.inspection.probes.subject import Subject


@dataclass(frozen=True)
class Case:
    """One accepted completion: its text, the prompt's last words, its shape, and a wrong version of it."""

    i: int
    text: str
    prompt: str
    shape: Shape | None
    wrong: str | None
    wrong_answers: tuple[str, ...]

    @property
    def answer(self) -> str:
        return self.shape.answer if self.shape else ""


def make_case(subject: Subject, i: int) -> Case:
    accepted = subject.scores[i]["verdict"] is True
    text = subject.text(i)
    special = subject.kind in ("code", "calls", "schema") or text.strip() in [text[a:b] for a, b in json_spans(text)]
    shape = shape_of(text, subject.answers(i)) if accepted and not special else None
    versions = wrong_versions(subject, i) if accepted else []
    plain_wrong = [m for m in versions if not m.near and not m.name and m.new.strip() and m.old not in m.new] or [
        m for m in versions if m.new.strip()
    ]
    # A made-up word or a larger number; a mere change of sign may be lost on a reward that has other faults.
    best = next((m for m in plain_wrong if not m.new.startswith("-")), plain_wrong[0] if plain_wrong else None)
    wrong = completion_text(best.completion) if best is not None else None
    answers = tuple(m.new for m in plain_wrong[:3])
    return Case(i, text, prompt_words(subject.samples[i]["prompt"]), shape, wrong, answers)


def prompt_words(prompt: str | list[dict]) -> str:
    """The text of the prompt, or of its last user turn."""
    if isinstance(prompt, str):
        return prompt
    turns = [m for m in prompt if isinstance(m, dict) and m.get("role") == "user"]
    return completion_text([{**turns[-1], "role": "assistant"}]) if turns else ""
