"""The review page's server, as a browser, another page in it and an attacker on the machine speak to it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import inspect_rewards
import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection import web
from grpo_rlvr.inspection.labels import append_label, labels_path, load_judgements, load_labels
from grpo_rlvr.inspection.reading import Reading
from grpo_rlvr.inspection.run import run_inspection

from inspection.conftest import Project

SCRIPT = Path(inspect_rewards.__file__)


@pytest.fixture
def inspected(project):
    run_inspection(project.write(), completions=project.record(), quiet=True)
    return project


class Client:
    """Speaks to a server in this process as the page does, unless told otherwise."""

    def __init__(self, server: web.ReviewServer):
        self.server, self.port = server, server.port
        self.own = f"127.0.0.1:{self.port}"

    def send(self, method: str, path: str, body: object = None, **headers: str | None) -> tuple[int, dict, dict]:
        base = {"Host": self.own, "Cookie": f"{self.server.cookie}={self.server.token}"}
        if method == "POST":
            base |= {"Origin": f"http://{self.own}", "Content-Type": "application/json"}
        base |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if method == "POST" and "Content-Length" not in base and "Transfer-Encoding" not in base:
                base["Content-Length"] = str(len(data))
            for name, value in base.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders()
            connection.send(data)
            response = connection.getresponse()
            text = response.read()
            kind = response.headers.get_content_type()
            return response.status, json.loads(text) if kind == "application/json" else {"text": text.decode()}, dict(response.headers)
        finally:
            connection.close()

    def get(self, path: str, **headers: str | None) -> tuple[int, dict]:
        return self.send("GET", path, **headers)[:2]

    def label(self, sample_id: str, label: str, note: str = "", turn: int = 0, **headers: str | None) -> tuple[int, dict]:
        return self.send("POST", "/api/label", {"sample_id": sample_id, "label": label, "note": note, "turn": turn}, **headers)[:2]


@pytest.fixture
def client(inspected):
    with running(inspected) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for the tests that change nothing."""
    made = Project(tmp_path_factory.mktemp("shared"))
    made.data()
    run_inspection(made.write(), completions=made.record(), quiet=True)
    with running(made) as found:
        yield found


class running:
    """A server on the project in a thread."""

    def __init__(self, project, reviewer: str = "ada"):
        self.server = web.ReviewServer(Reading.open(load_config(project.config_path), reviewer))
        self.thread = threading.Thread(target=self.server.serve_until_finished)

    def __enter__(self) -> Client:
        self.thread.start()
        return Client(self.server)

    def __exit__(self, *_: object) -> None:
        self.server.finished.set()
        self.thread.join(20)
        assert not self.thread.is_alive()


def lines(folder: Path) -> list[tuple[str, str]]:
    return [(row["label"], row["note"]) for row in map(json.loads, labels_path(folder).read_text().splitlines())]


def test_the_page_comes_for_the_secret_and_brings_the_cookie(shared):
    status, page, headers = shared.send("GET", f"/?token={shared.server.token}", Cookie=None)
    assert status == 200 and "<title>Review</title>" in page["text"]
    assert headers["Set-Cookie"] == f"{shared.server.cookie}={shared.server.token}; HttpOnly; SameSite=Strict; Path=/"
    assert shared.server.token not in page["text"] and "https://" not in page["text"]  # no secret in it, nothing loaded from elsewhere
    assert shared.get("/")[0] == 200  # a reload, with the cookie
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    assert not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {"Cookie": None}),
        ("/?token=wrong", {"Cookie": None}),
        ("/?token=", {"Cookie": None}),
        ("/?token=%ff", {}),
        ("/api/state", {"Cookie": None}),
        ("/api/state?token=TOKEN", {"Cookie": None}),  # the secret in an address opens the page only
        ("/api/state", {"Cookie": "COOKIE=wrong"}),
        ("/api/state", {"Host": "evil.example"}),  # DNS rebinding
        ("/api/state", {"Host": "evil.example:PORT"}),
        ("/api/state", {"Host": "127.0.0.1.evil.example:PORT"}),
        ("/api/state", {"Host": "127.0.0.1:PORT@evil.example"}),
        ("/api/state", {"Host": None}),
        ("/?token=TOKEN", {"Host": "evil.example:PORT", "Cookie": None}),
        ("/api/state", {"Origin": "http://evil.example"}),
        ("/api/state", {"Origin": "null"}),
        ("/api/state", {"Sec-Fetch-Site": "cross-site"}),
        ("/api/state", {"Sec-Fetch-Site": "same-site"}),
    ],
)
def test_what_does_not_come_from_the_page_is_refused(shared, path, headers):
    def fill(text):
        for name, value in (("TOKEN", shared.server.token), ("PORT", str(shared.port)), ("COOKIE", shared.server.cookie)):
            text = text.replace(name, value)
        return text

    status, answer = shared.get(fill(path), **{name: value and fill(value) for name, value in headers.items()})
    assert status == 403 and list(answer) == ["error"] and shared.server.token not in json.dumps(answer)


