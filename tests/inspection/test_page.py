"""The review page in a real browser, read with the keyboard alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import browser
import inspect_rewards
import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.inspection.labels import labels_path, load_judgements, load_labels
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.select import load_selection

from inspection.conftest import Project, completion
from inspection.test_web import running

ATTACK = "<img src=x onerror=\"document.title='owned'\">"
HOSTILE = f"</script>{ATTACK}<svg onload=\"document.title='owned'\">\x00\u202e{ATTACK}\u2028\u200b\ud800</textarea>"
READY = "document.body.dataset.state === 'ready'"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser.started(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def page(chromium):
    return chromium.page()


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Project:
    """50 samples; two of them hostile, one of a million characters, one that the reward wrongly pays."""
    made = Project(tmp_path_factory.mktemp("project"))
    made.data(count=13)
    path = made.record([[0, 0, 1, -1]] * 12 + [[0, 1]])
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[2]["completion"] = completion(99, HOSTILE)
    rows[3]["completion"] = HOSTILE
    rows[6]["completion"] = completion(98, "step by step " + "x" * 1_000_000)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reward = "def lax(completions, answer, **k):\n    return [float(f'>{a}<' in c or '>99<' in c) for c, a in zip(completions, answer)]\n"
    (made.folder / "lax.py").write_text(reward)
    run_inspection(made.write("  - {use: 'lax.py:lax'}", min_read=50, read=50), completions=path, quiet=True)
    return made


@pytest.fixture
def project(source):
    """The same inspection, not yet read."""
    for path in source.inspection.glob("labels*"):
        path.unlink()
    return source


def truth(sample: dict) -> str:
    """What a careful reader says."""
    return "pass" if f"<answer>{sample['columns']['answer']}</answer>" in sample["completion"] else "fail"


def at(page: browser.Page) -> int:
    page.wait(READY)
    return int(page.eval("document.body.dataset.place"))


def judge(page: browser.Page, key: str) -> None:
    page.press(key)
    page.wait(f"{READY} && document.body.dataset.judged === 'yes'")


def on(page: browser.Page) -> None:
    place = at(page)
    page.press("Enter")
    page.wait(f"{READY} && document.body.dataset.place !== '{place}'")


def unharmed(page: browser.Page) -> None:
    """Nothing that a model wrote has become part of the page, and the page asked for nothing that its policy refuses."""
    assert page.eval("document.querySelectorAll('img, svg, iframe, object, embed, link, script:not([type])').length") == 1  # the page's own script
    assert "owned" not in page.eval("document.title") and page.browser.said == []


def test_fifty_labels_with_the_keyboard_alone_and_a_reload_in_the_middle(project, page):
    samples = load_selection(project.inspection)
    assert len(samples) == 50
    with running(project) as client:
        page.open(client.server.url)
        page.wait(READY)
        assert page.eval("location.search") == "" and "Hidden" not in page.text("footer")
        assert "nothing shows that this model wrote them" in page.text("#notice")
        for done in range(50):
            place = at(page)
            sample = samples[place]
            assert place == done and page.eval("document.querySelector('#result').hidden")  # no score before the judgement
            assert page.eval("document.activeElement.id") == "sample"  # where a screen reader goes on
            if HOSTILE[:20] in sample["completion"]:
                unharmed(page)
                shown = page.text("#completion")
                assert "</script><img src=x onerror=" in shown and "U+202E" in shown and "\u202e" not in shown and "U+0000" in shown
            judge(page, truth(sample)[0])
            assert f"Saved: {truth(sample)}" in page.text("#live") and f"You said {truth(sample)}" in page.text("#outcome").replace(
                "disagree: you", "You"
            )
            assert len(labels_path(project.inspection).read_text().splitlines()) == done + 1  # on the disk before the next one is shown
            if done == 24:
                page.reload()
                page.wait(READY)
                assert page.text("#count") == "25 of 50 judged"
            elif done < 49:
                on(page)
        page.press("Enter")
        page.wait("document.querySelector('#done').open")
        assert "All 50 samples are judged" in page.text("#done") and "disagree on 1" in page.text("#done")
        page.press("d")  # as the summary says, while it is open
        page.wait("document.querySelector('#list').open")
        assert "you: fail" in page.text("#list-items") and "reward: pass" in page.text("#list-items")
        page.press("Enter")  # on the first of the list
        page.wait(f"{READY} && !document.querySelector('#list').open && document.querySelector('#result').className === 'differ'")
        page.press("x")
        page.wait("document.querySelector('#ask').open")
        page.press("Enter")  # a line of the note; saving needs the button, or Enter with Ctrl
        page.press("Tab")
        page.press("Tab")
        page.press("Enter")
        assert "needs a reason" in page.text("#ask-problem") or "with a reason" in page.text("#ask-problem")
        page.eval("document.querySelector('#ask-input').focus()")
        page.type("cannot be told from the text")
        page.press("Tab")
        page.press("Tab")
        page.press("Enter")
        page.wait(f"{READY} && document.querySelector('#outcome').innerText.startsWith('You withdrew')")
        unharmed(page)
        page.eval("document.querySelector('#finish').focus()")
        page.press("Enter")
        page.wait("document.querySelector('#done').open")
        page.press("Enter")
        page.wait("document.querySelector('#banner').innerText.startsWith('Finished')")
        assert client.server.finished.is_set()
    rows = [json.loads(line) for line in labels_path(project.inspection).read_text().splitlines()]
    assert [row["label"] for row in rows[:50]] == [truth(s) for s in samples] and [row["sample_id"] for row in rows[:50]] == [
        s["sample_id"] for s in samples
    ]
    assert (rows[50]["label"], rows[50]["note"]) == ("withdrawn", "cannot be told from the text") and len(rows) == 51
    assert {(row["reviewer"], row["reviewer_kind"]) for row in rows} == {("ada", "human")}


def test_undo_notes_a_change_of_mind_and_a_held_key(project, page):
    with running(project) as client:
        page.open(client.server.url)
        page.wait(READY)
        page.press("n")
        page.wait("document.querySelector('#ask').open")
        page.type("odd; p f u are letters here")
        page.eval("document.querySelector('#ask-form').requestSubmit()")
        page.wait("!document.querySelector('#ask').open")
        for repeat in (False, True, True):  # a key that is held down
            page.call("Input.dispatchKeyEvent", type="keyDown", key="p", text="p", windowsVirtualKeyCode=80, autoRepeat=repeat)
        page.wait(f"{READY} && document.body.dataset.judged === 'yes'")
        page.press("z")
        page.wait(f"{READY} && document.body.dataset.judged === 'no'")
        judge(page, "u")
        page.press("f")  # another judgement, now that the score was seen
        page.wait("document.querySelector('#ask').open")
        page.type("a closer look")
        page.eval("document.querySelector('#ask-form').requestSubmit()")
        page.wait(f"{READY} && document.querySelector('.judge.fail').getAttribute('aria-pressed') === 'true'")
        page.press("f")  # the same once more
        page.press("z")
        page.wait(f"{READY} && document.querySelector('.judge.unsure').getAttribute('aria-pressed') === 'true'")
        on(page)
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r", windowsVirtualKeyCode=13, autoRepeat=True)
        assert at(page) == 1  # a held Enter does not race through the samples
        page.press("ArrowRight")
        page.wait(f"{READY} && document.body.dataset.place === '2'")
        page.press("ArrowLeft")
        page.wait(f"{READY} && document.body.dataset.place === '1'")
        page.press("ArrowLeft")
        page.wait(f"{READY} && document.body.dataset.place === '0'")
    rows = [json.loads(line) for line in labels_path(project.inspection).read_text().splitlines()]
    said = [("pass", "odd; p f u are letters here"), ("undone", ""), ("unsure", ""), ("fail", "a closer look"), ("unsure", "")]
    assert [(row["label"], row["note"]) for row in rows] == said
    assert load_judgements(project.inspection)[0]["first"] == "pass" and load_judgements(project.inspection)[0]["revised"]


def test_two_tabs_and_a_server_that_is_gone(project, chromium):
    one, two = chromium.page(), chromium.page()
    with running(project) as client:
        for tab in (one, two):
            tab.open(client.server.url)
            tab.wait(READY)
        judge(one, "p")
        two.press("f")
        two.wait(f"{READY} && !document.querySelector('#banner').hidden")
        assert "you said pass elsewhere" in two.text("#banner") and "you said pass" in two.text("#outcome").lower()
    two.press("Enter")
    two.wait(f"{READY} && document.querySelector('#banner').innerText.includes('what you just did is not')")
    assert two.eval("document.body.dataset.place") == "0"
    assert [row["label"] for row in load_labels(project.inspection)] == ["pass"]
    chromium.said.clear()  # the browser's own words on the refused connections


def test_long_texts_are_folded_and_whitespace_shows_on_demand(project, page):
    samples = load_selection(project.inspection)
    long = next(i for i, s in enumerate(samples) if len(s["completion"]) > 10**6)
    with running(project) as client:
        page.open(client.server.url)
        page.wait(READY)
        page.press("g")
        page.type(str(long + 1))
        page.press("Enter")
        page.wait(f"{READY} && document.body.dataset.place === '{long}'")
        shown = page.text("#completion")
        assert len(shown) < 6000 and "characters folded" in shown and page.text("#completion mark") == "98"  # the answer is never folded away
        page.press("m")
        page.wait("document.querySelector('#completion').innerText.length > 50000")
        assert page.eval("document.querySelector('#completion').innerText.length") < 60_000
        assert page.eval("document.documentElement.scrollWidth") <= page.eval("window.innerWidth")
        page.press("w")
        page.wait("document.querySelector('#whitespace').getAttribute('aria-pressed') === 'true'")
        assert "step·by·step·" in page.text("#completion")


def test_a_phone_and_the_dark(project, page):
    """Nothing sticks out sideways, and text stands out from what is behind it (WCAG 2.2, 1.4.3: 4.5 to 1)."""
    with running(project) as client:
        for width, scheme in ((1280, "light"), (390, "dark"), (390, "light"), (320, "light")):
            page.size(width, 800, scheme, mobile=width < 500)
            page.open(client.server.url)
            page.wait(READY)
            if page.eval("document.body.dataset.judged") == "no":
                judge(page, "p")
            wide = '[{role: "system", parts: [["text", "word ".repeat(90)]]}, {role: "user", parts: [["text", "x".repeat(999)]]}]'
            page.eval(f"showMessages($('prompt'), {wide}, false)")
            assert page.eval("document.documentElement.scrollWidth") <= width
            boxes = "[...document.querySelectorAll('.card')].map((card) => card.getBoundingClientRect()).filter((box) => box.width)"
            assert page.eval(f"{boxes}.every((a) => {boxes}.every((b) => a.x === b.x || a.right <= b.x || b.right <= a.x))")  # none over another
            assert page.eval("Math.min(...[...document.querySelectorAll('.judge')].map((b) => b.getBoundingClientRect().height))") >= 44
            assert page.eval(CONTRAST) == []


# The elements whose own text has less than 4.5 to 1 against the nearest background colour behind it.
CONTRAST = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c; }
  };
  return [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && !e.disabled && !e.closest('.unseen, .skip')
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
    .map((e) => { const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
      return [e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 20), (a + .05) / (b + .05)]; })
    .filter(([, ratio]) => ratio < 4.5);
})()"""


