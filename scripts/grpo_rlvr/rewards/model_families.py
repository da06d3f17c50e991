"""Which family a model is of, told from its name or its folder: a judge favours what its own family writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

# Family -> words that its models' names hold. Makers whose lines share data and habits are one family.
FAMILIES: dict[str, tuple[str, ...]] = {
    "anthropic": ("claude",),
    "baichuan": ("baichuan",),
    "cohere": ("command", "c4ai", "aya", "cohere"),
    "deepseek": ("deepseek",),
    "ernie": ("ernie",),
    "exaone": ("exaone",),
    "falcon": ("falcon",),
    "glm": ("glm", "chatglm"),
    "google": ("gemma", "gemini", "palm"),
    "granite": ("granite",),
    "grok": ("grok",),
    "hunyuan": ("hunyuan",),
    "internlm": ("internlm", "intern"),
    "kimi": ("kimi", "moonshot", "moonlight"),
    "llama": ("llama", "codellama", "tinyllama", "vicuna", "alpaca"),
    "minimax": ("minimax",),
    "mistral": ("mistral", "mixtral", "ministral", "codestral", "magistral", "devstral", "pixtral"),
    "nemotron": ("nemotron",),
    "nova": ("nova",),
    "olmo": ("olmo", "olmoe", "tulu"),
    "openai": ("gpt", "chatgpt", "o1", "o3", "o4"),
    "phi": ("phi",),
    "pythia": ("pythia", "neox"),
    "qwen": ("qwen", "qwq", "qvq"),
    "smollm": ("smollm",),
    "yi": ("yi",),
}
_PATTERNS = {family: re.compile("|".join(rf"(?<![a-z0-9]){word}(?![a-z])" for word in words)) for family, words in FAMILIES.items()}


def families(name: str) -> set[str]:
    """The families that a model's name speaks of; a distilled model may be of two. Empty if none is known."""
    return {family for family, pattern in _PATTERNS.items() if pattern.search(name.lower())}


def policy_families(name_or_path: str) -> set[str]:
    """Like `families`, for a hub name or a local folder (its config.json tells the architecture and where it came from)."""
    folder = Path(name_or_path)
    found = families(folder.name if folder.is_absolute() else name_or_path)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return found
    for key in ("model_type", "architectures", "_name_or_path"):
        # Architectures are written as one word: Qwen2ForCausalLM.
        found |= families(re.sub(r"(For[A-Z]|Model)", r" \1", str(config.get(key, "")).replace("_", "-")))
    return found


def shared_family(judge: str, policy: str) -> str | None:
    """The name of a family that both are of, or None. Two models of the same bare name are of one family, known or not."""
    common = families(judge) & policy_families(policy)
    if common:
        return sorted(common)[0]
    bare = [re.sub(r"[^a-z0-9]", "", name.rstrip("/").rpartition("/")[2].lower()) for name in (judge, policy)]
    return bare[0] if bare[0] and bare[0] == bare[1] else None