@pytest.mark.parametrize("host", ["localhost:{}", "127.0.0.1:{}", "127.0.0.1:8080", "localhost"])
def test_the_machine_itself_and_a_forwarded_port_are_served(shared, host):
    assert shared.get("/api/state", Host=host.format(shared.port))[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": None}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),  # another server on this machine
        ({"Cookie": None}, 403),
        ({"Content-Type": "text/plain"}, 415),  # what a form elsewhere could send
        ({"Content-Type": None}, 415),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "99999999999999999999"}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_a_label_is_taken_from_the_page_only(shared, headers, status):
    first = next(iter(shared.server.reading.places))
    assert shared.label(first, "pass", **headers)[0] == status
    assert not labels_path(shared.server.reading.folder).exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[1]", 400),
        (b"[" * 50_000, 400),
        (b"\xff\xfe", 400),
        ({}, 404),
        ({"sample_id": "../../etc/passwd", "label": "pass", "note": "", "turn": 0}, 404),
        ({"sample_id": ["x"], "label": "pass", "note": "", "turn": 0}, 404),
        ({"sample_id": "FIRST", "label": "good", "note": "", "turn": 0}, 400),
        ({"sample_id": "FIRST", "label": None, "note": "", "turn": 0}, 400),
        ({"sample_id": "FIRST", "label": "pass", "note": 5, "turn": 0}, 400),
        ({"sample_id": "FIRST", "label": "pass", "note": "", "turn": True}, 400),
        ({"sample_id": "FIRST", "label": "pass", "note": "x" * 4001, "turn": 0}, 400),
        ({"sample_id": "FIRST", "label": "withdrawn", "note": "  ", "turn": 0}, 400),
        ({"sample_id": "FIRST", "label": "pass", "note": "x" * 70_000, "turn": 0}, 413),
    ],
)
def test_what_is_no_label_is_refused_and_not_written(shared, body, status):
    first = next(iter(shared.server.reading.places))
    if isinstance(body, dict) and body.get("sample_id") == "FIRST":
        body = {**body, "sample_id": first}
    got, answer, _ = shared.send("POST", "/api/label", body)
    assert got == status and answer["error"]["message"]
    assert not labels_path(shared.server.reading.folder).exists()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *[(method, "/api/label", 405) for method in ("PUT", "DELETE", "OPTIONS", "GET", "TRACE", "FOO")],
        ("GET", "/api/finish", 405),
        ("POST", "/api/state", 405),
        ("POST", "/", 405),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/labels.jsonl", 404),
        ("GET", "/api/sample", 404),
        ("GET", "/api/sample?id=0123456789abcdef", 404),
        ("GET", "/?" + "&".join(f"a{i}=1" for i in range(50)), 400),
        ("GET", "/" + "a" * 70_000, 414),
    ],
)
def test_other_methods_and_paths(shared, method, path, status):
    got, answer, headers = shared.send(method, path, {})
    assert got == status and answer["error"] and "Access-Control-Allow-Origin" not in headers
    assert not shared.server.finished.is_set()


