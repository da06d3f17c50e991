"""`training-brief.md` of a fine-tuning lifecycle: the choices in it that a config takes, and what could not be read, with the way out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grpo_rlvr.config import looks_like_hub_name
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.memory.hardware import find_gpu
from grpo_rlvr.training.variants import VARIANTS

METHOD, MODEL, DATA, MEMORY = "Chosen Method", "Base Model", "Dataset Expectation", "Memory Budget"
FIELDS = ("Goal", METHOD, MODEL, "Eval Baseline", DATA, MEMORY, "Success Criteria", "Risks")
MAX_BYTES = 200_000
MAX_FIELD = 5_000  # characters of a field that are read
MAX_NAME = 200
DATA_FILES = (".jsonl", ".json", ".csv", ".parquet")
OTHERS = r"SFT|DPO|ORPO|KTO|SimPO|PPO|RLHF|RAG|CPT|distillation|prompt[ -]engineering|continued pre-?training|off-ramp"


@dataclass(frozen=True)
class Brief:
    """What was read, None where nothing was. `unread` names the field, why, and the flag that says it instead (first word of the fix)."""

    variant: str | None = None
    model: str | None = None
    data: str | None = None
    gpu: str | None = None
    lora: int | None = None
    unread: tuple[Problem, ...] = ()


def read_brief(path: Path) -> Brief:
    """The brief at `path`. Relative files in it are looked for from the working folder, then from the brief's.

    Raises:
        UserError: it cannot be read, or its chosen method is not GRPO.
    """
    fields = _fields(_text(path))
    unread: list[Problem] = []
    places = (Path.cwd(), path.absolute().parent)

    def choose(field: str, found: Iterable[str], what: str, fix: str) -> str | None:
        found = list(dict.fromkeys(found))
        if len(found) == 1:
            return found[0]
        why = f"names {len(found)} of them ({', '.join(found)})" if found else "is empty or not there" if not fields[field] else f"names no {what}"
        unread.append(Problem(field, why, fix))
        return None

    variant = _method(path, fields[METHOD], unread)
    model = choose(MODEL, _models(fields[MODEL], places), "hub name (owner/name) or model folder", "--model NAME")
    data = choose(DATA, _data(fields[DATA], places), "data file that is there, nor a hub data set in `...`", "--data FILE")
    gpu = choose(MEMORY, _gpus(fields[MEMORY]), "GPU that is known", "--gpu NAME")
    return Brief(variant, model, data, gpu, _lora(f"{fields[METHOD]}\n{fields[MEMORY]}", unread), tuple(unread))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError("brief", Problem(str(path), f"has more than {MAX_BYTES:,} bytes", "name the brief, not the data"))
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("brief", Problem(str(path), "is not text in UTF-8", "name the training-brief.md")) from None
    except OSError as exc:
        raise UserError("brief", Problem(str(path), f"cannot be read: {exc.strerror}", "name the training-brief.md, or leave out --brief")) from None


def _fields(text: str) -> dict[str, str]:
    """The text under each heading; where there is no such heading, what follows `Field:` at the start of a line."""
    parts = re.split(r"^#{1,6}[ \t]+(.+)$", text, flags=re.MULTILINE)
    headed = {re.sub(r"[*_`:#]", "", name).strip().lower(): body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    found = {}
    for field in FIELDS:
        line = re.search(rf"^[-* \t]*{field}\**[ \t]*:[ \t*]*(.+)$", text, re.MULTILINE | re.IGNORECASE)
        found[field] = (headed.get(field.lower()) or (line[1].strip() if line else ""))[:MAX_FIELD]
    return found


def _method(path: Path, text: str, unread: list[Problem]) -> str | None:
    """The variant if one is named. Raises UserError for a method that is not GRPO, or not decided."""
    decision, why = _at_why(text)
    others = list(dict.fromkeys(m.upper() for m in re.findall(rf"\b(?:{OTHERS})\b", decision, re.IGNORECASE)))
    variants = [name for name in VARIANTS if name != "grpo" and re.search(rf"\b{name.replace('_', '[ ._-]*')}\b", decision, re.IGNORECASE)]
    ours = bool(variants) or re.search(r"\b(?:GRPO|RLVR)\b", decision, re.IGNORECASE)
    if others:
        because = f" ({' '.join(why.split())})" if why and not ours else ""
        said = f"is not decided: it names GRPO and {', '.join(others)}" if ours else f"is {', '.join(others)}, not GRPO{because}"
        fix = "write the method of this run there" if ours else "this trains with GRPO and verifiable rewards only; use the recipe of that method"
        raise UserError("brief", Problem(f"{path.name}, {METHOD}", said, fix))
    if not ours:
        unread.append(Problem(METHOD, "names no method that is known" if decision else "is empty or not there", "write GRPO there"))
    if len(variants) > 1:
        unread.append(Problem(METHOD, f"names several variants ({', '.join(variants)})", "--variant NAME"))
    return variants[0] if len(variants) == 1 else None


def _at_why(text: str) -> tuple[str, str]:
    """The decision, and the reason given for it."""
    found = re.search(r"^[-*_ \t]*why\b\W*", text, re.MULTILINE | re.IGNORECASE)
    return (text[: found.start()], text[found.end() :]) if found else (text, "")


def _models(text: str, places: Iterable[Path]) -> list[str]:
    """Names in `...` first, then links to the hub, then bare ones with a digit (of `and/or` no model is made)."""
    quoted = [name for name in _quoted(text) if _folder(name, places) or _hub_name(name)]
    linked = re.findall(r"huggingface\.co/([A-Za-z][\w.-]*/[\w.-]*\w)", text)
    bare = [name for name in re.findall(r"(?<![\w./`-])([A-Za-z][\w.-]*/[\w.-]*\d[\w.-]*\b)(?![\w/])", text) if _hub_name(name)]
    return [_folder(name, places) or name for name in quoted or linked or bare]


def _quoted(text: str) -> list[str]:
    return [name for name in re.findall(r"`([^`\s]+)`", text) if len(name) <= MAX_NAME]


def _folder(name: str, places: Iterable[Path]) -> str | None:
    return next((_seen_from_here(place, name) for place in places if (place / name / "config.json").is_file()), None)


def _hub_name(name: str) -> bool:
    return looks_like_hub_name(name) and not name.endswith(".md")


def _data(text: str, places: Iterable[Path]) -> list[str]:
    source = re.search(r"^[-* \t]*source\**[ \t]*:?[ \t*]*(.*)$", text, re.MULTILINE | re.IGNORECASE)
    text = source[1] if source else text
    words = [word.strip(".,;") for word in re.findall(r"[^\s`'\"()<>,]+", text)]
    files = [word for word in words if word.lower().endswith(DATA_FILES) and len(word) <= MAX_NAME]
    there = [_seen_from_here(place, name) for name in files if (place := next((p for p in places if (p / name).is_file()), None))]
    return there or [name for name in _quoted(text) if not files and _hub_name(name)]


def _seen_from_here(place: Path, name: str) -> str:
    """`name` as the working folder sees it."""
    return name if place == Path.cwd() or Path(name).is_absolute() else str(place / name)


def _gpus(text: str) -> list[str]:
    """Names of the hardware table, longest first: of `H100 80GB` no plain H100 is made."""
    words, found, at = re.findall(r"[A-Za-z0-9]+", text)[:600], [], 0
    while at < len(words):
        for length in (4, 3, 2, 1):
            try:
                found.append(find_gpu(" ".join(words[at : at + length])).name)
            except UserError:
                continue
            at += length - 1
            break
        at += 1
    return found


def _lora(text: str, unread: list[Problem]) -> int | None:
    """The rank if plain LoRA is chosen."""
    lines = [line for line in text.splitlines() if re.search(r"\bQ?LoRA\b", line, re.IGNORECASE)]
    if not lines:
        return None
    kinds = {word.lower() for word in re.findall(r"\bQ?LoRA\b", text, re.IGNORECASE)}
    full = re.search(r"\bfull\b|all weights", text, re.IGNORECASE) or re.search(r"\b(?:not?|without|instead|reject\w*|before)\b", " ".join(lines))
    ranks = {int(rank) for rank in re.findall(r"\b(?:r|rank)\s*[=:]?\s*(\d{1,4})\b", " ".join(lines), re.IGNORECASE)}
    if full or len(kinds) > 1 or len(ranks) > 1:
        unread.append(Problem(MEMORY, "does not say plainly whether LoRA is meant", "--lora RANK, or nothing for all weights"))
        return None
    if kinds == {"qlora"}:
        unread.append(Problem(MEMORY, "names QLoRA", "--lora RANK, then add quantize: nf4 to model.lora in config.yaml"))
        return None
    return ranks.pop() if ranks else 16
