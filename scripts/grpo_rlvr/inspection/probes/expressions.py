r"""The arithmetic that a prompt asks for, written down as its answer: `\sqrt{98}` for "Simplify sqrt(98)".

By value it is right, so that only a reward that looks at the form refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from grpo_rlvr.completions import ANSWER_CLOSE, ANSWER_OPEN
from grpo_rlvr.inspection.equality import MAX_ALGEBRA, same_value
from grpo_rlvr.inspection.mutate import replaced
from grpo_rlvr.inspection.probes.case import prompt_words
from grpo_rlvr.inspection.probes.shape import shape_of
from grpo_rlvr.inspection.probes.subject import Subject, Trial, spread
from grpo_rlvr.rewards.mathematics.finished import finished
from grpo_rlvr.rewards.mathematics.reading import read
from grpo_rlvr.rewards.mathematics.reward import make_math_reward
from grpo_rlvr.rewards.mathematics.spelling import normalise
from grpo_rlvr.rewards.mathematics.splitting import split_relation

MOST, LOOKED_AT = 40, 400  # prompts whose expression is tried, and completions whose prompt is looked at
LONGEST_PROMPT, LONGEST, MOST_RUNS = 20_000, 200, 50
_N = r"\d+(?:\.\d+)?"
_WORDS = (
    (re.compile(rf"\b(?:the )?(square|cube) root of ({_N})"), lambda m: rf"\sqrt{'[3]' * (m[1] == 'cube')}{{{m[2]}}}"),
    (re.compile(r"(?<=[\d)}]) (plus|minus|times|multiplied by|divided by|over) (?=[-\d(\\])"), lambda m: f" {_SIGNS[m[1]]} "),
    (re.compile(r"(?<=\d) (squared|cubed)\b"), lambda m: "^2" if m[1] == "squared" else "^3"),
)
_SIGNS = {"plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/", "over": "/"}
_MATHS = re.compile(r"\$\$([^$]{1,400})\$\$|\$([^$]{1,400})\$|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.S)
# What arithmetic is made of outside of math delimiters; letters only one by one, and none that is an English word.
_SIGN = (
    r"(?:\d[\d,]*(?:\.\d+)?|\.\d+|\bsqrt\b|\\(?:sqrt|[dt]?frac|cdot|times|div|pi|left|right)(?![A-Za-z])|(?<![A-Za-z'’\\])[b-hj-zB-HJ-Z](?![A-Za-z'’])"
    r"|[-+*/^(){}\[\]×·÷⋅−√π²³=<>≤≥≠?!_])"
)
_RUN = re.compile(rf"{_SIGN}(?:[ \t]*{_SIGN})*")
_BLANK = re.compile(r"\?|(?<![A-Za-z])_+(?![{\w])|\\[ ,;:!]")
_OTHER_RELATION = re.compile("[≤≥≠]")
_ITEM = re.compile(r"(?<![\w)])\([a-hA-H]\)")  # of a list: (a), (b)
_ENDS = " \t\n.,;:?_="
_ASKS = re.compile(
    r"\b(?:comput|calculat|evaluat|simplif|rationali[sz]|work(?:ed)? out|what(?: is|'s|’s)|how (?:much|many)|find|determine|reduc|solv"
    r"|lowest terms|value of|result)|=[\s?_.…]*\Z",
    re.I,
)


def expression_trials(subject: Subject) -> list[Trial]:
    """The expression of a prompt as the answer to it, where it has the gold's value and the gold is worked out further."""
    if subject.kind not in ("number", "text"):
        return []
    trials, prompts = [], set()
    for i in spread(subject.distinct or list(range(len(subject.samples))), LOOKED_AT):
        if subject.samples[i]["prompt_index"] in prompts:
            continue
        prompts.add(subject.samples[i]["prompt_index"])
        prompt = prompt_words(subject.samples[i]["prompt"])
        found = next((e for e in expressions(prompt) if any(unworked(e, gold) for gold in subject.answers(i))), None)
        if found is not None:
            trials.append((i, found, _ASKS.search(prompt) is not None or prompt.strip(_ENDS + "$") == found))
    return [trial for i, found, asked in spread(trials, MOST) for trial in _written(subject, i, found, asked)]


