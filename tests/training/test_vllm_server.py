"""The server around a training, with a stand-in for vLLM: start, time-out, death, and that nothing outlives the training."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT
from grpo_rlvr.config import load_config
from grpo_rlvr.errors import MissingError, UserError
from grpo_rlvr.training import vllm_server as module
from grpo_rlvr.training.vllm_server import VllmServer, answers, serve_arguments, serve_environment, server_problems, vllm_server

# Answers /health, and has a child of its own that also ignores SIGTERM, as an engine that hangs would.
FAKE = """\
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"])
print("engine", child.pid, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "SAY_EVERY_S", 0.0)
    monkeypatch.setattr(os, "environ", dict(os.environ))


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fake(tmp_path: Path, port: int, code: str = FAKE, timeout_s: float = 60) -> VllmServer:
    return VllmServer([sys.executable, "-c", code, str(port)], os.environ, f"http://127.0.0.1:{port}", tmp_path / "logs/server.log", timeout_s)


def engine(tmp_path: Path) -> int:
    return int((tmp_path / "logs/server.log").read_text().split("engine ")[1].split()[0])


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    until = time.monotonic() + 60
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def test_it_answers_inside_and_is_gone_with_its_engine_after(tmp_path, port, monkeypatch):
    # The guard waits this long before it kills; as an argument of the file it cannot be given.
    shorter = tmp_path / "guard.py"
    shorter.write_text(module.GUARD.read_text().replace("PATIENCE_S = 15.0", "PATIENCE_S = 0.3"))
    monkeypatch.setattr(module, "GUARD", shorter)
    with fake(tmp_path, port) as server:
        assert answers(server.url) and server.alive()
        child = engine(tmp_path)
        assert alive(child)
    assert not server.alive() and not answers(server.url) and not alive(child)


def test_a_server_that_ends_while_it_starts_is_told_with_its_last_lines(tmp_path, port):
    code = "import sys; print('\\x1b[31mno room for the weights'); sys.exit(7)"
    with pytest.raises(MissingError) as caught, fake(tmp_path, port, code):
        pass
    text = str(caught.value)
    assert "exit code 7" in text and "no room for the weights" in text and "server.log" in text and "\x1b" not in text


def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path, port):
    code = "import os, time; print('engine', os.getpid(), flush=True); time.sleep(300)"
    with pytest.raises(MissingError, match="did not answer within 1 s"), fake(tmp_path, port, code, timeout_s=1):
        pass
    assert not alive(engine(tmp_path))


