"""A server that goes away: told at once, with a checkpoint, and nothing else is taken for it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import requests
from grpo_rlvr.config import load_config
from grpo_rlvr.errors import MissingError, Problem
from grpo_rlvr.training.vllm_failure import server_failures
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

CONFIG = """\
model: {name_or_path: owner/model}
data: {train: owner/data}
rewards: [{use: math}]
grpo: {use_vllm: true, vllm_mode: %s}
"""
DEAD = "http://127.0.0.1:9"  # nothing listens at the discard port


class Server:
    url = DEAD

    def __init__(self, alive):
        self.is_alive = alive

    def alive(self):
        return self.is_alive

    def problem(self, message, fix=""):
        return Problem("hardware.vllm_server", f"{message}; its last lines", "see server.log")


class Trainer:
    """As much of TRL's trainer as is asked: a session that repeats for about a minute, and a checkpoint."""

    def __init__(self, folder, step=5, processes=1):
        session = requests.Session()
        session.mount("http://", HTTPAdapter(max_retries=Retry(total=5, connect=5, backoff_factor=2, allowed_methods=["POST", "GET"])))
        self.vllm_generation = SimpleNamespace(vllm_client=SimpleNamespace(session=session))
        self.state = SimpleNamespace(global_step=step)
        self.args = SimpleNamespace(output_dir=str(folder), save_strategy="steps", world_size=processes)
        self.model, self.saved = object(), []

    def _save_checkpoint(self, model, trial):
        self.saved.append(self.state.global_step)


@pytest.fixture
def config(tmp_path):
    (tmp_path / "config.yaml").write_text(CONFIG % "server")
    return load_config(tmp_path / "config.yaml")


@pytest.mark.timeout(20)  # TRL's own client would go on for a minute
def test_a_dead_server_is_not_asked_again_and_the_step_is_saved(tmp_path, config):
    trainer = Trainer(tmp_path)
    with pytest.raises(MissingError) as caught, server_failures(config, trainer, Server(alive=False)):
        trainer.vllm_generation.vllm_client.session.post(f"{DEAD}/v1/completions", json={})
    assert trainer.saved == [5]
    assert "no longer answers (step 5)" in str(caught.value) and "checkpoint-5 is saved" in str(caught.value) and "--resume" in str(caught.value)


def test_several_processes_cannot_save_in_the_middle_of_a_step(tmp_path, config):
    trainer = Trainer(tmp_path, processes=4)
    with pytest.raises(MissingError, match="there is no checkpoint yet"), server_failures(config, trainer, None):
        raise requests.exceptions.ConnectionError("refused")
    assert trainer.saved == []


def test_other_errors_pass_while_the_server_lives(tmp_path, config):
    with pytest.raises(ZeroDivisionError), server_failures(config, Trainer(tmp_path), Server(alive=True)):
        raise ZeroDivisionError


def test_without_a_server_nothing_is_done(tmp_path):
    (tmp_path / "config.yaml").write_text(CONFIG % "colocate")
    with pytest.raises(requests.exceptions.ConnectionError), server_failures(load_config(tmp_path / "config.yaml"), None, None):
        raise requests.exceptions.ConnectionError
