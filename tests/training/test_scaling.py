"""The commands of `--launch`: read back by accelerate's own parser, and as references/scaling.md prints them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT
from grpo_rlvr.config import load_config
from grpo_rlvr.training.memory_here import ask_plan
from grpo_rlvr.training.scaling import engine_file, launch_problems, plan, text, trainers

BASE = """\
model: {name_or_path: owner/model}
data: {train: owner/data}
rewards: [{use: math}]
grpo: {per_device_train_batch_size: 8, gradient_accumulation_steps: 4, num_generations: 8%s}
hardware: %s
"""
SERVER = ", use_vllm: true, vllm_mode: server, vllm_max_model_length: 4096"


def config(tmp_path, hardware, grpo=""):
    (tmp_path / "config.yaml").write_text(BASE % (grpo, hardware))
    return load_config(tmp_path / "config.yaml")


def parsed(command):
    """What accelerate makes of a training command."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    arguments = command.arguments[command.arguments.index("accelerate.commands.launch") + 1 :]
    return _validate_launch_command(launch_command_parser().parse_args(arguments))[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("ddp", {"multi_gpu": True}),
        ("fsdp2", {"use_fsdp": True, "fsdp_version": "2"}),
        ("zero2", {"use_deepspeed": True, "zero_stage": 2}),
        ("zero3", {"use_deepspeed": True, "zero_stage": 3}),
    ],
)
def test_accelerate_reads_what_was_meant(tmp_path, engine, expected):
    made = plan(config(tmp_path, f"{{count: 8, sharding: {engine}}}"), "train.py", flags=["--resume"])
    (command,) = made.commands
    read = parsed(command)
    assert (read.num_processes, read.num_machines, read.mixed_precision) == (8, 1, "bf16")
    assert (read.training_script, read.training_script_args) == ("train.py", [str(tmp_path / "config.yaml"), "--resume"])
    for name, value in expected.items():
        assert str(getattr(read, name)) == str(value), name


@pytest.mark.filterwarnings("ignore")
def test_several_machines_differ_in_their_rank_only(tmp_path):
    made = plan(config(tmp_path, "{count: 8, nodes: 4, sharding: fsdp2}"), "train.py", main_ip="10.0.0.1")
    assert made.processes == 32
    read = [parsed(c) for c in made.commands]
    assert [r.machine_rank for r in read] == [0, 1, 2, 3]
    assert {(r.num_processes, r.num_machines, r.main_process_ip, int(r.main_process_port)) for r in read} == {(32, 4, "10.0.0.1", 29500)}


def test_the_files_are_trl_s(tmp_path):
    assert all(engine_file(name).is_file() for name in ("multi_gpu", "fsdp2", "zero2", "zero3"))


def test_one_process_is_started_without_a_launcher(tmp_path):
    """accelerate turns each of its exit codes into 1 and passes no SIGTERM on."""
    loaded = config(tmp_path, "{}")
    command = plan(loaded, "train.py", flags=["--resume", "--allow-changes"]).commands[0]
    assert command.arguments == ["python", "train.py", str(loaded.path), "--resume", "--allow-changes"]
    assert command.environment == {"CUDA_VISIBLE_DEVICES": "0"}  # it would be refused where it sees more


def test_gpus_are_taken_from_those_that_the_run_may_see(tmp_path):
    loaded = config(tmp_path, "{count: 2, vllm_server: {start: true, gpus: 1}}", SERVER)
    environment = plan(loaded, "train.py", visible="5,GPU-a1b2").commands[0].environment
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["GRPO_RLVR_SERVER_GPUS"]) == ("5", "GPU-a1b2")
    assert environment["VLLM_HOST_IP"] == "127.0.0.1"
    assert launch_problems(loaded, True, "5,GPU-a1b2") == launch_problems(loaded, False, "5") == []
    assert plan(loaded, "train.py", visible=" 3 , 1,7").commands[0].environment["GRPO_RLVR_SERVER_GPUS"] == "1"
    for visible in ("5", "", "-1", "0,,1", ",0,1", "0,-1,2"):
        (problem,) = launch_problems(loaded, True, visible)
        assert "hardware.count" in str(problem) and repr(visible) in str(problem)


