"""The config file: what is read, what is refused and with which words."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from grpo_rlvr import config as config_module
from grpo_rlvr import sections
from grpo_rlvr.config import Config, LoraSection, RewardSection, config_to_yaml, load_config, looks_like_hub_name
from grpo_rlvr.errors import UserError
from grpo_rlvr.rewards.user_functions import load_function

TEMPLATES = Path(config_module.__file__).resolve().parents[2] / "templates"
SCRIPTS = TEMPLATES.parent / "scripts"

BASE = """\
model: {name_or_path: org/model}
data: {train: train.jsonl}
rewards:
  - use: math
"""


def load(tmp_path, text: str) -> Config:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def problems(tmp_path, text: str) -> dict[str, str]:
    """where -> message and fix of each problem."""
    with pytest.raises(UserError) as caught:
        load(tmp_path, text)
    assert caught.value.kind == "config"
    return {p.where: f"{p.message} | {p.fix}" for p in caught.value.problems}


# Defaults and contents


def test_the_least_config_has_every_default(tmp_path):
    config = load(tmp_path, BASE)
    assert config.model == sections.ModelSection("org/model", None, "float32", None)
    assert config.data == sections.DataSection("train.jsonl", None, {}, None, None, 256)
    assert config.rewards == (RewardSection("math", 1.0, {}, None, None),)
    assert config.inspection == sections.InspectionSection(32, None, 32, 0, 50, 60, ("human",), 0.5)
    assert config.hardware == sections.HardwareSection(None, 1, 1, None, None)
    assert (config.variant, config.grpo) == (None, {})
    assert config.run_folder == tmp_path / "runs/grpo"
    assert config.inspection_folder == tmp_path / "runs/grpo/inspection"
    assert config.gate_path == tmp_path / "runs/grpo/inspection/gate.json"
    assert config.num_generations == 8
    assert config.sampling == {
        "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "max_completion_length": 512,
        "chat_template_kwargs": None, "generation_kwargs": None,
    }  # fmt: skip


def test_everything_written_is_read(tmp_path):
    config = load(
        tmp_path,
        """\
model: {name_or_path: m, revision: abc, dtype: bfloat16, lora: {r: 8, alpha: 16.5, target_modules: [q_proj, v_proj]}}
data: {train: a.jsonl, eval: b.jsonl, columns: {prompt: question}, system_prompt: hi, eval_limit: 9}
rewards:
  - {use: 'rewards.py:mine', weight: -0.5, args: {tolerance: 1e-3}, required: false, name: other}
  - {use: my.package:score}
