"""Scores completions with the reward of a project: `reward_child.py FOLDER REQUEST RESULT`. Started by scoring.py only."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a tokenizer that is not here is not worth a minute of retries
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))


def find_rewards(folder: Path) -> tuple[list, float, list[dict]]:
    """(rewards, threshold, training rows): those of config.yaml where it names some, else the functions of rewards.py and no rows."""
    from grpo_rlvr.config import load_config
    from grpo_rlvr.data import load_rows
    from grpo_rlvr.errors import GrpoRlvrError
    from grpo_rlvr.rewards import build_rewards

    problem = "there is neither a config.yaml with rewards nor a rewards.py"
    if (folder / "config.yaml").is_file():
        try:
            config = load_config(folder / "config.yaml")
            rewards = build_rewards(config)
        except GrpoRlvrError as exc:
            problem = f"config.yaml: {exc}"
        else:
            try:
                rows = load_rows(config, "train")
            except GrpoRlvrError:
                rows = []
            return rewards, config.inspection.pass_threshold, rows
    functions = plain_functions(folder)
    if not functions:
        raise LookupError(problem)
    return functions, 0.0, []


def plain_functions(folder: Path) -> list:
    """The public functions of rewards.py (or reward.py) that take completions."""
    from grpo_rlvr.rewards import BuiltReward

    for name in ("rewards.py", "reward.py"):
        if (folder / name).is_file():
            spec = importlib.util.spec_from_file_location("rewards", folder / name)
            module = importlib.util.module_from_spec(spec)
            sys.path.insert(0, str(folder))
            spec.loader.exec_module(module)
            own = [f for f in vars(module).values() if callable(f) and getattr(f, "__module__", "") == "rewards" and not inspect.isclass(f)]
            named = [f for f in own if not f.__name__.startswith("_") and "completions" in inspect.signature(f).parameters]
            return [BuiltReward(f.__name__, lambda f=f, **given: f(**_taken(f, given))) for f in named]
    return []


def _taken(function, given: dict) -> dict:
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return given
    return {name: value for name, value in given.items() if name in parameters}


def main() -> None:
    folder, request, result = map(Path, sys.argv[1:])
    cases = json.loads(request.read_text(encoding="utf-8"))
    request.unlink()  # neither the questions together nor the place of the answer are a reward's affair
    sys.argv[1:] = []
    from grpo_rlvr.errors import GrpoRlvrError
    from grpo_rlvr.rewards import score_all, verdicts

    try:
        rewards, threshold, rows = find_rewards(folder)
        chat = bool(rows) and isinstance(rows[0]["prompt"], list)
        said = ""
        for form, messages, as_text in itertools.product((0, 1), (chat, not chat), (True, False)):
            completions = [[{"role": "assistant", "content": c["completion"]}] if messages else c["completion"] for c in cases]
            golds = [{**case["golds"][form], **_columns_of(case["row"], rows)} for case in cases]
            columns = {name: [_value(gold.get(name), as_text) for gold in golds] for name in golds[0]}
            columns["prompts"] = ["" if not messages else [{"role": "user", "content": ""}]] * len(cases)
            try:
                scores = score_all(rewards, completions, **columns)
            except GrpoRlvrError as exc:
                said = said or str(exc)
                continue
            answer = {"totals": scores.total, "verdicts": verdicts(rewards, scores, threshold)}
            break
        else:
            answer = {"error": f"the reward fails: {said}"}
    except (Exception, SystemExit) as exc:
        answer = {"error": f"{type(exc).__name__}: {exc}"}
    result.write_text(json.dumps(answer), encoding="utf-8")


def _columns_of(words: str, rows: list[dict]) -> dict:
    """The columns of the training row whose prompt has these words."""
    found = [row for row in rows if words and words in json.dumps(row["prompt"], ensure_ascii=False)]
    return {name: value for name, value in (found[0] if found else {}).items() if name not in ("prompt", "row_id")}


def _value(gold, as_text: bool):
    return json.dumps(gold) if as_text and isinstance(gold, (list, dict)) else gold


if __name__ == "__main__":
    main()
