"""What the golds say about a signal: how many tokens a right answer needs, and whether the reward pays it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.data_files import row_number
from grpo_rlvr.inspection.model_files import model_folder
from grpo_rlvr.rewards.gold_forms import in_common_forms, rows_with_forms
from grpo_rlvr.rewards.registry import BuiltReward

MANY = 0.1  # share of the rows whose gold does not fit, from which on the limit is wrong and not those rows
ROOM = 2  # a limit that holds the longest gold so often is not what keeps a short answer from ending

Count = Callable[[str], int | None]  # None: the tokenizer cannot take this text


def token_counter(config: Config, tokenizer: Any = None) -> Count | None:
    """How many tokens a text has, by the model's tokenizer if that is at hand: one that is loaded, or a file on this disk. No network, no torch."""
    if tokenizer is not None:
        return _or_none(lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"]))
    try:
        file = _tokenizer_file(config)
        loaded = importlib.import_module("tokenizers").Tokenizer.from_file(str(file)) if file is not None else None
    except Exception:  # not installed, or no such file; tokenizers has no type of its own for a file it cannot read
        return None
    if loaded is None:
        return None
    loaded.no_padding()  # a file may fix both, and neither is a token of the gold
    loaded.no_truncation()
    return _or_none(lambda text: len(loaded.encode(text, add_special_tokens=False).ids))


def _or_none(count: Callable[[str], int]) -> Count:
    """For half a surrogate pair, or a word that a vocabulary without an unknown token lacks, tokenizers raises types of many kinds."""

    def counted(text: str) -> int | None:
        try:
            return count(text)
        except Exception:
            return None

    return counted


def _tokenizer_file(config: Config) -> Path | None:
    folder = model_folder(config)
    if folder is not None:
        return folder / "tokenizer.json"
    hub = importlib.import_module("huggingface_hub")
    cached = hub.try_to_load_from_cache(config.model.name_or_path, "tokenizer.json", revision=config.model.revision)
    return Path(cached) if isinstance(cached, str) else None


def measure_golds(rewards: Sequence[BuiltReward], rows: Sequence[dict], count: Count | None, limit: int | None) -> dict | None:
    """Tokens of the shortest honest form of each row's gold, without the end token; of several required rewards the one that needs most.

    Returns:
        `rows` that were measured, their `median` and `longest`, the `limit`, the indices of the rows `over` it, the `reward` that needs most, and
        whether it is `certain` that no shorter answer is right (a reference solution is only one of many). None where nothing can be measured.
    """
    if count is None or limit is None:
        return None
    needs: dict[int, tuple[int, str]] = {}
    certain = True
    for reward in rewards:
        if not reward.required:
            continue
        forms_by_row = rows_with_forms(reward, rows)
        certain &= not (forms_by_row and callable(getattr(reward.function, "honest_forms_of_row", None)))
        for i, forms in forms_by_row.items():
            length = count(min(forms, key=len))
            if length is None or length > limit:
                length = min((n for n in map(count, forms) if n is not None), default=None)
            if length is None:
                continue
            needs[i] = max(needs.get(i, (0, "")), (length, reward.name))
    if not needs:
        return None
    lengths = sorted(needs.values())
    median, (longest, name) = lengths[(len(lengths) - 1) // 2][0], lengths[-1]
    over = sorted(i for i, (length, _) in needs.items() if length > limit)
    return {"rows": len(needs), "median": median, "longest": longest, "limit": limit, "over": over, "reward": name, "certain": certain}


def length_findings(golds: Mapping | None, rows: Sequence[dict]) -> list[dict[str, Any]]:
    """A finding as `check_dataset` has them where golds do not fit the limit."""
    if golds is None or not golds["over"]:
        return []
    over = len(golds["over"])
    grave = golds["certain"] and over >= MANY * golds["rows"]
    message = (
        f"the gold of {over} of {golds['rows']} rows takes more tokens than max_completion_length {golds['limit']} allows "
        f"(median {golds['median']}, longest {golds['longest']}), written as short as the reward takes it"
    )
    message += ": no right answer can be written there" if golds["certain"] else "; a shorter solution may be right too"
    fix = f"set grpo.max_completion_length well above {golds['longest']} (and room for reasoning), or leave these rows out"
    numbers = [row_number(rows[i], i) for i in golds["over"]]
    severity = "error" if grave else "warning"
    return [
        {"check": "gold_length", "severity": severity, "reward": golds["reward"], "message": message, "fix": fix, "rows": numbers, "examples": []}
    ]


def cut_note(share: float, finishes: Sequence[str], verdicts: Sequence[bool | None], golds: Mapping | None) -> str:
    """What it means that a `share` of the completions was cut off."""
    said = f"{share:.0%} of the completions were cut off at max_completion_length"
    if golds is None:
        return f"{said}: raise it, or the reward judges torsos"
    limit, longest = golds["limit"], golds["longest"]
    ended = [verdict for finish, verdict in zip(finishes, verdicts, strict=True) if finish == "stop"]
    if limit >= ROOM * longest and True not in ended:
        none = f"none of the {len(ended)} that ended is right" if ended else "none ended"
        return (
            f"{said} {limit}, which holds the longest gold ({longest} tokens) {limit // longest} times over, and {none}: the model does not end "
            "its answers; a higher limit helps only where it reasons and needs the room (read a few)"
        )
    more = f", the longest {longest}" if longest > golds["median"] else ""
    return f"{said} {limit} (the gold takes {golds['median']} tokens{more}): raise it, or the reward judges torsos"


def payment(rewards: Sequence[BuiltReward], rows: Sequence[dict], dataset: Sequence[Mapping]) -> str:
    """Whether the data check saw the gold itself paid, for a model that is never right.

    Args:
        dataset: what `check_dataset` found with the same rewards and rows.
    """
    paid, refused, open_ = {}, [], []
    for reward in (r for r in rewards if r.required):
        common = in_common_forms(reward, rows)
        tried = common or rows_with_forms(reward, rows)
        never = next((f for f in dataset if f["reward"] == reward.name and f["check"] in ("own_gold", "user_gold")), None)
        if not tried or (common and never):
            open_.append(reward.name)
        elif never:
            refused.append(f"the reward {reward.name} refuses the gold itself in {len(never['rows'])} of {len(tried)} rows")
        else:
            paid[reward.name] = len(tried)
    parts = []
    if paid:
        names = "" if len(paid) == 1 and not open_ and not refused else " " + ", ".join(paid)
        verb = "the reward{} pays" if len(paid) == 1 else "the rewards{} pay"
        parts.append(f"{verb.format(names)} the gold itself: tried on {min(paid.values())} rows")
    parts += refused
    if open_:
        parts.append(
            f"nothing confirms that reward {', '.join(open_)} pays a right answer: none could be written down for it to try "
            "(a method honest_forms(gold) does that)"
        )
    return "; ".join(parts)