def test_every_control_has_a_name_and_a_place_in_the_order(project, page):
    with running(project) as client:
        page.open(client.server.url)
        page.wait(READY)
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        named = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored")]
        assert not [role for role, name in named if role in ("button", "progressbar", "textbox", "heading") and not name]
        roles = Counter(role for role, _ in named)
        assert roles["main"] == roles["banner"] == roles["contentinfo"] == roles["navigation"] == 1 and roles["status"] >= 1
        assert {"p Pass", "f Fail", "u Unsure"} <= {" ".join((name[0], name[1:].strip())) for role, name in named if role == "button" and name}
        page.press("?")
        page.wait("document.querySelector('#help').open")
        page.press("f")  # no judgement while a dialog is open
        page.press("Escape")
        page.wait("!document.querySelector('#help').open && document.activeElement.id === 'sample'")
        assert page.eval("document.body.dataset.judged") == "no"


def test_the_static_page_from_a_file_labels_and_is_imported(project, page, chromium, tmp_path, capsys):
    file, config = tmp_path / "read me & more.html", str(project.config_path)
    assert inspect_rewards.main(["review", config, "--static", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 50
    text = file.read_text()
    assert ATTACK not in text and '"verdict"' not in text and "lax" not in text and "http://" not in text and "https://" not in text
    samples = load_selection(project.inspection)
    page.open(file.as_uri())
    page.wait("document.querySelector('#ask').open")
    page.type("eve")
    page.press("Enter")
    page.wait(READY)
    for done in range(50):
        assert at(page) == done and page.eval("document.querySelector('#result').hidden")
        judge(page, truth(samples[done])[0])
        if done == 24:
            page.reload()  # the labels are in the browser
            page.wait(READY)
        elif done < 49:
            on(page)
    unharmed(page)
    page.press("z")
    page.wait(f"{READY} && document.body.dataset.judged === 'no'")
    judge(page, truth(samples[49])[0])
    chromium.downloads(tmp_path)
    page.press("Enter")
    page.wait("document.querySelector('#done').open")
    page.press("Enter")
    downloaded = wait_for(page, tmp_path / "labels.jsonl")
    assert inspect_rewards.main(["gate", config, "--labels", str(downloaded), "--json"]) == 1  # the reward pays a wrong answer
    gate = json.loads(capsys.readouterr().out)
    assert gate["imported"] == {"added": 52, "known": 0, "outdated": 0}
    assert gate["counts"]["read"] == 50 and gate["counts"]["disagreements"] == 1 and gate["reviewer_kind"] == "human" and gate["reviewers"] == ["eve"]
    assert [r["label"] for r in load_labels(project.inspection)] == [truth(s) for s in samples]
    inspect_rewards.main(["gate", config, "--labels", str(downloaded), "--json"])
    assert json.loads(capsys.readouterr().out)["imported"] == {"added": 0, "known": 52, "outdated": 0}


def wait_for(page: browser.Page, path: Path) -> Path:
    """A download; the page is asked something meanwhile, so that the browser's messages are taken in."""
    for _ in range(2000):
        if path.exists() and path.stat().st_size:
            return path
        page.eval("new Promise((resolve) => setTimeout(resolve, 10))")
    raise AssertionError(f"nothing was downloaded: {list(path.parent.iterdir())}")


def test_without_a_browser_the_reason_is_said(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("GRPO_RLVR_TEST_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Chromium on this machine"):
        browser.find()
    monkeypatch.setenv("GRPO_RLVR_TEST_BROWSER", "required")
    with pytest.raises(pytest.fail.Exception, match="GRPO_RLVR_TEST_BROWSER=required"):
        browser.find()


def test_the_config_of_the_tests_is_what_they_say(source):
    assert load_config(source.config_path).inspection.min_read == 50
