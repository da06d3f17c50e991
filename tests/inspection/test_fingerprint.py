from __future__ import annotations

import shutil

import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection import model_files
from grpo_rlvr.inspection.fingerprint import differences, fingerprint, reward_parts
from grpo_rlvr.inspection.jsonl import canonical
from grpo_rlvr.rewards import build_rewards

OWN = "  - {use: exact}\n  - {use: 'steps.py:steps', weight: 0.1, required: false}"


def take(config) -> dict:
    return fingerprint(config, build_rewards(config), load_rows(config, "train"))


@pytest.fixture
def with_model(project):
    folder = project.folder / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return project


def test_a_moved_project_keeps_its_fingerprint(with_model, tmp_path):
    before = take(with_model.write(OWN, model="./tiny"))
    moved = tmp_path / "elsewhere" / "project"
    shutil.copytree(with_model.folder, moved, ignore=shutil.ignore_patterns("elsewhere"))
    shutil.move(with_model.folder / "tiny", tmp_path / "gone")
    assert canonical(take(load_config(moved / "config.yaml"))) == canonical(before)
    assert str(tmp_path) not in canonical(before)
    assert "steps.py" in before["reward_code"] and "grpo_rlvr/completions.py" in before["reward_code"]


def test_absolute_and_relative_addresses_are_the_same_reward(project):
    relative = take(project.write("  - {use: 'steps.py:steps'}"))
    absolute = take(project.write(f"  - {{use: '{project.folder}/steps.py:steps'}}"))
    assert relative == absolute


def test_each_change_is_named_and_nothing_else(with_model):
    old = take(with_model.write(OWN, model="./tiny"))
    assert differences(old, take(with_model.write(OWN, model="./tiny"))) == []
    assert differences(old, take(with_model.write(OWN.replace("0.1", "0.2"), model="./tiny"))) == ["reward settings changed"]
    assert differences(old, take(with_model.write(OWN, model="./tiny", more=", pass_threshold: 0.9"))) == ["reward settings changed"]
    assert differences(old, take(with_model.write(OWN, model="org/model"))) == [
        "model changed: a local folder -> org/model", "model removed: config.json", "model removed: model.safetensors",
    ]  # fmt: skip
    config = with_model.write(OWN, model="./tiny")
    (with_model.folder / "tiny" / "model.safetensors").write_bytes(b"Weights")
    assert differences(old, take(config)) == ["model changed: model.safetensors"]
    (with_model.folder / "tiny" / "model.safetensors").write_bytes(b"weights")
    with_model.data(count=5)
    assert differences(old, take(config)) == ["training data changed"]
    with_model.data()
    (with_model.folder / "steps.py").write_text("def steps(completions, **k):\n    return [0.0 for c in completions]\n")
    assert differences(old, take(config)) == ["reward code changed: steps.py"]


def test_a_helper_beside_the_reward_counts(project):
    (project.folder / "helper.py").write_text("VALUE = 1.0\n")
    (project.folder / "with_helper.py").write_text("from helper import VALUE\ndef r(completions, **k):\n    return [VALUE for c in completions]\n")
    config = project.write("  - {use: 'with_helper.py:r'}")
    old = take(config)
    (project.folder / "helper.py").write_text("VALUE = 0.0\n")
    assert differences(old, take(config)) == ["reward code changed: helper.py"]


HELPED = "def r(completions, **k):\n    return [VALUE for c in completions]\n"
WAYS = {
    "importlib": ("by_importlib.py", "helper_a.py", "import importlib\nVALUE = importlib.import_module('helper_a').VALUE\n"),
    "sys.path": (
        "by_path.py",
        "lib/helper_b.py",
        "import os, sys\nsys.path.append(os.path.dirname(__file__) + '/lib')\nfrom helper_b import VALUE\n",
    ),
    "package": ("rw_pkg/main.py", "rw_pkg/helper.py", "from rw_pkg.helper import VALUE\n"),
    "parent": ("rw_par/sub/main.py", "rw_par/helper.py", "from ..helper import VALUE\n"),
}


