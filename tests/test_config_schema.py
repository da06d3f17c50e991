"""The config's JSON Schema, the template, and our own checker beside jsonschema."""

from __future__ import annotations

import copy
import dataclasses
import json
import math

import jsonschema
import pytest
import yaml
from grpo_rlvr import config as config_module
from grpo_rlvr import schema_check, sections, trl_settings
from grpo_rlvr.config import LoraSection, RewardSection, config_to_yaml, load_config
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from test_config import BASE, TEMPLATES, load, problems


def test_the_two_copies_of_the_schema_are_the_same():
    assert (TEMPLATES / "config.schema.json").read_bytes() == config_module.SCHEMA.read_bytes()


def test_schema_is_a_schema_of_what_the_checker_knows():
    schema = json.loads(config_module.SCHEMA.read_text())
    jsonschema.Draft7Validator.check_schema(schema)

    def walk(node):
        assert set(node) <= schema_check.KEYWORDS | schema_check.ANNOTATIONS
        for child in [*node.get("properties", {}).values(), *([node["items"]] if "items" in node else [])]:
            walk(child)
        if isinstance(node.get("additionalProperties"), dict):
            walk(node["additionalProperties"])

    walk(schema)


def test_grpo_part_of_the_schema_is_the_bundled_list():
    from grpo_rlvr.grpo_section import editor_properties

    schema = json.loads(config_module.SCHEMA.read_text())
    expected = editor_properties(trl_settings.read_snapshot(trl_settings.SNAPSHOT))
    assert schema["properties"]["grpo"]["properties"] == expected, "run: python -m grpo_rlvr.trl_settings --write"
    assert "output_dir" not in expected and "vllm_importance_sampling_cap" not in expected


SECTIONS = {
    "model": sections.ModelSection,
    "data": sections.DataSection,
    "inspection": sections.InspectionSection,
    "hardware": sections.HardwareSection,
    "run": sections.RunSection,
}


@pytest.mark.parametrize(
    "part, section",
    [(("properties", name), cls) for name, cls in SECTIONS.items()]
    + [
        (("properties", "rewards", "items"), RewardSection),
        (("properties", "model", "properties", "lora"), LoraSection),
        (("properties", "inspection", "properties", "server"), sections.ServerSection),
    ],
)
def test_schema_and_dataclasses_have_the_same_fields_and_defaults(part, section):
    node = json.loads(config_module.SCHEMA.read_text())
    for key in part if part[0] != "properties" or len(part) != 2 else ("properties", part[1]):
        node = node[key]
    fields = {f.name: f for f in dataclasses.fields(section)}
    assert set(node["properties"]) == set(fields)
    for name, field in fields.items():
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if default is dataclasses.MISSING:
            assert name in node["required"]
        else:
            assert node["properties"][name].get("default", "none given") == (list(default) if isinstance(default, tuple) else default), name


def test_a_server_for_the_inspection(tmp_path):
    text = BASE + "inspection: {backend: openai, server: {base_url: 'http://localhost:8000/v1', settings: {top_k: null, max_completion_tokens: 9}}}\n"
    config = load(tmp_path, text)
    assert config.inspection.server == sections.ServerSection("http://localhost:8000/v1", settings={"top_k": None, "max_completion_tokens": 9})
    again = tmp_path / "again.yaml"
    again.write_text(config_to_yaml(config))
    assert load_config(again) == config


def test_mistakes_in_the_server_section(tmp_path):
    assert "server: {base_url" in problems(tmp_path, BASE + "inspection: {backend: openai}\n")["inspection.server"]
    server = "{base_url: x, api_key_env: sk-s3cret, settings: {temperature: 0.2, max_tokens: 5, n: 2, stop: [a]}}"
    said = problems(tmp_path, BASE + f"inspection: {{server: {server}}}\n")
    assert set(said) == {f"inspection.server.{k}" for k in ("api_key_env", "settings.temperature", "settings.max_tokens", "settings.n")}
    assert "s3cret" not in str(said) and "grpo.max_completion_length" in said["inspection.server.settings.max_tokens"]


def test_the_template_loads_and_trains_as_it_stands():
    from grpo_rlvr.training.lint import lint

    path = TEMPLATES / "config.yaml"
    config = load_config(path)
    assert path.read_text().startswith("# yaml-language-server: $schema=config.schema.json\n")
    assert [(r.use, r.weight) for r in config.rewards] == [("format", 0.2), ("math", 1.0)]
    assert config.model.dtype == "float32" and config.model.lora is None
    assert config.data.train == "data/train.jsonl"
    wanted = {"num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "learning_rate": 1e-6}
    assert {k: config.grpo[k] for k in wanted} == wanted
    assert lint(config, train_rows=1000) == []
    jsonschema.Draft7Validator(json.loads((TEMPLATES / "config.schema.json").read_text())).validate(yaml.safe_load(path.read_text()))


def test_commented_lines_of_the_template_are_right_too(tmp_path):
    text = (TEMPLATES / "config.yaml").read_text()
    for line in (
        "revision: main",
        "lora: {",
        "eval: data",
        "columns: {",
        "- use: rewards.py",
        "weight: 0.5",
        "gpu: h100",
        "use_vllm: true",
        "vllm_max_model_length",
    ):
        assert f"# {line}" in text or f"#   {line}" in text
        text = text.replace(f"# {line}", line).replace(f"#   {line}", f"  {line}")
    config = load(tmp_path, text)
    assert config.model.lora == LoraSection() and config.rewards[2].use == "rewards.py:my_reward" and config.grpo["use_vllm"] is True
    assert config.rewards[2].weight == 0.5


# The checker against jsonschema

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 200) | st.floats(-2, 3) | st.sampled_from(["", "math", "float32", "auto", "x", "human"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["use", "weight", "args", "r", "alpha", "name", "q"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@hypothesis_settings(max_examples=300, deadline=None)
@given(st.data())
def test_checker_agrees_with_jsonschema(data):
    schema = copy.deepcopy(json.loads(config_module.SCHEMA.read_text()))
    instance = {"model": {"name_or_path": "m"}, "data": {"train": "t"}, "rewards": [{"use": "math"}]}
    section = data.draw(st.sampled_from([s for s in schema["properties"] if s != "grpo"]))
    properties = schema["properties"][section].get("properties") or schema["properties"][section].get("items", {}).get("properties", {"x": {}})
    content = data.draw(VALUES | st.dictionaries(st.sampled_from([*properties, "other"]), VALUES, max_size=3))
    instance[section] = [content] if section == "rewards" and isinstance(content, dict) else content
    wanted = jsonschema.Draft7Validator(schema).is_valid(instance)
    assert (schema_check.check(instance, schema)[1] == []) == wanted, instance


def test_checker_leaves_its_input_alone():
    value = {"rewards": [{"use": "math", "weight": "1e-1"}], "model": {"name_or_path": "m"}, "data": {"train": "t"}}
    before = copy.deepcopy(value)
    checked, found = schema_check.check(value, json.loads(config_module.SCHEMA.read_text()))
    assert (value, found) == (before, [])
    assert math.isclose(checked["rewards"][0]["weight"], 0.1)