def test_a_server_has_gpus_of_its_own(tmp_path):
    started = plan(config(tmp_path, "{count: 8, vllm_server: {start: true, gpus: 2}}", SERVER), "train.py")
    (command,) = started.commands
    assert started.processes == 6
    assert (command.environment["CUDA_VISIBLE_DEVICES"], command.environment["GRPO_RLVR_SERVER_GPUS"]) == ("0,1,2,3,4,5", "6,7")
    server, training = plan(config(tmp_path, "{count: 8, vllm_server: {gpus: 2}}", SERVER), "train.py").commands
    assert (server.role, server.environment["CUDA_VISIBLE_DEVICES"]) == ("serve", "6,7")
    assert server.arguments[:5] == ["vllm", "serve", "owner/model", "--host", "127.0.0.1"]
    assert training.environment["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5" and "GRPO_RLVR_SERVER_GPUS" not in training.environment


def test_a_server_elsewhere_is_named_as_it_is_written(tmp_path):
    loaded = config(tmp_path, "{}", SERVER + ", vllm_server_base_url: 'http://gpu7:9000/v1'")
    assert "# vLLM's server: gpu7:9000; start it first" in text(plan(loaded, "train.py"))


def test_on_several_machines_the_server_has_the_last(tmp_path):
    loaded = config(tmp_path, "{count: 8, nodes: 3, vllm_server: {gpus: 8}}", SERVER)
    made = plan(loaded, "train.py", main_ip="10.0.0.1", server_ip="10.0.0.3")
    server, *training = made.commands
    assert (made.processes, trainers(loaded)) == (16, 16)
    assert (server.machine, server.arguments[server.arguments.index("--host") + 1]) == (2, "10.0.0.3")
    assert server.arguments[server.arguments.index("--data-parallel-size") + 1] == "8"
    assert [c.machine for c in training] == [0, 1] and {c.environment["GRPO_RLVR_SERVER_HOST"] for c in training} == {"10.0.0.3"}


@pytest.mark.parametrize(
    ("hardware", "grpo", "said"),
    [
        ("{count: 2, sharding: fsdp2}", ", use_cpu: true, bf16: false", "silently train as ddp"),
        ("{nodes: 2}", ", use_cpu: true, bf16: false", "machines on CPUs"),
        ("{count: 6}", ", use_vllm: true, vllm_tensor_parallel_size: 4", "no multiple of 4"),
        ("{sharding: zero3}", "", "one GPU trains"),
    ],
)
def test_plans_that_cannot_be_started(tmp_path, hardware, grpo, said):
    problems = launch_problems(config(tmp_path, hardware, grpo), go=False)
    assert len(problems) == 1 and said in str(problems[0])


def test_what_is_only_missing_here_counts_when_it_is_to_start_here(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    loaded = config(tmp_path, "{count: 8, sharding: zero3}")
    assert launch_problems(loaded, go=False) == [] and "deepspeed" in str(launch_problems(loaded, go=True)[0])


# ---- what the memory plan says before the launch
def asked(tmp_path, hardware, grpo=""):
    loaded = config(tmp_path, hardware, grpo)
    (tmp_path / "config.yaml").write_text((tmp_path / "config.yaml").read_text().replace("owner/model", "Qwen/Qwen2.5-7B-Instruct"))
    return ask_plan(load_config(loaded.path))


@pytest.mark.parametrize(
    ("hardware", "grpo", "verdict", "words"),
    [
        ("{gpu: b300}", ", max_completion_length: 256", "FITS", ()),
        ("{gpu: rtx-4090, count: 2}", "", "NO", ("each GPU (RTX 4090", "says NO", "optimizer")),
        ("{gpu: h200}", ", max_completion_length: 256", "TIGHT", ("says TIGHT", "it may take up to")),
    ],
)
def test_a_plan_that_does_not_fit_is_a_warning(tmp_path, hardware, grpo, verdict, words):
    findings, memory = asked(tmp_path, hardware, grpo)
    assert memory["verdict"] == verdict and [f.level for f in findings] == ["warning"] * bool(words)
    assert (memory["high_gib"] <= memory["usable_gib"]) is (verdict == "FITS")
    for f in findings:
        assert all(word in f.message for word in words), f
        assert f"memory_plan.py {tmp_path / 'config.yaml'} --fit" in f.fix


def test_a_plan_that_cannot_be_made_is_said(tmp_path):
    findings, memory = asked(tmp_path, "{count: 2}")
    assert memory is None and findings[0].level == "note" and "hardware.gpu" in findings[0].message
    findings, memory = asked(tmp_path, "{gpu: h2000}")
    assert memory is None and findings[0].level == "warning" and "h2000" in findings[0].message
    assert asked(tmp_path, "{gpu: h2000}", ", use_cpu: true, bf16: false") == ([], None)


@pytest.fixture
def small(project, untaught_model):
    shutil.copytree(untaught_model, project / "model")
    text = (project / "config.yaml").read_text().replace("  use_cpu: true\n", "").replace("  bf16: false\n", "")
    (project / "config.yaml").write_text(text + "hardware: {count: 2, nodes: 2}\n")
    return project


@pytest.mark.model
def test_the_script_prints_the_plan_and_writes_nothing(small):
    command = [sys.executable, str(ROOT / "scripts/train.py"), str(small / "config.yaml"), "--launch"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["schema"], result["processes"], len(result["commands"])) == ("grpo-rlvr/launch/1", 4, 2)
    assert not (small / "run").exists()
    done = subprocess.run([*command, "--go", "--machine-rank", "2"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "--main-ip" in done.stderr and "0 to 1" in done.stderr


@pytest.mark.model
def test_the_launch_says_what_does_not_fit_without_torch_and_checks_its_own_processes(small):
    path = small / "config.yaml"
    text = path.read_text()
    for old, new in (
        ("count: 2, nodes: 2", "gpu: rtx-4090, count: 2"),
        ("name_or_path: model", "name_or_path: Qwen/Qwen2.5-7B-Instruct"),
        ("per_device_train_batch_size: 16", "per_device_train_batch_size: 4"),
    ):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    script = str(ROOT / "scripts/train.py")
    code = f"import sys, runpy\nsys.argv = {[script, str(path), '--launch', '--json']!r}\ntry: runpy.run_path({script!r}, run_name='__main__')\n"
    code += "finally: print('torch' in sys.modules, file=sys.stderr)"
    # What a scheduler says of its own processes (WORLD_SIZE) is not what `hardware:` asks for.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "WORLD_SIZE": "3"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0 and done.stderr.splitlines()[-1] == "False", done.stderr
    assert "warning (memory-plan)" in done.stderr and "--fit" in done.stderr
    result = json.loads(done.stdout)
    assert result["memory"]["verdict"] == "NO" and [f["code"] for f in result["findings"]] == ["memory-plan"]
    # 2 processes x 4 are a group of 8; 3 x 4 cut one.
    path.write_text(text.replace("count: 2", "count: 3"))
    done = subprocess.run([sys.executable, script, str(path), "--launch", "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "= 12) is not a multiple of num_generations 8" in json.loads(done.stdout)["error"]["message"], done.stdout


def test_the_reference_shows_what_the_script_prints(tmp_path, monkeypatch):
    page = (ROOT / "references/scaling.md").read_text()
    for title, hardware, grpo in (
        ("one machine, the engine beside the training", "{count: 8, sharding: fsdp2}", ", use_vllm: true, vllm_max_model_length: 4096"),
        ("one machine, the server on GPUs of its own", "{count: 8, sharding: fsdp2, vllm_server: {start: true, gpus: 2}}", SERVER),
        ("three machines, the last one serves", "{count: 8, nodes: 3, sharding: zero3, vllm_server: {gpus: 8}}", SERVER),
    ):
        printed = text(plan(config(tmp_path, hardware, grpo), "train.py", main_ip="10.0.0.1", server_ip="10.0.0.3"))
        printed = printed.replace(str(engine_file("fsdp2").parent), "TRL/accelerate_configs").replace(str(tmp_path / "config.yaml"), "config.yaml")
        assert printed in page, f"{title}\n{printed}"


def test_the_job_script_is_sound_shell():
    done = subprocess.run(["bash", "-n", str(ROOT / "templates/slurm.sbatch")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    script = (ROOT / "templates/slurm.sbatch").read_text()
    parser = (ROOT / "templates/train.py").read_text()
    for flag in ("--launch", "--go", "--resume", "--machine-rank", "--main-ip", "--server-ip"):
        assert flag in script and f'"{flag}"' in parser
    if linter := shutil.which("shellcheck"):
        assert subprocess.run([linter, str(ROOT / "templates/slurm.sbatch")], capture_output=True, text=True).stdout == ""
