"""Prompts that ask for one form of the answer, and a config that asks for another: the model is told both, and one of them is not paid."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grpo_rlvr.completions import prompt_text
from grpo_rlvr.config import Config
from grpo_rlvr.training.findings import Finding, warning

LOOKED = 100
SOME = 0.1  # of the prompts looked at: a single one may quote a form
TAGS = re.compile(r"<(answer|reasoning)>")
BARE = r"(?:only|just|nothing but|solely)"
# What stands before a form that is forbidden: "do not answer with", "not", "instead of"; "do not forget to use" asks for it.
FORBIDDEN = re.compile(
    r"(?:\b(?:not|never|avoid|instead\s+of|rather\s+than)|n['\u2019]t)(?:\s+(?!(?:and|but|forget|fail|omit|mind)\b)\w+){0,4}\s+$", re.IGNORECASE
)
BEFORE = 80  # characters looked at
FORMS = {
    "\\boxed{}": re.compile(r"\\boxed\b"),
    "JSON alone": re.compile(
        rf"\b{BARE}\b(?:\s+\w+){{0,4}}\s+json\b|\bjson\b(?:\s+\w+){{0,2}},?\s+(?:only\b|and nothing else|(?:(?:and|with)\s+)?no other text)",
        re.IGNORECASE,
    ),
}


def two_forms(rows: Sequence[dict], system_prompt: str | None, uses: Sequence[str]) -> list[Finding]:
    """A warning for each form that the prompts ask for beside the tags of the config.

    Args:
        system_prompt: of the config; a message of the rows that is it does not count as theirs.
        uses: of the config's rewards.
    """
    asking = ["data.system_prompt asks for <answer>"] if TAGS.search(system_prompt or "") else []
    asking += [f"reward {use} asks for <reasoning> and <answer>" for use in uses if use in ("format", "partial_format")]
    texts = [_text(row.get("prompt"), system_prompt) for row in rows[:LOOKED]]
    if not asking or not texts:
        return []
    found = []
    for form, pattern in FORMS.items():
        count = sum(_asks_for(pattern, text) and not TAGS.search(text) for text in texts)
        if count and count >= SOME * len(texts):
            fix = (
                "ask for one form: take those words out of the prompts, or delete data.system_prompt and the format reward and choose a reward that "
                "reads theirs (math and choice read \\boxed{}, schema bare JSON)"
            )
            found.append(warning("two-forms", f"{count} of the first {len(texts)} prompts ask for {form}, and {' and '.join(asking)}", fix))
    return found


def _asks_for(form: re.Pattern, text: str) -> bool:
    return any(not FORBIDDEN.search(text[max(0, found.start() - BEFORE) : found.start()]) for found in form.finditer(text))


def forms_of_config(config: Config, rows: Sequence[dict]) -> list[Finding]:
    return two_forms(rows, config.data.system_prompt, [reward.use for reward in config.rewards])


def _text(prompt: object, system_prompt: str | None) -> str:
    own = [m for m in prompt if not isinstance(m, dict) or m.get("content") != system_prompt] if isinstance(prompt, list) else prompt
    return prompt_text(own)