inspection: {prompts: 4, samples_per_prompt: 2, batch_size: 3, seed: 5, min_read: 6, read: 7, reviewers: [human, agent], pass_threshold: 1}
hardware: {gpu: h100-80gb, count: 8, nodes: 2}
grpo: {num_generations: 16, temperature: 0.7, chat_template_kwargs: {enable_thinking: false}}
run: {folder: out, gate: /else/gate.json}
""",
    )
    assert config.model.lora == LoraSection(8, 16.5, 0.0, ["q_proj", "v_proj"])
    assert config.rewards[0] == RewardSection("rewards.py:mine", -0.5, {"tolerance": 0.001}, False, "other")
    assert config.inspection.reviewers == ("human", "agent")
    assert config.data.columns == {"prompt": "question"}
    assert config.num_generations == 16
    assert config.sampling["temperature"] == 0.7
    assert config.sampling["chat_template_kwargs"] == {"enable_thinking": False}
    assert config.gate_path == Path("/else/gate.json")
    assert load(tmp_path, BASE + "inspection: {read: 50}\n").inspection.read == 50  # as many as min_read
    assert config.raw["hardware"]["nodes"] == 2
    assert pickle.loads(pickle.dumps(config)) == config


def test_sections_without_content_are_their_defaults(tmp_path):
    config = load(tmp_path, BASE + "inspection:\nhardware:\ngrpo:\nrun:\nvariant:\n")
    assert config == load(tmp_path, BASE)


def test_paths_start_from_the_configs_folder(tmp_path, monkeypatch):
    config = load(tmp_path, BASE)
    monkeypatch.chdir("/")
    assert config.resolve("data/x.jsonl") == tmp_path / "data/x.jsonl"
    assert config.resolve("/abs/x") == Path("/abs/x")
    assert config.resolve("~/x") == Path.home() / "x"


def test_a_config_named_relatively_survives_a_change_of_folder(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    config = load_config("config.yaml")
    monkeypatch.chdir("/")
    assert config.run_folder == tmp_path / "runs/grpo"


def test_sections_are_frozen(tmp_path):
    config = load(tmp_path, BASE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.variant = "x"
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.model.dtype = "x"


# Resolved configs


def test_resolved_yaml_loads_equal_in_another_folder(tmp_path):
    (tmp_path / "local-model").mkdir()
    config = load(
        tmp_path,
        BASE.replace("org/model", "local-model").replace("- use: math", "- {use: 'r.py:f', args: {exact: '1e-6', small: 1e-6, yes: 'no'}}")
        + "grpo: {learning_rate: 1e-6, scale_rewards: no, save_strategy: no, generation_kwargs: {stop: ['2024-01-01']}}\n",
    )
    other = tmp_path / "else" / "config.resolved.yaml"
    other.parent.mkdir()
    other.write_text(config_to_yaml(config), encoding="utf-8")
    again = load_config(other)
    assert again == config
    assert again.data.train == str(tmp_path / "train.jsonl")
    assert again.rewards[0].use == f"{tmp_path / 'r.py'}:f"
    assert again.rewards[0].args == {"exact": "1e-6", "small": 1e-6, True: "no"}
    assert again.model.name_or_path == str(tmp_path / "local-model")
    assert again.run_folder == config.run_folder
    assert again.grpo == {"learning_rate": 1e-6, "scale_rewards": "none", "save_strategy": "no", "generation_kwargs": {"stop": ["2024-01-01"]}}
    assert config_to_yaml(again) == config_to_yaml(config)


def test_hub_names_stay_in_resolved_yaml(tmp_path):
    text = config_to_yaml(load(tmp_path, BASE.replace("train.jsonl", "'owner/set:train'")))
    assert "owner/set:train" in text and f"{tmp_path}/owner" not in text
    assert "name_or_path: org/model" in text


@pytest.mark.parametrize(
    "name, local",
    [
        ("owner/set", False),
        ("owner/set:train", False),
        ("owner/here", True),
        ("data/x.csv", True),
        ("./x", True),
        ("/a/x", True),
        ("a/b/c", True),
        ("x", True),
    ],
)
def test_which_data_is_a_file(tmp_path, name, local):
    (tmp_path / "owner" / "here").mkdir(parents=True)
    config = load(tmp_path, BASE.replace("train.jsonl", json.dumps(name)))
    assert config.resolved().data.train == (str(tmp_path / name) if local else name)
    assert config.data.train == name


def test_resolved_yaml_keeps_order_and_letters(tmp_path):
    text = config_to_yaml(load(tmp_path, BASE.replace("train: train.jsonl", "train: train.jsonl, system_prompt: Überlege")))
    assert list(yaml.safe_load(text)) == ["model", "data", "rewards", "inspection", "hardware", "variant", "grpo", "run"]
    assert "Überlege" in text


def test_equality_is_of_what_is_asked(tmp_path):
    one = load(tmp_path, BASE)
    assert one == load(tmp_path, BASE + "hardware: {count: 1}\n")
    assert one != load(tmp_path, BASE + "hardware: {count: 2}\n")
    elsewhere = tmp_path / "sub"
    elsewhere.mkdir()
    assert one != load(elsewhere, BASE)  # another train.jsonl
    assert one != "config"


# Files that are no config


# Ten times ten times ten of one value, eleven times over.
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "empty"),
        (b"# only a comment\n", "empty"),
        (b"- a\n- b\n", "list, not a mapping"),
        (b"just text\n", "str, not a mapping"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "not text in UTF-8"),
        (b"\x00\x01\x02", "not valid YAML"),
        (b"model: {name_or_path: a\ndata: x\n", "line 2, column 5"),
        (b"model:\n\tname_or_path: a\n", "line 2, column 1"),
        (b"a: 1\n---\nb: 2\n", "single document"),
        (b"a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        (b"a: *nowhere\n", "undefined alias"),
        (b"a: {{ x }}\n", "unhashable key"),
        (b"[" * 100_000, "nested too deeply"),
        (b"x: 1\n" * 300_000, "bytes; a config has at most"),
        (b"n: " + b"9" * 5000, "cannot be read"),
        (LAUGHS.encode(), "stand for more than 100,000 values"),
        (b"m0: &m0 {k: 1}\n" + b"".join(b"m%d: &m%d {<<: [*m%d, *m%d]}\n" % (i, i, i - 1, i - 1) for i in range(1, 24)), "stand for more than"),
        (b"x: &a [*a]\n", "refers to itself"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, words):
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert caught.value.kind == "config"
    assert len(caught.value.problems) == 1
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.problems[0].fix


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        load_config(tmp_path / "absent.yaml")
    with pytest.raises(UserError, match="a folder, not a file"):
        load_config(tmp_path)


def test_byte_order_mark_and_windows_lines(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load_config(path).model.name_or_path == "org/model"


def test_a_config_that_refers_to_itself(tmp_path):
    assert "refers to itself" in next(iter(problems(tmp_path, BASE + "grpo: {chat_template_kwargs: &a {b: *a}}\n").values()))


def test_anchors_within_bounds_are_taken(tmp_path):
    config = load(tmp_path, BASE + "grpo:\n  model_init_kwargs: {a: &a [1, 2], b: *a, c: *a}\n")
    assert config.grpo["model_init_kwargs"] == {"a": [1, 2], "b": [1, 2], "c": [1, 2]}


@pytest.mark.parametrize("character", ["\\0", "\\n", "\\e"])
def test_names_with_control_characters(tmp_path, character):
    text = 'model: {name_or_path: "a@", revision: "@"}\ndata: {train: "a@.jsonl", eval: "@"}\nrun: {folder: "a@", gate: "@"}\nrewards:\n'
    text += '  - {use: "a@.py:f", name: "@"}\n  - {use: judge, args: {calibration: "@"}}\n'
    found = problems(tmp_path, text.replace("@", character))
    named = {where for where, message in found.items() if "control character" in message}
    assert named == {
        "model.name_or_path", "model.revision", "data.train", "data.eval", "run.folder", "run.gate",
        "rewards[0].use", "rewards[0].name", "rewards[1].args.calibration",
    }  # fmt: skip
    assert not any(c in "".join(found.values()) for c in "\0\x1b")


def test_all_duplicate_keys_are_named_with_lines(tmp_path):
    found = problems(tmp_path, BASE + "grpo:\n  beta: 0.1\n  seed: 1\n  beta: 0.2\nmodel: {name_or_path: b}\n")
    assert len(found) == 2
    assert any("line 8" in where and "`beta`" in text and "line 6" in text for where, text in found.items())
    assert any("line 9" in where and "`model`" in text and "line 1" in text for where, text in found.items())


def test_merge_keys_are_no_duplicates(tmp_path):
    config = load(tmp_path, BASE.replace("- use: math", "- &r {use: math, weight: 2}\n  - {<<: *r, weight: 3, name: again}"))
    assert [(r.use, r.weight) for r in config.rewards] == [("math", 2), ("math", 3)]


# Problems of the sections


def test_every_problem_at_once(tmp_path):
    found = problems(
        tmp_path,
        """\
