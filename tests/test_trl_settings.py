"""What is read from TRL's source text against TRL itself, and the tables of settings that are gone."""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from grpo_rlvr import grpo_section, trl_settings
from grpo_rlvr.trl_removed import EARLIER_DEFAULTS
from grpo_rlvr.trl_settings import REMOVED, Settings, read_snapshot, settings, snapshot_data

SCRIPTS = Path(trl_settings.__file__).parents[1]

needs_trl = pytest.mark.skipif(trl_settings._folder("trl") is None, reason="TRL is not installed")


@needs_trl
def test_reads_grpo_base_and_training_arguments():
    known = settings()
    assert known.installed
    assert known.trl == importlib.metadata.version("trl")
    # One from GRPOConfig, one that TRL's base overrides, one from transformers alone.
    assert known.by_name["loss_type"].default == "dapo"
    assert known.by_name["logging_steps"].default == 10
    assert known.by_name["max_grad_norm"].default == 1.0
    assert known.by_name["learning_rate"].default == 1e-6  # GRPO's, not transformers' 5e-5
    assert known.by_name["max_steps"].default == -1
    assert known.by_name["epsilon_high"].annotation == "float | None"
    assert "reference model" in known.by_name["beta"].help


@needs_trl
def test_choices_come_from_the_enums():
    known = settings().by_name
    assert known["save_strategy"].choices == ("no", "steps", "epoch", "best")
    assert "cosine_with_min_lr" in known["lr_scheduler_type"].choices
    assert "adamw_8bit" in known["optim"].choices
    assert known["report_to"].choices == ()


@needs_trl
@pytest.mark.model
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_the_imported_dataclass():
    from trl import GRPOConfig

    fields = {f.name: f for f in dataclasses.fields(GRPOConfig)}
    known = settings().by_name
    assert list(known) == list(fields)
    for name, field in fields.items():
        if known[name].default is not None:
            assert getattr(field.default, "value", field.default) == known[name].default, name
    unread = {n for n, f in fields.items() if f.default is not dataclasses.MISSING and f.default is not None and known[n].default is None}
    assert unread == set()


@needs_trl
def test_snapshot_matches_the_installed_version():
    bundled = json.loads(trl_settings.SNAPSHOT.read_text())
    assert bundled["schema"] == "grpo-rlvr/trl-settings/1"
    if bundled["trl"] != settings().trl or bundled["transformers"] != settings().transformers:
        pytest.skip(f"the snapshot is of TRL {bundled['trl']}, transformers {bundled['transformers']}")
    assert {k: v for k, v in bundled.items() if k != "schema"} == snapshot_data(settings()), "run: python -m grpo_rlvr.trl_settings --write"


def test_snapshot_is_used_and_said_without_trl(monkeypatch):
    monkeypatch.setattr(trl_settings, "_folder", lambda package: None)
    found = trl_settings.settings.__wrapped__()
    assert not found.installed
    assert "bundled" in found.label and found.trl in found.label
    assert found.by_name["num_generations"].default == 8
    assert found.by_name["save_strategy"].choices[0] == "no"


def test_snapshot_is_used_when_the_source_is_not_what_we_know(monkeypatch, tmp_path):
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "grpo_config.py").write_text("class Other:\n    pass\n")
    monkeypatch.setattr(trl_settings, "_folder", lambda package: tmp_path)
    assert not trl_settings.settings.__wrapped__().installed


def test_reading_follows_bases_and_leaves_code_alone(tmp_path):
    trl, hf = tmp_path / "trl", tmp_path / "transformers"
    (trl / "trainer").mkdir(parents=True)
    hf.mkdir()
    (trl / "trainer" / "grpo_config.py").write_text(
        "raise SystemExit('run')\nfrom .base import Base\nclass GRPOConfig(Base):\n    a: int = field(default=2)\n    own: dict | None = None\n"
    )
    (trl / "trainer" / "base.py").write_text("from transformers import TrainingArguments as T\nclass Base(T):\n    b: float = field(default=-1)\n")
    (hf / "training_args.py").write_text(
        "from enum import Enum\nclass Kind(Enum):\n    X = 'x'\n    Y = 'y'\n"
        "class TrainingArguments:\n    fixed = 'y'\n"
        "    a: int = field(default=1, metadata={'help': 'h'})\n    kind: Kind | str = field(default=fixed)\n"
    )
    found = trl_settings.read_settings(trl, hf)
    read = {n: (s.default, s.choices) for n, s in found.items()}
    assert read == {"a": (2, ()), "kind": ("y", ("x", "y")), "b": (-1, ()), "own": (None, ())}
    assert found["a"].help == ""  # the overriding field's, which has none


@needs_trl
@pytest.mark.parametrize("name", sorted(REMOVED))
def test_every_removed_setting_is_gone_or_deprecated(name):
    setting = settings().by_name.get(name)
    if REMOVED[name].deprecated:
        assert "Deprecated" in setting.help
    else:
        assert setting is None


@needs_trl
@pytest.mark.parametrize("name", sorted(REMOVED))
def test_the_replacement_exists(name):
    instead = REMOVED[name].instead
    if instead.startswith("write "):
        assert instead.split()[1].rstrip(":") in settings().by_name or instead == "write it in fsdp_config"