def test_a_training_that_is_killed_leaves_no_server(tmp_path, port):
    training = tmp_path / "training.py"
    code = FAKE.replace("signal.SIG_IGN", "signal.SIG_DFL")
    training.write_text(
        f"import os, sys, time\nfrom pathlib import Path\nsys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
        "from grpo_rlvr.training.vllm_server import VllmServer\n"
        f"command, log = [sys.executable, '-c', {code!r}, '{port}'], Path({str(tmp_path / 'logs/server.log')!r})\n"
        f"with VllmServer(command, os.environ, 'http://127.0.0.1:{port}', log, 60):\n    print('up', flush=True)\n    time.sleep(300)\n"
    )
    process = subprocess.Popen([sys.executable, str(training)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "up\n"
    child = engine(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert gone(child) and not answers(f"http://127.0.0.1:{port}")


BASE = """\
model: {name_or_path: owner/model, revision: abc}
data: {train: owner/data}
rewards: [{use: math}]
"""
SERVER = "grpo: {use_vllm: true, vllm_mode: server, vllm_max_model_length: 2048}\n"


def config(tmp_path, text):
    (tmp_path / "config.yaml").write_text(BASE + text)
    return load_config(tmp_path / "config.yaml")


def test_the_command_binds_to_this_machine_and_turns_the_weight_transfer_on(tmp_path):
    arguments = serve_arguments(config(tmp_path, SERVER + "hardware: {count: 8, vllm_server: {gpus: 4}}\n"))
    flags = dict(zip(arguments[2::1], arguments[3::1], strict=False))
    assert arguments[:2] == ["serve", "owner/model"]
    assert (flags["--host"], flags["--port"], flags["--revision"], flags["--max-model-len"]) == ("127.0.0.1", "8000", "abc", "2048")
    assert (flags["--tensor-parallel-size"], flags["--data-parallel-size"]) == ("1", "4")
    assert flags["--weight-transfer-config"] == '{"backend": "nccl"}' and "--enable-scale-out" in arguments


def test_written_arguments_replace_ours(tmp_path):
    written = "{max-num-seqs: 64, max_model_len: null, enforce-eager: true, port: 9, enable-scale-out: false}"
    arguments = serve_arguments(config(tmp_path, SERVER + f"hardware: {{count: 2, vllm_server: {{arguments: {written}}}}}\n"))
    assert "--enforce-eager" in arguments and "--max-model-len" not in arguments and "--enable-scale-out" not in arguments
    assert arguments[arguments.index("--max-num-seqs") + 1] == "64" and arguments[arguments.index("--port") + 1] == "9"


def test_the_launcher_s_variables_do_not_reach_the_server(tmp_path):
    ours = {"RANK": "0", "WORLD_SIZE": "6", "TORCHELASTIC_RUN_ID": "x", "ACCELERATE_USE_FSDP": "true", "HOME": "/h", "CUDA_VISIBLE_DEVICES": "0,1"}
    environment = serve_environment(config(tmp_path, SERVER), "6,7", ours)
    assert environment == {"HOME": "/h", "VLLM_SERVER_DEV_MODE": "1", "CUDA_VISIBLE_DEVICES": "6,7", "VLLM_HOST_IP": "127.0.0.1"}


def test_a_port_that_is_taken_is_refused_before_anything_starts(tmp_path, port, monkeypatch):
    loaded = config(tmp_path, SERVER.replace("2048", f"2048, vllm_server_port: {port}, use_cpu: true") + "hardware: {vllm_server: {start: true}}\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(UserError, match="listens at"), vllm_server(loaded, tmp_path / "logs"):
            pass
    assert not (tmp_path / "logs").exists()


def test_so_is_the_port_of_the_weight_transfer(tmp_path, port):
    ports = f"2048, vllm_group_port: {port}, use_cpu: true"
    loaded = config(tmp_path, SERVER.replace("2048", ports) + "hardware: {vllm_server: {start: true}}\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(UserError, match="grpo.vllm_group_port"), vllm_server(loaded, tmp_path / "logs"):
            pass


def test_a_server_of_this_machine_and_its_training_are_told_to_stay_on_it(tmp_path, port, monkeypatch):
    loaded = config(tmp_path, SERVER.replace("2048", f"2048, vllm_server_port: {port}, use_cpu: true") + "hardware: {vllm_server: {start: true}}\n")
    code = "import os; print('host', os.environ['VLLM_HOST_IP'], flush=True)\n" + FAKE
    monkeypatch.setattr(module, "serve_arguments", lambda config: [])
    original = VllmServer.__init__
    monkeypatch.setattr(VllmServer, "__init__", lambda self, command, *a: original(self, [sys.executable, "-c", code, str(port)], *a))
    os.environ.pop("VLLM_HOST_IP", None)
    with vllm_server(loaded, tmp_path / "logs"):
        assert os.environ["VLLM_HOST_IP"] == "127.0.0.1"  # TRL opens the port of the weight transfer there
    assert "host 127.0.0.1" in (tmp_path / "logs/vllm_server.log").read_text()
    # What the user says stands.
    assert serve_environment(loaded, None, {"VLLM_HOST_IP": "10.0.0.1"})["VLLM_HOST_IP"] == "10.0.0.1"
    beside = config(tmp_path, SERVER.replace("2048", "2048, vllm_server_host: 10.0.0.3"))
    assert "VLLM_HOST_IP" not in serve_environment(beside, None, {})


@pytest.mark.parametrize(
    ("grpo", "host"),
    [("", "127.0.0.1"), (", vllm_server_host: node7", "node7"), (", vllm_server_base_url: 'http://n8:8000'", "n8")],
)
def test_the_server_is_asked_past_every_proxy(tmp_path, grpo, host):
    requests = pytest.importorskip("requests")
    os.environ.update({"HTTP_PROXY": "http://px:3128", "http_proxy": "http://px:3128", "no_proxy": "there.example.org"})
    assert requests.utils.get_environ_proxies(f"http://{host}:8000") != {}
    for _ in range(2):
        with vllm_server(config(tmp_path, SERVER.replace("2048", "2048" + grpo)), tmp_path / "logs") as server:
            assert server is None and requests.utils.get_environ_proxies(f"http://{host}:8000") == {}
    assert os.environ["no_proxy"] == f"there.example.org,{host}" and os.environ["NO_PROXY"] == host
    os.environ.update({"no_proxy": "*", "NO_PROXY": "*"})  # nothing goes through a proxy; beside another name it would say nothing
    with vllm_server(config(tmp_path, SERVER.replace("2048", "2048" + grpo)), tmp_path / "logs"):
        assert requests.utils.get_environ_proxies("http://far") == {}


def test_scale_out_is_asked_of_a_vllm_that_knows_it(tmp_path, monkeypatch):
    loaded = config(tmp_path, SERVER)
    for version, known in (("0.22.1", False), ("0.29.0+cpu", False), ("0.30.0", True), ("0.31.0", True), (None, True)):
        monkeypatch.setattr(module, "installed", lambda name, version=version: version)
        assert ("--enable-scale-out" in serve_arguments(loaded)) is known, version


@pytest.mark.parametrize(
    ("grpo", "hardware", "said"),
    [
        ("{use_vllm: true}", "{vllm_server: {start: true}}", "no completion comes from a server"),
        ("{use_vllm: true, vllm_mode: server, vllm_server_host: 0.0.0.0}", "{count: 2, vllm_server: {start: true}}", "open to others"),
        ("{use_vllm: true, vllm_mode: server, vllm_server_base_url: 'http://x:1'}", "{count: 2, vllm_server: {start: true}}", "base_url"),
        ("{use_vllm: true, vllm_mode: server}", "{count: 8, nodes: 2, vllm_server: {start: true}}", "for one machine"),
        ("{use_vllm: true, vllm_mode: server, vllm_tensor_parallel_size: 2}", "{count: 8, vllm_server: {gpus: 3}}", "set gpus: 4"),
        ("{use_vllm: true, vllm_mode: server}", "{count: 2, vllm_server: {gpus: 2}}", "none to train on"),
        ("{use_vllm: true, vllm_mode: server, vllm_group_port: 8000}", "{count: 2, vllm_server: {start: true}}", "a port each"),
        ("{use_vllm: true, vllm_mode: server, vllm_server_port: 70000}", "{count: 2, vllm_server: {start: true}}", "70000 is no port"),
    ],
)
def test_settings_of_the_server_that_cannot_work(tmp_path, grpo, hardware, said):
    problems = server_problems(config(tmp_path, f"grpo: {grpo}\nhardware: {hardware}\n"))
    assert len(problems) == 1 and said in str(problems[0])


def test_a_server_that_fits(tmp_path):
    assert server_problems(config(tmp_path, SERVER + "hardware: {count: 8, vllm_server: {start: true, gpus: 2}}\n")) == []
    assert server_problems(config(tmp_path, "")) == []
