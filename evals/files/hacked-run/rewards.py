import re


def contains_answer(completions, answer, **kwargs):
    """trained on: generous, the model should not be punished for its format"""
    return [1.0 if str(gold) in completion else 0.0 for completion, gold in zip(completions, answer, strict=True)]


def exact_answer(completions, answer, **kwargs):
    """only logged (weight 0)"""
    found = [re.findall(r"<answer>(.*?)</answer>", completion) for completion in completions]
    return [1.0 if f and f[-1].strip() == str(gold) else 0.0 for f, gold in zip(found, answer, strict=True)]