modle: {}
model: {name_or_path: 5, dtype: float23, lorra: {}}
data: {eval: [x]}
rewards: [{use: maths, wieght: 1}, {weight: heavy}]
inspection: {pass_threshold: 2, read: 10}
grpo: {learning_rat: 1, max_prompt_length: 512}
""",
    )
    assert set(found) == {
        "modle", "model.name_or_path", "model.dtype", "model.lorra", "data.eval", "data.train", "rewards[0].use", "rewards[0].wieght",
        "rewards[1].use", "rewards[1].weight", "inspection.pass_threshold", "inspection.read", "grpo.learning_rat", "grpo.max_prompt_length",
        "grpo",
    }  # fmt: skip
    assert "`model`" in found["modle"]
    assert "got the number 5" in found["model.name_or_path"] and "quotes" in found["model.name_or_path"]
    assert "`float32`" in found["model.dtype"] and "'float23'" in found["model.dtype"]
    assert "`lora`" in found["model.lorra"]
    assert "a list of 1" in found["data.eval"]
    assert "is missing" in found["data.train"]
    assert "`math`" in found["rewards[0].use"]
    assert "`weight`" in found["rewards[0].wieght"]
    assert "must be a number, got the text 'heavy'" in found["rewards[1].weight"]
    assert "at most 1, got 2" in found["inspection.pass_threshold"]
    assert "10" in found["inspection.read"] and "50" in found["inspection.read"]
    assert "`learning_rate`" in found["grpo.learning_rat"]


@pytest.mark.parametrize("missing", ["model", "data", "rewards"])
def test_required_sections(tmp_path, missing):
    lines = {"model": "model: {name_or_path: m}\n", "data": "data: {train: t.jsonl}\n", "rewards": "rewards: [{use: math}]\n"}
    assert set(problems(tmp_path, "".join(v for k, v in lines.items() if k != missing))) == {missing}


@pytest.mark.parametrize(
    "value, words",
    [("[]", "at least 1 entry, got 0"), ("", "nothing (null)"), ("math", "got the text 'math' | write a list"), ("[math]", "got the text")],
)
def test_rewards_must_be_a_list_with_entries(tmp_path, value, words):
    found = problems(tmp_path, f"model: {{name_or_path: m}}\ndata: {{train: t.jsonl}}\nrewards: {value}\n")
    assert words in "".join(found.values())


@pytest.mark.parametrize("use", [*config_module.REWARDS, "rewards.py:mine", "../lib/my rewards.py:mine", "/abs/r.py:f", "module:f", "a.b_c.d:f"])
def test_reward_names_that_are_known(tmp_path, use):
    assert load(tmp_path, BASE.replace("use: math", f"use: {json.dumps(use)}")).rewards[0].use == use


@pytest.mark.parametrize(
    "use, words",
    [
        ("Math", "`math`"),
        ("format_reward", "`format`"),
        ("partial-format", "`partial_format`"),
        *((use, "file.py:function") for use in ("zzz", "rewards.py", "rewards.py:", "rewards.py:two words", "a-b:f", ":f")),
    ],
)
def test_reward_names_that_are_not(tmp_path, use, words):
    assert words in problems(tmp_path, BASE.replace("use: math", f"use: {json.dumps(use)}"))["rewards[0].use"]


def test_variant_brings_its_settings_and_rewards_under_what_is_written(tmp_path):
    assert load(tmp_path, BASE + "variant: null\n").grpo == {}
    config = load(tmp_path, BASE + "variant: dapo\ngrpo: {max_completion_length: 1000, epsilon_high: 0.3}\n")
    assert (config.variant, config.setting("epsilon_high"), config.setting("mask_truncated_completions")) == ("dapo", 0.3, True)
    assert config.rewards[1:] == (RewardSection("overlong", 1.0, {"cache": 200}),)
    # Written out and read again it is the same, with the reward once.
    (tmp_path / "again.yaml").write_text(config_to_yaml(config))
    assert load_config(tmp_path / "again.yaml") == config
    own = load(tmp_path, BASE.replace("rewards:", "rewards:\n  - {use: overlong, weight: 0, args: {cache: 9}}") + "variant: dapo\n")
    assert [(r.use, r.weight) for r in own.rewards] == [("overlong", 0), ("math", 1.0)]
    # Four updates a batch: the batch is the user's where they say so.
    assert load(tmp_path, BASE + "variant: gspo\ngrpo: {gradient_accumulation_steps: 3}\n").grpo["steps_per_generation"] == 12
    assert "steps_per_generation" not in load(tmp_path, BASE + "variant: gspo\ngrpo: {generation_batch_size: 64}\n").grpo


def test_variant_that_is_not_one(tmp_path):
    assert "did you mean `dr_grpo`?" in problems(tmp_path, BASE + "variant: drgrpo\n")["variant"]
    found = problems(tmp_path, BASE + "variant: gspo\ngrpo: {importance_sampling_level: token}\n")["variant"]
    assert "sequence" in found and "token" in found and "another method" in found
    assert "max_completion_length" in problems(tmp_path, BASE + "variant: dapo\ngrpo: {max_completion_length: null}\n")["variant"]


@pytest.mark.parametrize(
    "line, where, words",
    [
        ("learning_rate: 1e-6", "learning_rate", "under `grpo:`"),
        ("dtype: float32", "dtype", "under `model:`"),
        ("folder: x", "folder", "under `run:`"),
        ("system_prompt: x", "system_prompt", "under `data:`"),
        ("output_dir: x", "output_dir", "under `run:`"),
        ("1: x", "1", "no such key"),
    ],
)
def test_keys_of_another_section_say_where_they_belong(tmp_path, line, where, words):
    assert words in problems(tmp_path, BASE + line + "\n")[where]


def test_numbers_written_as_text_in_sections(tmp_path):
    config = load(tmp_path, BASE + "    weight: '5e-1'\ninspection: {prompts: '40', seed: 3.0, pass_threshold: '1'}\n")
    assert config.rewards[0].weight == 0.5
    assert config.inspection.prompts == 40 and type(config.inspection.prompts) is int
    assert type(config.inspection.seed) is int
    assert "whole number" in problems(tmp_path, BASE + "inspection: {prompts: 1.5}\n")["inspection.prompts"]
    assert "whole number" in problems(tmp_path, BASE + "inspection: {prompts: '1.5'}\n")["inspection.prompts"]
    assert "got true" in problems(tmp_path, BASE + "inspection: {prompts: yes}\n")["inspection.prompts"]
    assert "number" in problems(tmp_path, BASE + "    weight: .nan\n")["rewards[0].weight"]


def test_loading_imports_nothing_heavy():
    code = (
        "import sys; from grpo_rlvr.config import load_config; c = load_config(sys.argv[1])\n"
        "print([m for m in ('torch', 'trl', 'transformers', 'datasets', 'numpy', 'jsonschema') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code, str(TEMPLATES / "config.yaml")], cwd=SCRIPTS, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


SECRETS = {
    "grpo: {hub_token: hf_s3cret}": "grpo.hub_token",
    "grpo: {model_init_kwargs: {token: hf_s3cret}}": "grpo.model_init_kwargs.token",
    "hardware: {vllm_server: {arguments: {api-key: hf_s3cret}}}": "hardware.vllm_server.arguments.api-key",
    "inspection: {server: {base_url: http://localhost/v1, settings: {extra: [{api_key: hf_s3cret}]}}}": "inspection.server.settings.extra[0].api_key",
}


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_refused_and_not_repeated(tmp_path, text):
    found = problems(tmp_path, BASE + text + "\n")
    assert "holds a secret" in found[SECRETS[text]] and "s3cret" not in json.dumps(found)


def test_what_only_looks_like_a_secret_is_taken(tmp_path):
    text = "grpo: {model_init_kwargs: {token: true}, vllm_structured_outputs_regex: token}\n"
    config = load(tmp_path, BASE.replace("- use: math", "- {use: 'mine.py:f', args: {token: <eos>, secret: a}}\n  - use: math") + text)
    assert config.rewards[0].args["token"] == "<eos>"


@pytest.mark.parametrize("use", [r"C:\x\rewards.py:f", "C:/x/rewards.py:f", r"sub\rewards.py:f", "../rewards.py:f"])
def test_addresses_of_rewards_with_drives_and_backslashes(tmp_path, use):
    config = load(tmp_path, BASE.replace("use: math", f"use: '{use}'"))
    assert config.rewards[0].use == use
    with pytest.raises(UserError, match="there is no file"):  # the drive's colon is not taken for that of the function
        load_function(use, config.base)


@pytest.mark.parametrize("name", [r"C:\x\train.jsonl", "C:/x/train.jsonl", "C:/x/train", r"data\train"])
def test_windows_paths_are_no_names_on_the_hub(name):
    assert not looks_like_hub_name(name)