def test_the_score_is_not_sent_before_the_judgement(client):
    first, second = list(client.server.reading.places)[:2]
    status, sample = client.get(f"/api/sample?id={first}")
    assert status == 200 and sample["score"] is None and "exact" not in json.dumps(sample)
    assert client.get("/api/state")[1]["said"] == {}
    status, answer = client.label(first, "pass", "clear")
    assert status == 200 and answer["score"]["verdict"] in ("pass", "fail") and [p["name"] for p in answer["score"]["parts"]] == ["exact"]
    state = client.get("/api/state")[1]
    assert list(state["said"]) == [first] and state["said"][first]["verdict"] == answer["score"]["verdict"]
    assert client.get(f"/api/sample?id={first}")[1]["score"] == answer["score"]
    assert client.get(f"/api/sample?id={second}")[1]["score"] is None
    assert client.label(first, "undone", turn=1)[1]["score"] is None  # taken back: hidden again
    assert client.get(f"/api/sample?id={first}")[1]["score"] is None and client.get("/api/state")[1]["said"][first]["verdict"] is None


def test_the_same_post_twice_and_a_second_tab_neither_lose_nor_double(client):
    folder, first = client.server.reading.folder, next(iter(client.server.reading.places))
    assert client.label(first, "pass")[1]["added"] is True
    assert client.label(first, "pass")[1]["added"] is False  # sent again because the answer was lost
    assert lines(folder) == [("pass", "")]
    status, answer = client.label(first, "fail")  # a tab that does not know yet
    assert status == 409 and "you said pass elsewhere" in answer["error"]["message"] and answer["said"]["label"] == "pass"
    assert lines(folder) == [("pass", "")]
    assert client.label(first, "fail", "unit is missing", turn=1)[0] == 200
    append_label(folder, first, "unsure", "ada", "human")  # the same reader in a terminal
    assert client.label(first, "pass", turn=2)[0] == 409
    assert client.label(first, "withdrawn", "cannot be judged", turn=3)[0] == 200
    assert lines(folder) == [("pass", ""), ("fail", "unit is missing"), ("unsure", ""), ("withdrawn", "cannot be judged")]
    assert load_labels(folder) == [] and load_judgements(folder)[0]["first"] == "pass"


def test_many_tabs_at_once_write_each_label_once(client):
    ids = list(client.server.reading.places)
    answers: list[int] = []

    def tab() -> None:
        answers.extend(client.label(i, "pass")[0] for i in ids)

    tabs = [threading.Thread(target=tab) for _ in range(4)]
    for thread in tabs:
        thread.start()
    for thread in tabs:
        thread.join(30)
    assert answers == [200] * (4 * len(ids))
    assert len(lines(client.server.reading.folder)) == len(ids)


def test_several_reviewers_at_once(inspected):
    with running(inspected) as ada, running(inspected, "ben") as ben:
        first = next(iter(ada.server.reading.places))
        assert ada.label(first, "pass")[0] == 200 and ben.get("/api/state")[1]["said"] == {}
        assert ben.get(f"/api/sample?id={first}")[1]["score"] is None
        assert ben.label(first, "fail")[0] == 200
        assert ada.server.cookie != ben.server.cookie and ada.server.token != ben.server.token
    assert [(row["reviewer"], row["label"]) for row in load_labels(inspected.inspection)] == [("ada", "pass"), ("ben", "fail")]


def test_a_torn_line_and_a_replaced_file_do_not_stop_a_reader(client):
    folder, ids = client.server.reading.folder, list(client.server.reading.places)
    client.label(ids[0], "pass")
    with open(labels_path(folder), "a") as out:
        out.write('{"schema": "grpo-rlvr/label/1", "sam')
    assert client.label(ids[1], "fail")[0] == 200  # the torn line stays one line
    assert {i: said["label"] for i, said in client.get("/api/state")[1]["said"].items()} == {ids[0]: "pass", ids[1]: "fail"}
    whole = labels_path(folder).read_text().splitlines()
    labels_path(folder).with_name("other").write_text(whole[2] + "\n")
    labels_path(folder).with_name("other").replace(labels_path(folder))
    assert list(client.get("/api/state")[1]["said"]) == [ids[1]]


