"""The `grpo:` section: TRL's own settings, checked by name, type, choice and range before anything heavy is imported."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from grpo_rlvr import schema_check
from grpo_rlvr.errors import Problem
from grpo_rlvr.trl_removed import EARLIER_DEFAULTS, RESTS_ON, WITH_VLLM
from grpo_rlvr.trl_settings import REMOVED, Setting, Settings, settings

# What TRL takes but checks late (after the model is loaded and a batch generated) or not at all.
CHOICES: dict[str, tuple[str, ...]] = {
    "loss_type": ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"),
    "scale_rewards": ("group", "batch", "none"),
    "importance_sampling_level": ("token", "sequence"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "vllm_mode": ("server", "colocate"),
    "vllm_model_impl": ("vllm", "transformers"),
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}

# Settings that the run itself owns, and names that recipes write here but that belong in another section.
ELSEWHERE: dict[str, str] = {
    "output_dir": "write `folder:` under `run:`; checkpoints go to <folder>/train/checkpoints",
    "reward_weights": "write `weight:` in each entry of `rewards:`",
    "reward_funcs": "write them under `rewards:`",
    "model": "write `name_or_path:` under `model:`",
    "model_name_or_path": "write `name_or_path:` under `model:`",
    "dtype": "write `dtype:` under `model:`",
    "torch_dtype": "write `dtype:` under `model:`",
    "peft_config": "write `lora:` under `model:`",
    "use_peft": "write `lora:` under `model:`",
    "lora_r": "write `r:` under `model: lora:`",
    "lora_alpha": "write `alpha:` under `model: lora:`",
    "lora_dropout": "write `dropout:` under `model: lora:`",
    "train_dataset": "write `train:` under `data:`",
    "eval_dataset": "write `eval:` under `data:`",
    "dataset_name": "write `train:` under `data:`",
    "tokenizer": "delete the line: the tokenizer of model.name_or_path is used",
    "processing_class": "delete the line: the tokenizer of model.name_or_path is used",
    "resume_from_checkpoint": "delete the line: train.py finds the newest whole checkpoint of the run's folder itself",
    "parallelism_config": "it cannot be written in YAML: configure accelerate (accelerate config)",
}

_MODEL_KWARGS = {"dtype": "model.dtype", "torch_dtype": "model.dtype", "revision": "model.revision"}

_COUNTS = (
    "per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "steps_per_generation", "generation_batch_size",
    "num_generations", "num_generations_eval", "num_iterations", "max_completion_length", "vllm_tensor_parallel_size", "vllm_max_model_length",
    "save_total_limit",
)  # fmt: skip
_RANGES: dict[str, dict] = {
    **{name: {"minimum": 1} for name in _COUNTS},
    **{
        name: {"minimum": 0}
        for name in ("learning_rate", "beta", "epsilon", "epsilon_high", "top_k", "max_grad_norm", "warmup_steps", "weight_decay")
    },
    **{name: {"exclusiveMinimum": 0} for name in ("save_steps", "logging_steps", "num_train_epochs", "repetition_penalty")},
    **{name: {"exclusiveMinimum": 0, "maximum": 1} for name in ("top_p", "vllm_gpu_memory_utilization")},
    **{name: {"minimum": 0, "maximum": 1} for name in ("min_p", "top_entropy_quantile", "ref_model_mixup_alpha")},
}

# Arguments of `trl grpo` that are no settings of GRPOConfig, and what they are here.
FIRST_LEVEL = {
    "model_name_or_path": "model.name_or_path", "model_revision": "model.revision", "torch_dtype": "model.dtype", "dtype": "model.dtype",
    "dataset_name": "data.train", "dataset_config": "data.train: owner/name:configuration:split",
    "dataset_train_split": "data.train: owner/name:split",
    "dataset_test_split": "data.eval", "datasets": "data.train", "reward_funcs": "rewards", "reward_model_name_or_path": "rewards",
    "use_peft": "model.lora", "lora_r": "model.lora.r", "lora_alpha": "model.lora.alpha", "lora_dropout": "model.lora.dropout",
    "lora_target_modules": "model.lora.target_modules", "load_in_4bit": "model.lora.quantize: nf4", "attn_implementation": "grpo.model_init_kwargs",
}  # fmt: skip

# Where the annotation and what works differ: TRL maps the booleans of scale_rewards, fsdp takes true or a list, and
# a null number of generations fails in TRL's own arithmetic.
_ALSO = {"scale_rewards": ["boolean"], "fsdp": ["boolean", "array"]}
_NEVER_NULL = {"num_generations", "shuffle_dataset", "remove_unused_columns"}

_JSON_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "str": "string", "dict": "object", "list": "array", "None": "null"}


def check_settings(written: Mapping[Any, Any], known: Settings | None = None) -> tuple[dict[str, Any], list[Problem]]:
    """The settings with numbers read by their type, and every problem with them.

    Args:
        written: the `grpo:` mapping as read from YAML.
        known: the settings to check against; the installed TRL's by default.
    """
    known = known or settings()
    schemas = _schemas(known.label) if known is settings() else {n: _schema(s) for n, s in known.by_name.items()}
    values, problems = {}, []
    for name, value in written.items():
        where = f"grpo.{name}"
        refusal = _refusal(name, value, known)
        if refusal:
            problems.append(refusal)
            continue
        values[name], found = schema_check.check(_plain(name, value, known.by_name[name]), schemas[name], where)
        problems += found
        if name.endswith("_kwargs") and isinstance(values[name], str):
            fix = f"write it as a mapping: {name}: {{key: value}}"
            problems.append(Problem(where, f"must be a mapping, or text that holds one as JSON; got the text {values[name]!r}", fix))
        if name == "model_init_kwargs" and isinstance(values[name], dict):
            for key in sorted(set(values[name]) & set(_MODEL_KWARGS)):
                place = _MODEL_KWARGS[key]
                problems.append(
                    Problem(f"{where}.{key}", f"belongs to {place}, which the inspection and the memory plan read too", f"write {place} instead")
                )
    return values, problems


def of_flat_recipe(raw: Mapping[Any, Any], sections: Collection[str], known: Settings | None = None) -> tuple[dict[Any, Any], list[Problem]]:
    """A file for TRL's own command has its settings at the first level: those that are TRL's, now or once, and where all of them belong.

    A key or two that stand there by mistake make no such file: ({}, []).

    Args:
        raw: the whole file.
        sections: names that our first level has.
    """
    known = known or settings()
    own = {name: value for name, value in raw.items() if name not in sections and (name in known.by_name or name in REMOVED)}
    if len(own) < 3 and "model_name_or_path" not in raw:
        return {}, []
    problems = [
        Problem(name, f"an argument of TRL's own command (`trl grpo`), which is `{FIRST_LEVEL[name]}` here", f"write {FIRST_LEVEL[name]}")
        for name in raw
        if name in FIRST_LEVEL and name not in sections
    ]
    if own:
        shown = ", ".join(map(str, list(own)[:8])) + (f" and {len(own) - 8} more" if len(own) > 8 else "")
        problems.append(Problem("grpo", f"{len(own)} TRL settings stand at the first level of the file: {shown}", "put them under `grpo:`"))
    return own, problems


def silent_defaults(written: Mapping[Any, Any], known: Settings | None = None) -> list[Problem]:
    """A recipe with removed settings leaves others to the defaults of its day; one problem that names those which have changed since."""
    known = known or settings()
    if not any(name in REMOVED and not REMOVED[name].deprecated and name not in known.by_name for name in written):
        return []
    earlier = EARLIER_DEFAULTS | (WITH_VLLM if written.get("use_vllm") else {})
    changed = {
        name: f"{name} ({', '.join(f'{value} before {release}' for value, release in old)}, now {str(known.by_name[name].default).lower()}"
        for name, old in earlier.items()
        if name not in written and name in known.by_name and (name not in RESTS_ON or written.get(*RESTS_ON[name]))
    }
    if not changed:
        return []
    if "top_k" in changed and written.get("use_vllm"):
        changed["top_k"] += ", which is none"
    fix = "write the values that you mean; `variant: grpo` is the original loss"
    if "report_to" in changed:
        fix += "; `report_to: wandb` (or tensorboard, mlflow) where the run is to be logged there as before"
    said = "; ".join(f"{text})" for text in changed.values())
    return [Problem("grpo", f"a recipe for an older TRL; defaults that it does not write have changed: {said}", fix)]


def _refusal(name: Any, value: Any, known: Settings) -> Problem | None:
    """Why this name may not stand here at all."""
    where = f"grpo.{name}"
    if name in ELSEWHERE:
        return Problem(where, f"{name} is not set here", ELSEWHERE[name])
    if name in REMOVED and (name not in known.by_name or REMOVED[name].deprecated):
        old = REMOVED[name]
        state = f"is deprecated in {known.label}" if name in known.by_name else f"is not a setting of {known.label}"
        since = f" ({'deprecated' if old.deprecated else 'removed'} by {old.since})" if old.since else ""
        return Problem(where, f"`{name}` {state}{since}", old.instead)
    if name not in known.by_name:
        return Problem(
            where,
            f"`{name}` is not a setting of {known.label}",
            schema_check.nearest(name, known.by_name, "see TRL's GRPOConfig for the settings it has"),
        )
    if name == "remove_unused_columns" and value is True:
        return Problem(where, "true would drop the gold columns that the rewards read", "delete the line")
    if name == "auto_find_batch_size" and value is True:
        return Problem(where, "GRPO cannot shrink its batch by itself: groups would be cut", "delete the line and lower per_device_train_batch_size")
    return None


def _plain(name: str, value: Any, setting: Setting) -> Any:
    """What YAML and TRL spell in two ways, in one: an unquoted `no` is false in YAML 1.1."""
    if name == "scale_rewards" and isinstance(value, bool):
        return "group" if value else "none"
    return "no" if value is False and "no" in setting.choices else value


@lru_cache(maxsize=2)
def _schemas(label: str) -> dict[str, dict]:
    return {name: _schema(setting) for name, setting in settings().by_name.items()}


def _schema(setting: Setting) -> dict:
    """The JSON Schema of one setting, from its annotation, its choices and our ranges."""
    types = _types(ast.parse(setting.annotation, mode="eval").body)
    types = [t for t in types if t != "null" or setting.name not in _NEVER_NULL] + _ALSO.get(setting.name, []) if types else []
    out: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
    choices = setting.choices or CHOICES.get(setting.name, ())
    if choices:
        out["enum"] = [*choices, *([True, False] if "boolean" in types else []), *([None] if "null" in types else [])]
    out.update(_RANGES.get(setting.name, {}))
    if setting.default is not None:
        out["default"] = setting.default
    return out


def _types(node: ast.expr) -> list[str]:
    """JSON types of an annotation such as `dict[str, Any] | str | None`; [] where anything goes."""
    if isinstance(node, ast.BinOp):
        parts = [_types(node.left), _types(node.right)]
        return list(dict.fromkeys(t for part in parts for t in part)) if all(parts) else []
    if isinstance(node, ast.Subscript):
        name = ast.unparse(node.value)
        if name in ("Optional", "Union"):
            inner = [_types(e) for e in (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])]
            return list(dict.fromkeys([t for part in inner for t in part] + ["null"] * (name == "Optional"))) if all(inner) else []
        if name == "Literal":
            return ["boolean" if isinstance(getattr(node.slice, "value", None), bool) else "string"]
        return _types(node.value)
    name = ast.unparse(node)
    # Any other class (an enum, mostly) is written as its text.
    return [] if name == "Any" else [_JSON_TYPES.get(name, "string")]


def editor_properties(known: Settings) -> dict[str, dict]:
    """The `grpo` properties of config.schema.json: what an editor completes, without what is refused here."""
    return {n: _schema(s) for n, s in known.by_name.items() if n not in ELSEWHERE and n not in REMOVED and n != "auto_find_batch_size"}