@pytest.mark.parametrize("way", WAYS)
def test_code_reached_by_other_ways_counts(project, monkeypatch, way):
    main, helper, code = WAYS[way]
    for name, text in ((main, code + HELPED), (helper, "VALUE = 1.0\n")):
        (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / name).write_text(text)
    use = main
    if way in ("package", "parent"):
        monkeypatch.syspath_prepend(project.folder)
        for folder in {(project.folder / main).parent, (project.folder / helper).parent}:
            (folder / "__init__.py").write_text("")
        use = main.removesuffix(".py").replace("/", ".")
    config = project.write(f"  - {{use: '{use}:r'}}")
    old = take(config)
    (project.folder / helper).write_text("VALUE = 0.0\n")
    assert differences(old, take(config)) == [f"reward code changed: {helper.removeprefix('lib/')}"]


def test_line_ends_and_byte_order_marks_of_another_system_change_nothing(project):
    reward, helper = project.folder / "mine.py", project.folder / "beside.py"
    reward.write_bytes(b"def f(completions):\n    from beside import g\n\n    return [g(c) for c in completions]\n")
    helper.write_bytes(b"def g(c):\n    return 1.0\n")
    config = project.write(rewards="  - {use: 'mine.py:f'}\n")
    first = reward_parts(config, build_rewards(config))["reward_code"]
    for path in (reward, helper):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert reward_parts(config, build_rewards(config))["reward_code"] == first
    reward.write_bytes(b"\xef\xbb\xbf" + reward.read_bytes())
    assert set(reward_parts(config, build_rewards(config))["reward_code"]) == {"mine.py", "beside.py"}  # the helper is still found


def test_a_reward_that_uses_the_built_in_ones_rests_on_their_code(project):
    (project.folder / "wraps.py").write_text(
        "from grpo_rlvr.rewards import math_reward\ndef r(completions, answer):\n    return [0.0] * len(answer)\n"
    )
    assert {"grpo_rlvr/rewards/mathematics/comparison.py", "grpo_rlvr/completions.py", "wraps.py"} <= take(project.write("  - {use: 'wraps.py:r'}"))[
        "reward_code"
    ].keys()


def test_versions_and_revision(project):
    assert set(take(project.write())["versions"]) == set()  # exact needs none of them
    old = take(project.write(rewards="  - {use: math}"))
    assert set(old["versions"]) == {"math-verify", "latex2sympy2_extended", "sympy"} and old["model"]["name_or_path"] == "org/model"
    new = {**old, "versions": {**old["versions"], "sympy": "0.1"}, "model": {**old["model"], "revision": "abc"}}
    assert differences(old, new) == ["model revision changed: None -> abc", f"sympy changed: {old['versions']['sympy']} -> 0.1"]


def test_big_files_by_size_and_blocks_from_end_to_end(with_model, monkeypatch):
    monkeypatch.setattr(model_files, "WHOLE_FILE", 100)
    monkeypatch.setattr(model_files, "BLOCK", 4)
    monkeypatch.setattr(model_files, "BLOCKS", 5)
    config, path = with_model.write(model="./tiny"), with_model.folder / "tiny" / "model.safetensors"
    digests = []
    for content in (b"a" * 200, b"a" * 199 + b"b", b"b" + b"a" * 199, b"a" * 201, b"a" * 90 + b"b" * 20 + b"a" * 90):
        path.write_bytes(content)
        digests.append(model_files.model_part(config)["files"]["model.safetensors"]["sha256"])
    assert len(set(digests)) == 5


@pytest.mark.parametrize("name", ["./none", "/no/such/model", "a/b/c", "~/none-such"])
def test_a_local_path_that_is_not_there(project, name):
    with pytest.raises(UserError, match="there is no folder") as caught:
        model_files.model_folder(project.write(model=name))
    assert caught.value.exit_code == 2


def test_folders_that_are_no_models(project):
    (project.folder / "empty").mkdir()
    with pytest.raises(UserError, match=r"holds no config\.json"):
        model_files.model_folder(project.write(model="empty"))
    (project.folder / "empty" / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="merge it"):
        model_files.model_folder(project.write(model="empty"))