def test_a_full_disk_is_said_and_nothing_counts_as_saved(client, monkeypatch):
    first = next(iter(client.server.reading.places))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("grpo_rlvr.inspection.labels.append_lines", full)
    status, answer = client.label(first, "pass")
    assert status == 500 and "not saved: No space left" in answer["error"]["message"]
    assert client.get("/api/state")[1]["said"] == {}


def test_a_run_in_the_meantime_is_noticed(client, inspected):
    assert client.get("/api/state")[1]["stale"] is False
    run_inspection(inspected.write("  - {use: exact, weight: 0.5}"), completions=inspected.record(), quiet=True)
    assert client.get("/api/state")[1]["stale"] is True


def test_a_port_in_use_is_a_mistake_of_the_user(inspected, client):
    with pytest.raises(UserError, match=f"port {client.port} cannot be used"):
        web.ReviewServer(client.server.reading, client.port)


class Script:
    """inspect_rewards.py review in a process of its own."""

    def __init__(self, config: Path, *more: str):
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "review", str(config), "--reviewer", "ada", "--json", *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said = ""
        for line in self.process.stderr:
            self.said += line
            if "Ctrl-C" in line:
                break
        self.url = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", self.said)
        self.port, self.token = int(self.url[1]), self.url[2]

    def ask(self, method: str, path: str, body: object = None) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {
            "Cookie": f"grpo_rlvr_review_{self.port}={self.token}",
            "Origin": f"http://127.0.0.1:{self.port}",
            "Content-Type": "application/json",
        }
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def end(self) -> tuple[int, dict | None, str]:
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, json.loads(out) if out else None, err


@pytest.mark.parametrize("way", ["ctrl-c", "sigterm", "finish"])
def test_it_says_where_it_is_and_ends_with_a_summary(inspected, way):
    script = Script(inspected.config_path)
    assert f"ssh -N -L {script.port}:127.0.0.1:{script.port} " in script.said and "0 of 6 samples are judged by ada" in script.said
    assert "for the person who reads, and for nobody else" in script.said
    ids = script.ask("GET", "/api/state")["selected"]
    script.ask("POST", "/api/label", {"sample_id": ids[0], "label": "pass", "note": "", "turn": 0})
    if way == "finish":
        assert script.ask("POST", "/api/finish", {})["labelled"] == 1
    else:
        script.process.send_signal(signal.SIGINT if way == "ctrl-c" else signal.SIGTERM)
    code, answer, err = script.end()
    assert code == 0 and (answer["labelled"], answer["selected"], answer["new"], answer["reviewer"]) == (1, 6, 1, "ada")
    assert "1 of 6 samples are judged by ada" in err and script.token not in err


def test_kill_9_loses_nothing_and_the_next_start_goes_on(inspected):
    script = Script(inspected.config_path)
    ids = script.ask("GET", "/api/state")["selected"]
    for i in ids[:3]:
        assert script.ask("POST", "/api/label", {"sample_id": i, "label": "pass", "note": "", "turn": 0})["added"]
    script.process.kill()
    assert script.end()[0] == -signal.SIGKILL
    with open(labels_path(inspected.inspection), "a") as out:
        out.write('{"torn')
    again = Script(inspected.config_path)
    assert "labels.torn-" in again.said and "3 of 6 samples are judged by ada" in again.said
    assert again.token != script.token and list(again.ask("GET", "/api/state")["said"]) == ids[:3]
    again.ask("POST", "/api/finish", {})
    assert again.end()[0] == 0 and len(load_labels(inspected.inspection)) == 3


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_that_is_none(inspected, port, capsys):
    try:
        code = inspect_rewards.main(["review", str(inspected.config_path), "--port", port, "--json"])
    except SystemExit as exc:
        code = exc.code
    said = capsys.readouterr()
    assert code == 2 and "--port" in said.out + said.err