def cure(subject: Subject) -> str:
    """What to do about it: the option of the math reward, where it is the one that pays."""
    names = [
        r.name if hasattr(r.function, "finished") else f"the math reward inside {r.name}"
        for r in subject.rewards
        if getattr(getattr(r.function, "reward", r.function), "finished", None) is False
    ]
    if names:
        return f"set `finished: true` in the args of {', '.join(names)}"
    return "let the reward refuse what is not worked out, as the math reward does with `finished: true`"


def expressions(prompt: str) -> list[str]:
    """The arithmetic and algebraic expressions of a prompt, longest first; of equations none, but `10 + 10 = ?` and `y = 3 + 4` name one."""
    if len(prompt) > LONGEST_PROMPT or not any(c.isdigit() for c in prompt):
        return []
    for pattern, formula in _WORDS:
        prompt = pattern.sub(formula, prompt)
    prompt = _ITEM.sub("\n", prompt)
    runs = [next(filter(None, m.groups())) for m in _MATHS.finditer(prompt)]
    runs += [piece for m in _RUN.finditer(_MATHS.sub("\n", prompt)) if len(m[0]) <= LONGEST for piece in _closed_pieces(m[0])]
    found = {e for run in runs if (e := _expression(run)) is not None}
    return sorted(found, key=lambda e: (-len(e), e))[:MOST_RUNS]


@lru_cache(maxsize=20_000)
def unworked(expression: str, gold: str) -> bool:
    """Whether it has the gold's value, but leaves something to work out that the gold does not."""
    try:
        right = make_math_reward().read_gold(gold)
        if finished(read(normalise(expression)), right.value):
            return False
    except (ValueError, RecursionError):
        return False
    return max(len(expression), len(gold)) <= MAX_ALGEBRA and same_value(expression, gold)


def _written(subject: Subject, i: int, expression: str, asked: bool) -> Iterator[Trial]:
    """In the form in which an answer was accepted; in a tag and in a box where none was."""
    shape = shape_of(subject.text(i), subject.answers(i)) if subject.distinct else None
    texts = [shape.text(expression)] if shape else [f"{ANSWER_OPEN}{expression}{ANSWER_CLOSE}", f"\\boxed{{{expression}}}"]
    for text in texts:
        completion = subject.samples[i]["completion"]
        changed = replaced(completion, text) if isinstance(completion, str) else [{"role": "assistant", "content": text}]
        what = "the expression of a question that asks to work it out" if asked else "an expression of the prompt"
        yield Trial(i, changed, "expression_echo", what, shape.answer if shape else "", expression, asked)


def _expression(run: str) -> str | None:
    """What is to be worked out in a piece of mathematics; None for an equation, a list or a lone number."""
    if not any(c.isdigit() for c in run) or len(run) > LONGEST:
        return None
    sides, operators = split_relation(_BLANK.sub(" ", run))
    if _OTHER_RELATION.search(run) or set(operators) - {"="}:
        return None
    sides = [side.strip(_ENDS) for side in sides]
    if len(sides) == 2 and (not sides[1] or re.fullmatch(r"[A-Za-z]?", sides[0])):
        sides = [side for side in sides if len(side) > 1]
    return sides[0].lstrip("*/^)]}").rstrip("-+*/^([{").strip() or None if len(sides) == 1 else None


def _closed_pieces(run: str) -> list[str]:
    """The run cut at brackets that have no partner: `1) 3 + 4` is two pieces."""
    cuts, opened = [], []
    for at, c in enumerate(run):
        if c in "([{":
            opened.append(at)
        elif c in ")]}":
            if opened:
                opened.pop()
            else:
                cuts.append(at)
    bounds = [-1, *sorted([*cuts, *opened]), len(run)]
    return [run[a + 1 : b] for a, b in zip(bounds, bounds[1:], strict=False)]
