"""What may not stand in a config whatever its type: names that act on a terminal or fit no system, and keys that would be written down."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from grpo_rlvr.errors import Problem
from grpo_rlvr.sections import FILE_ARGS

_NAMES = (("model", "name_or_path"), ("model", "revision"), ("data", "train"), ("data", "eval"), ("run", "folder"), ("run", "gate"))
_SECRETS = {"token", "hub_token", "push_to_hub_token", "hf_token", "use_auth_token", "auth_token", "access_token", "api_key", "password", "secret"}


def hazards(raw: Mapping[str, Any]) -> list[Problem]:
    """The problems of the mapping that a config file holds; its parts may be of a wrong type here."""
    return [*_control_characters(raw), *_secrets(raw)]


def _control_characters(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Names of files, models and rewards with a line feed, a NUL or an escape in them."""
    names = {f"{part}.{key}": _part(raw, part).get(key) for part, key in _NAMES}
    for i, reward in enumerate(_rewards(raw)):
        names |= {f"rewards[{i}].{key}": reward.get(key) for key in ("use", "name")}
        args = _part(reward, "args")
        names |= {f"rewards[{i}].args.{key}": args.get(key) for key in ("use", *itertools.chain.from_iterable(FILE_ARGS.values()))}
    for place, name in names.items():
        if isinstance(name, str) and any(unicodedata.category(c) == "Cc" for c in name):
            yield Problem(place, f"has a control character in it: {name[:60]!r}", "write the name without it")


def _secrets(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Keys and tokens, in the places whose values go to a library or a server; they are not repeated in the message."""
    places = {
        "grpo": raw.get("grpo"),
        "hardware.vllm_server.arguments": _part(_part(raw, "hardware"), "vllm_server").get("arguments"),
        "inspection.server.settings": _part(_part(raw, "inspection"), "server").get("settings"),
        **{f"rewards[{i}].args.settings": _part(reward, "args").get("settings") for i, reward in enumerate(_rewards(raw))},
    }
    for place, value in places.items():
        for name in _secret_keys(value, place):
            what = "holds a secret, which would be written to config.resolved.yaml and run.json"
            yield Problem(name, what, "take it out of the file (and change it, if others saw the file): export HF_TOKEN, VLLM_API_KEY or the like")


def _secret_keys(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            name = str(key).lower().replace("-", "_")
            if name in _SECRETS and isinstance(inside, str) and inside:
                yield f"{place}.{key}"
            yield from _secret_keys(inside, f"{place}.{key}")
    elif isinstance(value, list):
        for i, inside in enumerate(value):
            yield from _secret_keys(inside, f"{place}[{i}]")


def _part(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


def _rewards(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rewards = raw.get("rewards")
    return [r if isinstance(r, Mapping) else {} for r in rewards] if isinstance(rewards, list) else []