@needs_trl
def test_loss_types_and_aggregations_are_those_of_the_trainer():
    tree = ast.parse((trl_settings._folder("trl") / "trainer" / "grpo_trainer.py").read_text(encoding="utf-8"))
    compared: dict[str, set] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute):
            for constant in ast.walk(node.comparators[0]):
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                    compared.setdefault(node.left.attr, set()).add(constant.value)
    for name in ("loss_type", "scale_rewards", "importance_sampling_level", "multi_objective_aggregation", "vllm_importance_sampling_mode"):
        assert compared[name] == set(grpo_section.CHOICES[name]), name


@needs_trl
@pytest.mark.parametrize("name", sorted(grpo_section.CHOICES))
def test_choices_are_named_in_trls_own_help(name):
    setting = settings().by_name[name]
    assert setting.default in grpo_section.CHOICES[name]
    for choice in grpo_section.CHOICES[name]:
        assert choice in setting.help


def test_tables_name_settings_that_exist():
    known = settings().by_name
    assert set(grpo_section._RANGES) <= set(known)
    assert set(grpo_section._ALSO) | grpo_section._NEVER_NULL <= set(known)
    assert not set(grpo_section.ELSEWHERE) & set(REMOVED)


def test_an_old_recipe_is_told_which_of_its_silent_defaults_have_changed():
    (problem,) = grpo_section.silent_defaults({"max_prompt_length": 512, "beta": 0.04})
    assert "loss_type (grpo before 0.16, bnpo before 0.22, now dapo)" in problem.message and "temperature (0.9" in problem.message
    assert "beta" not in problem.message and "variant: grpo" in problem.fix and "use_bias_correction_kl (false before 1.10" in problem.message
    assert "vllm_" not in problem.message
    (problem,) = grpo_section.silent_defaults({"max_prompt_length": 512, "beta": 0.0, "use_vllm": True})
    assert (
        "vllm_mode (a GPU of its own before 0.16, server before 1.0, now colocate)" in problem.message
        and "use_bias_correction_kl" not in problem.message
    )
    assert set(EARLIER_DEFAULTS) <= set(settings().by_name)


def test_what_vllm_drew_from_is_said_as_it_was():
    (plain,) = grpo_section.silent_defaults({"max_prompt_length": 512})
    (with_vllm,) = grpo_section.silent_defaults({"max_prompt_length": 512, "use_vllm": True})
    assert "top_k (50 before 0.18, now 0)" in plain.message
    assert "top_k (none with vLLM before 0.16, 50 before 0.18, now 0, which is none)" in with_vllm.message


def test_an_old_recipe_is_told_that_it_no_longer_logs_to_wandb():
    (problem,) = grpo_section.silent_defaults({"max_prompt_length": 512})
    assert "report_to (all before transformers 5.0, now none)" in problem.message and "report_to: wandb" in problem.fix
    (problem,) = grpo_section.silent_defaults({"max_prompt_length": 512, "report_to": "wandb"})
    assert "report_to" not in problem.message + problem.fix


@pytest.mark.parametrize("written", [{"beta": 0.04}, {"max_prompt_length": 512, "beta": 0.0, **dict.fromkeys(set(EARLIER_DEFAULTS) - {"beta"}, 1)}])
def test_a_recipe_of_today_or_one_that_says_all_is_not(written):
    assert grpo_section.silent_defaults(written) == []


def test_every_default_passes_its_own_check():
    written = {n: s.default for n, s in settings().by_name.items() if s.default is not None and n not in grpo_section.ELSEWHERE and n not in REMOVED}
    values, problems = grpo_section.check_settings(written)
    assert problems == []
    assert values == written


def test_fast_and_without_torch():
    # The text is parsed in a fresh process; the bound is loose, imports of torch or trl would take seconds.
    code = "import sys, time; t = time.perf_counter(); from grpo_rlvr.trl_settings import settings; s = settings()\n"
    code += "print(time.perf_counter() - t, 'torch' in sys.modules, 'trl' in sys.modules, 'transformers' in sys.modules)"
    began = time.perf_counter()
    out = subprocess.run([sys.executable, "-c", code], cwd=SCRIPTS, capture_output=True, text=True, check=True).stdout.split()
    assert out[1:] == ["False", "False", "False"]
    assert float(out[0]) < 1.0, time.perf_counter() - began


def test_cached():
    assert settings() is settings()


def test_write_regenerates_what_is_bundled(tmp_path, monkeypatch):
    if not settings().installed:
        pytest.skip("TRL is not installed")
    here = tmp_path / "scripts" / "grpo_rlvr"
    here.mkdir(parents=True)
    (tmp_path / "templates").mkdir()
    original = json.loads((trl_settings.HERE / "config.schema.json").read_text())
    original["properties"]["grpo"]["properties"] = {}
    (here / "config.schema.json").write_text(json.dumps(original))
    monkeypatch.setattr(trl_settings, "HERE", here)
    monkeypatch.setattr(trl_settings, "SNAPSHOT", here / "trl_settings.json")
    assert len(trl_settings._write()) == 3
    written = json.loads((tmp_path / "templates" / "config.schema.json").read_text())
    assert written == json.loads((here / "config.schema.json").read_text())
    assert written["properties"]["grpo"]["properties"]["loss_type"]["enum"][0] == "grpo"
    assert read_snapshot(here / "trl_settings.json").by_name.keys() == settings().by_name.keys()


def test_label_of_the_installed_version():
    assert Settings({}, "9.9", "1", installed=True).label == "TRL 9.9"
