from __future__ import annotations

import argparse
import errno
import json
import os
import pickle
import stat
import subprocess
import sys

import pytest
from conftest import ROOT
from grpo_rlvr import cli
from grpo_rlvr.errors import CheckFailed, GoldError, MissingError, Problem, UserError


def answer(body, capsys, as_json):
    code = cli.run(body, argparse.Namespace(json=as_json))
    out = capsys.readouterr()
    return code, out.out, out.err


def raising(error):
    def body(args):
        print("a library prints to stdout")
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (CheckFailed("gate", Problem("gate", "is shut", "read samples")), 1, "gate"),
        (UserError("config", [Problem("a", "one", "mend"), Problem("b", "two")]), 2, "config"),
        (GoldError(Problem("row 3", "unreadable")), 2, "gold"),
        (MissingError("missing", Problem("trl", "is not installed", "pip install trl")), 3, "missing"),
        (OSError(errno.ENOSPC, "No space left on device", "x.json"), 3, "io"),
        (RuntimeError("a fault"), 70, "internal"),
    ],
)
def test_each_failure_has_its_exit_code_and_one_json_object(error, code, kind, capsys):
    got, out, _ = answer(raising(error), capsys, True)
    assert got == code
    assert json.loads(out)["error"]["kind"] == kind
    got, out, err = answer(raising(error), capsys, False)
    assert got == code and out == "" and err.startswith("a library prints to stdout\n")


def test_all_problems_are_shown_with_their_fixes(capsys):
    error = UserError("config", [Problem("a", "one", "mend"), Problem("b", "two")])
    _, _, err = answer(raising(error), capsys, False)
    assert err == "a library prints to stdout\nerror (config): 2 problems\n  a: one\n    -> mend\n  b: two\n"


def test_the_result_is_the_only_thing_on_stdout(capsys):
    def body(args):
        print("noise")
        return 1, {"open": False}

    assert answer(body, capsys, True)[:2] == (1, '{"open": false}\n')


def test_ctrl_c_is_no_traceback(capsys):
    code, _, err = answer(raising(KeyboardInterrupt()), capsys, False)
    assert code == 130 and "Traceback" not in err


def test_errors_survive_pickling():
    for error in (UserError("config", Problem("a", "b")), GoldError(Problem("a", "b")), MissingError("missing", Problem("a", "b"))):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.kind) == (type(error), str(error), error.kind)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a" / "gate.json"
    cli.write_json(path, "gate", 1, {"text": "half a pair: \ud800"})
    assert json.loads(path.read_text()) == {"schema": "grpo-rlvr/gate/1", "text": "half a pair: \ud800"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    before = path.read_text()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        cli.write_json(path, "gate", 1, {"text": "new"})
    assert path.read_text() == before
    assert [p.name for p in path.parent.iterdir()] == ["gate.json"]


def test_nothing_that_is_said_acts_on_a_terminal(capsys):
    cli.say("a\x1b]0;owned\x07\x9b31m\u202eb\n\tc\x1b[31m")
    cli.say("\x1b[31mred\x1b[0m, \x1b[8mhidden, \x1b[2Jgone", coloured=True)
    said = capsys.readouterr().err
    assert said.splitlines()[0] == r"a\x1b]0;owned\x07\x9b31m\u202eb" and said.splitlines()[1] == "\tc\\x1b[31m"
    assert said.splitlines()[2] == "\x1b[31mred\x1b[0m, \\x1b[8mhidden, \\x1b[2Jgone"


def test_nothing_that_a_reward_prints_acts_on_a_terminal(capsys):
    def body(args):
        print("what the model wrote: \x1b[2J")
        sys.stdout.writelines(["\x1b]0;owned\x07", "\n"])
        assert not sys.stdout.isatty() and sys.stdout.encoding
        return 0, {}

    assert answer(body, capsys, False) == (0, "", "what the model wrote: \\x1b[2J\n\\x1b]0;owned\\x07\n")


@pytest.mark.parametrize("error", [RuntimeError("\x1b[2J"), OSError(errno.EACCES, "no", "\x1b[2J"), UserError("a", Problem("\x1b[2J", "\x1b[2J"))])
def test_no_error_acts_on_a_terminal(error, capsys):
    _, out, err = answer(raising(error), capsys, False)
    assert r"\x1b[2J" in err and "\x1b" not in out + err


def test_a_terminal_of_an_old_code_page_is_no_error():
    code = "import argparse, sys; from grpo_rlvr import cli\n"
    code += "def body(args): print('\\u2211', file=out); cli.say('\\u2211'); return 0, {}\n"
    code += "out = sys.stdout\nsys.exit(cli.run(body, argparse.Namespace()))"
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, rb"\u2211", rb"\u2211")


def test_a_reader_who_goes_away_gets_no_yes_and_no_traceback(tmp_path):
    program = (
        "import argparse, sys; sys.path.insert(0, sys.argv[1]); from grpo_rlvr import cli\n"
        "sys.stdin.read(); sys.exit(cli.run(lambda args: (0, {'x': 'y' * 10**6}), argparse.Namespace(json=True)))"
    )
    command = [sys.executable, "-c", program, str(ROOT / "scripts")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    _, errors = process.communicate()
    assert (process.returncode, errors) == (3, b"")
