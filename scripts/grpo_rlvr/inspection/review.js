"use strict";
// One sample at a time. Everything that a model or a file wrote reaches the page as text nodes, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const JUDGED = { p: "pass", f: "fail", u: "unsure" };
const FOLD_CHARS = 4000, FOLD_LINES = 60, MORE_CHARS = 50000;

// ---------------------------------------------------------------- where samples come from and judgements go

class Failure extends Error {
  constructor(message, said) { super(message); this.said = said; }
}

/** The server of inspect_rewards.py review. */
const server = {
  async ask(path, body) {
    const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    let response, answer;
    try {
      response = await fetch(path, { ...options, credentials: "same-origin", cache: "no-store" });
      answer = await response.json();
    } catch {
      throw new Failure("The review does not answer any more. What is shown as judged is saved; what you just did is not. Start it again and open the address that it prints.");
    }
    if (!response.ok) throw new Failure(answer.error.message, answer.said);
    return answer;
  },
  state() { return this.ask("/api/state"); },
  sample(id) { return this.ask("/api/sample?id=" + encodeURIComponent(id)); },
  judge(id, label, note, turn) { return this.ask("/api/label", { sample_id: id, label, note, turn }); },
};

/** The samples of this file; labels are kept in this browser until they are downloaded. */
const file = {
  memory: null,
  reviewer: "",
  key(what) { return "grpo-rlvr-review:" + data.page_id + ":" + what; },
  read(what) {
    try { return localStorage.getItem(this.key(what)); } catch { return (this.memory ||= {})[what] ?? null; }
  },
  write(what, text) {
    try { localStorage.setItem(this.key(what), text); } catch {
      (this.memory ||= {})[what] = text;
      banner("This browser keeps nothing for this page: download the labels before you close it.");
    }
  },
  seen: null,
  /** The judgements of this reader, as rows of labels.jsonl and as the last word on each sample; read again when another tab has written. */
  load() {
    const text = this.read("labels:" + this.reviewer) || "[]";
    if (this.seen?.text !== text || this.seen.reviewer !== this.reviewer) {
      this.seen = { text, reviewer: this.reviewer, rows: [], said: {} };
      for (const row of JSON.parse(text)) this.take(row);
    }
    return this.seen;
  },
  take(row) {
    const id = row.sample_id, turn = (this.seen.said[id]?.turn || 0) + 1;
    this.seen.rows.push(row);
    this.seen.said[id] = { label: row.label, note: row.note, turn, verdict: row.label === "undone" ? null : this.score(id).verdict };
  },
  places: new Map((data.samples || []).map((sample, place) => [sample.sample_id, place])),
  score(id) { return JSON.parse(unscramble(data.scores[this.places.get(id)], id)); },
  async state() { return { reviewer: this.reviewer, selected: [...this.places.keys()], said: { ...this.load().said }, stale: false, notice: data.notice }; },
  async sample(id) {
    const said = this.load().said[id];
    return { ...data.samples[this.places.get(id)], score: said && said.label !== "undone" ? this.score(id) : null };
  },
  async judge(id, label, note, turn) {
    const before = this.load().said[id];
    const same = before ? before.label === label && before.note === note : label === "undone";
    if (!same) {
      if ((before?.turn || 0) !== turn) throw new Failure("You said " + (before?.label || "nothing") + " in another tab in the meantime; nothing was changed.", before);
      const at = new Date().toISOString().slice(0, 19) + "+00:00";
      const row = { schema: data.label_schema, sample_id: id, label, reviewer: this.reviewer, reviewer_kind: "human", at, note };
      this.take(row);
      this.seen.text = JSON.stringify(this.seen.rows);
      this.write("labels:" + this.reviewer, this.seen.text);
    }
    const said = this.seen.said[id];
    return { added: !same, said, score: label === "undone" ? null : this.score(id) };
  },
};
const store = data.mode === "static" ? file : server;

/** Undoes page.scramble: xorshift32 started by the FNV-1a hash of the sample's id. */
function unscramble(text, key) {
  let state = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(key)) state = Math.imul(state ^ byte, 0x01000193) >>> 0;
  state = state || 1;
  return Array.from(atob(text), (character) => {
    state = (state ^ (state << 13)) >>> 0;
    state = (state ^ (state >>> 17)) >>> 0;
    state = (state ^ (state << 5)) >>> 0;
    return String.fromCharCode(character.charCodeAt(0) ^ (state & 0xff));
  }).join("");
}

// ---------------------------------------------------------------- hostile text, made visible

const UNSEEN = /[^\P{C}\n\t]|[\p{Zl}\p{Zp}\p{DI}\u2800\ufffd]|[^\P{Zs} ]/u;
const UNSEEN_RUNS = new RegExp("(" + UNSEEN.source + ")\\1*", "gu");
const NAMES = {
  0: "NUL", 7: "BEL", 8: "BACKSPACE", 13: "CR", 27: "ESC", 0xa0: "NO-BREAK SPACE", 0xad: "SOFT HYPHEN", 0x200b: "ZERO WIDTH SPACE", 0x200c: "ZERO WIDTH NON-JOINER",
  0x200d: "ZERO WIDTH JOINER", 0x200e: "LEFT-TO-RIGHT MARK", 0x200f: "RIGHT-TO-LEFT MARK", 0x2028: "LINE SEPARATOR", 0x2029: "PARAGRAPH SEPARATOR",
  0x202a: "LEFT-TO-RIGHT EMBEDDING", 0x202b: "RIGHT-TO-LEFT EMBEDDING", 0x202c: "POP DIRECTIONAL FORMATTING", 0x202d: "LEFT-TO-RIGHT OVERRIDE",
  0x202e: "RIGHT-TO-LEFT OVERRIDE", 0x2060: "WORD JOINER", 0x2066: "LEFT-TO-RIGHT ISOLATE", 0x2067: "RIGHT-TO-LEFT ISOLATE", 0x2069: "POP DIRECTIONAL ISOLATE",
  0xfe0f: "VARIATION SELECTOR-16", 0xfeff: "BYTE ORDER MARK", 0xfffd: "not valid text: REPLACEMENT CHARACTER",
};
// Letters of other scripts that look like Latin ones count inside a word that also has ASCII letters or digits; the others always.
const WORDS = /[\p{L}\p{N}]+/gu;
const ALIKE = /[аАвВеЕёЁкКмМнНоОрРсСтТуУхХѕЅіІїЇјЈһӏԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧορνυι]/u;
const ALWAYS_ALIKE = /[０-９Ａ-Ｚａ-ｚ\u{1d400}-\u{1d7ff}\u2070-\u209c\u2460-\u249b]/u;

function element(tag, classes, text) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Adds `text` to `parent` as text nodes, with what cannot be seen spelled out and look-alikes marked. */
function addText(parent, text, whitespace) {
  if (!UNSEEN.test(text)) return addWords(parent, text, whitespace);
  let from = 0;
  for (const found of text.matchAll(UNSEEN_RUNS)) {
    addWords(parent, text.slice(from, found.index), whitespace);
    const code = found[1].codePointAt(0), count = found[0].length / found[1].length;
    const name = "U+" + code.toString(16).toUpperCase().padStart(4, "0");
    const shown = element("span", "control", name + (count > 1 ? " \u00d7" + count.toLocaleString("en") : ""));
    shown.title = NAMES[code] || (code >= 0xd800 && code < 0xe000 ? "half of a surrogate pair" : "cannot be seen");
    parent.append(shown);
    from = found.index + found[0].length;
  }
  addWords(parent, text.slice(from), whitespace);
}

function addWords(parent, text, whitespace) {
  if (!/[^\x00-\x7f]/.test(text)) return addSpaces(parent, text, whitespace);
  let plain = 0;
  for (const word of text.matchAll(WORDS)) {
    const mixed = /[A-Za-z0-9]/.test(word[0]) && ALIKE.test(word[0]);
    if (!mixed && !ALWAYS_ALIKE.test(word[0])) continue;
    let at = word.index;
    for (const character of word[0]) {
      if ((mixed && ALIKE.test(character)) || ALWAYS_ALIKE.test(character)) {
        addSpaces(parent, text.slice(plain, at), whitespace);
        const shown = element("span", "lookalike", character);
        shown.title = "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + ", looks like another character";
        parent.append(shown);
        plain = at + character.length;
      }
      at += character.length;
    }
  }
  addSpaces(parent, text.slice(plain), whitespace);
}

function addSpaces(parent, text, whitespace) {
  if (!text) return;
  if (!whitespace) return parent.append(text);
  for (const piece of text.split(/( +|\t+|\n+)/)) {
    if (!piece) continue;
    const mark = { " ": "\u00b7", "\t": "\u2192\t", "\n": "\u21b5\n" }[piece[0]];
    parent.append(mark ? element("span", "space", mark.repeat(piece.length)) : piece);
  }
}

/** The nearest place at or before `at` that does not cut a surrogate pair. */
function whole(text, at) {
  return at > 0 && at < text.length && /[\ud800-\udbff]/.test(text[at - 1]) && /[\udc00-\udfff]/.test(text[at]) ? at - 1 : at;
}

/** Where the head of a text ends and its tail begins when it is folded; null for one that is short. */
function folds(text) {
  const lines = [];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines.push(at);
  if (text.length <= FOLD_CHARS && lines.length < FOLD_LINES) return null;
  const many = lines.length >= FOLD_LINES;
  const head = Math.min(FOLD_CHARS / 2, many ? lines[FOLD_LINES / 2 - 1] + 1 : text.length);
  const tail = Math.max(text.length - FOLD_CHARS / 2, many ? lines[lines.length - FOLD_LINES / 2] + 1 : 0);
  return tail - head < 200 ? null : [whole(text, head), whole(text, tail)];
}

/** Fills `box` with a text, its middle folded; `box.more()` unfolds the next piece and says whether there was one. */
function addFolded(box, text, whitespace) {
  const cut = folds(text);
  if (!cut) return addText(box, text, whitespace);
  let [head, tail] = cut;
  addText(box, text.slice(0, head), whitespace);
  const fold = element("button", "fold");
  const label = () => {
    const hidden = tail - head, next = Math.min(hidden, MORE_CHARS);
    fold.textContent = `${hidden.toLocaleString("en")} characters folded \u2013 show ${next < hidden ? `${next.toLocaleString("en")} more` : "them"}`;
  };
  label();
  box.append(fold);
  addText(box, text.slice(tail), whitespace);
  fold.unfold = () => {
    const to = whole(text, Math.min(tail, head + MORE_CHARS));
    const piece = document.createElement("span");
    addText(piece, text.slice(head, to), whitespace);
    fold.before(piece);
    head = to;
    if (head >= tail) fold.remove(); else label();
    showUnfold();
  };
  fold.addEventListener("click", fold.unfold);
}

/** A system message is the same in every sample: one line until it is opened. */
function addSystem(shown, role, message, whitespace) {
  const details = element("details"), text = message.parts.map((part) => part[1]).join(""), body = element("div", "text");
  const preview = element("span", "preview");
  addText(preview, text.slice(0, 120).replace(/\s+/g, " "), false);
  role.append(preview);
  details.open = view.systemOpen;
  details.addEventListener("toggle", () => { view.systemOpen = details.open; });
  addFolded(body, text, whitespace);
  details.append(role, body);
  shown.append(details);
  return shown;
}

function showMessages(box, messages, whitespace) {
  box.replaceChildren(...messages.map((message) => {
    const shown = element("div", "message"), named = message.role !== null || messages.length > 1;
    const role = element(message.role === "system" ? "summary" : "p", "role");
    addText(role, message.role || "no role", false);
    if (messages.length > 1 && messages.some((m) => m.scored)) role.append(message.scored ? " \u2013 the message that rewards score" : " \u2013 not scored");
    if (message.role === "system") return addSystem(shown, role, message, whitespace);
    if (named) shown.append(role);
    let flow = null; // final and answer parts run on in one paragraph; reasoning stands apart
    for (const [kind, text] of message.parts) {
      if (kind === "reasoning" || kind === "text" || !flow) {
        flow = element("div", "text" + (kind === "reasoning" ? " reasoning" : ""));
        if (kind === "reasoning") flow.append(element("span", "kind", "Reasoning"));
        shown.append(flow);
      }
      // The reasoning's block ends its line already; a line end that follows it would show as an empty line.
      const said = kind === "final" && shown.querySelector(".reasoning") && !flow.hasChildNodes() && !whitespace ? text.replace(/^\n/, "") : text;
      const into = kind === "answer" ? flow.appendChild(element("mark")) : flow;
      if (kind === "answer") into.title = "the final answer, as the library reads it";
      addFolded(into, said, whitespace);
      if (kind === "reasoning" || kind === "text") flow = null;
    }
    if (!message.parts.length) shown.append(element("p", "empty", "nothing was written"));
    return shown;
  }));
}

// ---------------------------------------------------------------- the page

const view = { selected: [], said: {}, reviewer: "", place: -1, sample: null, whitespace: false, undo: [], pendingNote: "", systemOpen: false };
let busy = false;

const current = () => view.selected[view.place];
const saidOf = (id) => view.said[id];
const judged = (id) => { const said = saidOf(id); return Boolean(said) && said.label !== "undone"; };
const differs = (said) => Boolean(said) && ((said.label === "pass" && said.verdict === "fail") || (said.label === "fail" && said.verdict === "pass"));
const number = (value) => value === null ? "none" : String(Math.round(value * 1e4) / 1e4);

function announce(text) { $("live").textContent = text; }

function banner(text) {
  $("banner").textContent = text;
  $("banner").hidden = !text;
}

/** Runs one action at a time; keys that come meanwhile are dropped, so that nobody judges a sample that is not on the screen yet. */
async function act(action) {
  if (busy) return;
  busy = true;
  document.body.dataset.state = "busy";
  try {
    await action();
  } catch (error) {
    banner(error.message);
    if (error.said !== undefined) {
      if (error.said) view.said[current()] = error.said; else delete view.said[current()];
      await show(view.place, false).catch(() => {});
    }
  }
  busy = false;
  document.body.dataset.state = "ready";
}

async function show(place, move = true) {
  const sample = await store.sample(view.selected[place]);
  if (move) view.pendingNote = "";
  view.place = place;
  view.sample = sample;
  draw();
  if (move) {
    banner("");
    window.scrollTo(0, 0);
    $("sample").focus({ preventScroll: true });
    announce(`Sample ${place + 1} of ${view.selected.length}. ${judged(current()) ? "You said " + saidOf(current()).label : "Not judged"}.`);
  }
}

function draw() {
  const { sample, place, selected } = view;
  const place_ = $("place");
  place_.replaceChildren(`Sample ${(place + 1).toLocaleString("en")} `, element("small", "", `of ${selected.length.toLocaleString("en")}`));
  document.title = `${place + 1} of ${selected.length} \u2013 review`;
  document.body.dataset.place = String(place);
  $("facts").replaceChildren(...sample.facts.map((fact) => element("li", "", fact)));
  drawTexts();
  drawResult();
  drawProgress();
}

function drawTexts() {
  showMessages($("prompt"), view.sample.prompt, view.whitespace);
  showMessages($("completion"), view.sample.completion, view.whitespace);
  $("gold").replaceChildren(...view.sample.gold.map(([name, text]) => {
    const row = element("div"), term = element("dt"), value = element("dd", "text");
    addText(term, name, false);
    addFolded(value, text, view.whitespace);
    if (!text) value.append(element("span", "empty", "empty"));
    row.append(term, value);
    return row;
  }));
  $("whitespace").setAttribute("aria-pressed", String(view.whitespace));
  showUnfold();
}

function showUnfold() { $("unfold").hidden = !document.querySelector("main .fold"); }

function drawResult() {
  const said = saidOf(current()), known = judged(current()), score = view.sample.score;
  for (const button of document.querySelectorAll(".judge")) button.setAttribute("aria-pressed", String(known && said.label === button.dataset.label));
  const result = $("result");
  const note = known ? said.note : view.pendingNote;
  result.hidden = !known && !note;
  document.body.dataset.judged = known ? "yes" : "no";
  result.className = !known ? "" : differs(said) ? "differ" : said.label === said.verdict ? "agree" : "open";
  $("outcome").textContent = known ? outcome(said, score) : "Your note goes with the judgement.";
  $("parts").replaceChildren(...(known ? [...score.parts, { name: "total", value: score.total }] : []).map((part) => {
    const item = element("li");
    addText(item, part.name + " ", false);
    item.append(element("b", "", number(part.value)));
    return item;
  }));
  $("kept-note").replaceChildren();
  if (note) addText($("kept-note"), "Note: " + note, false);
  $("withdraw").hidden = !known || said.label === "withdrawn";
  $("next").hidden = !known;
  $("next").firstChild.textContent = waiting(view.place + 1) === null ? "Summary" : "Next";
  $("undo").disabled = !view.undo.length;
  $("previous").disabled = view.place <= 0;
  $("following").disabled = view.place >= view.selected.length - 1;
}

function outcome(said, score) {
  const reward = { pass: "the reward passes it", fail: "the reward fails it", none: "the reward could not score it" }[score.verdict];
  if (said.label === "withdrawn") return `You withdrew your label; ${reward}.`;
  if (differs(said)) return `You and the reward disagree: you said ${said.label}, ${reward}.`;
  return `You said ${said.label}; ${reward}.`;
}

function drawProgress() {
  const counts = { pass: 0, fail: 0, unsure: 0, withdrawn: 0 };
  let differ = 0;
  for (const said of Object.values(view.said)) {
    if (said.label in counts) counts[said.label] += 1;
    if (differs(said)) differ += 1;
  }
  const all = view.selected.length, done = counts.pass + counts.fail + counts.unsure + counts.withdrawn;
  for (const name of ["pass", "fail", "unsure"]) $("meter").querySelector("." + name).style.width = `${(100 * (counts[name] + (name === "unsure" ? counts.withdrawn : 0))) / all}%`;
  $("meter").setAttribute("aria-valuemax", String(all));
  $("meter").setAttribute("aria-valuenow", String(done));
  $("meter").setAttribute("aria-valuetext", `${done} of ${all}: ${counts.pass} pass, ${counts.fail} fail, ${counts.unsure} unsure`);
  $("count").textContent = `${done.toLocaleString("en")} of ${all.toLocaleString("en")} judged`;
  $("disagreements").textContent = String(differ);
  $("disagreements").classList.toggle("some", differ > 0);
  view.counts = { ...counts, all, done, differ };
}

/** The place of the next sample without a judgement, from `start` on and then from the beginning; null if there is none. */
function waiting(start) {
  const all = view.selected.length;
  for (let step = 0; step < all; step++) if (!judged(view.selected[(start + step) % all])) return (start + step) % all;
  return null;
}

// ---------------------------------------------------------------- what the reader does

async function save(label, note) {
  const id = current(), before = saidOf(id);
  const answer = await store.judge(id, label, note, before?.turn || 0);
  if (answer.added) view.undo.push({ id, before });
  accept(id, answer);
  if (label !== "undone") announce(`Saved: ${label}. ${outcome(saidOf(id), answer.score)}`);
}

function accept(id, answer) {
  if (answer.said) view.said[id] = answer.said; else delete view.said[id];
  view.sample.score = answer.score;
  view.pendingNote = "";
  banner("");
  drawResult();
  drawProgress();
}

function judge(label) {
  const said = saidOf(current());
  if (!judged(current())) return act(() => save(label, view.pendingNote));
  if (said.label === label) return announce(`${label} is saved. Enter goes on.`);
  ask({
    title: `Change ${said.label} to ${label}?`,
    text: "You have seen the score. Say why the first judgement was wrong; both stay in the file.",
    label: "Reason", needed: "A change after the score was seen needs its reason.", save: "Change",
    then: (note) => act(() => save(label, note)),
  });
}

function note() {
  const known = judged(current());
  ask({
    title: "Note to this sample", text: known ? "" : "It is saved with your judgement.", label: "Note", value: known ? saidOf(current()).note : view.pendingNote, save: "Keep",
    needed: known && saidOf(current()).label === "withdrawn" ? "A withdrawn label keeps its reason." : "",
    then: (text) => {
      if (known) return act(() => save(saidOf(current()).label, text));
      view.pendingNote = text;
      drawResult();
      announce("Noted.");
    },
  });
}

function withdraw() {
  if (!judged(current())) return announce("There is no label of yours to withdraw here.");
  ask({
    title: "Withdraw your label?", text: "The sample then counts neither for nor against the reward. The gate shows the reason.", label: "Reason", save: "Withdraw",
    needed: "A label is withdrawn with a reason.", then: (text) => act(() => save("withdrawn", text)),
  });
}

function undo() {
  const last = view.undo[view.undo.length - 1];
  if (!last) return announce("There is nothing to undo.");
  return act(async () => {
    const place = view.selected.indexOf(last.id);
    if (place !== view.place) await show(place);
    const answer = await store.judge(last.id, last.before?.label || "undone", last.before?.note || "", saidOf(last.id)?.turn || 0);
    view.undo.pop();
    accept(last.id, answer);
    announce(last.before && last.before.label !== "undone" ? `Undone: it is ${last.before.label} again.` : "Undone: this sample is not judged.");
  });
}

function goOn() {
  const place = waiting(view.place + 1);
  if (place === null) return showDone();
  return act(() => show(place));
}

function go(place) {
  if (place >= 0 && place < view.selected.length && place !== view.place) return act(() => show(place));
}

function goTo() {
  ask({
    title: "Go to a sample", text: `From 1 to ${view.selected.length}.`, label: "Number", save: "Go", needed: "Which number?", short: true,
    check: (text) => Number.isInteger(Number(text)) && text >= 1 && text <= view.selected.length ? "" : `A number from 1 to ${view.selected.length}.`,
    then: (text) => go(Number(text) - 1),
  });
}

let asked = null;
function ask(question) {
  asked = question;
  $("ask-title").textContent = question.title;
  $("ask-text").textContent = question.text;
  $("ask-label").textContent = question.label;
  $("ask-save").textContent = question.save;
  $("ask-problem").textContent = "";
  $("ask-cancel").hidden = Boolean(question.must);
  const input = $("ask-input");
  input.value = question.value || "";
  input.rows = question.short ? 1 : 4;
  input.maxLength = question.short ? data.name_chars : data.note_chars;
  $("ask").showModal();
  input.focus();
}

function answerAsked(event) {
  event.preventDefault();
  const text = $("ask-input").value.trim();
  const problem = !text && asked.needed ? asked.needed : asked.check ? asked.check(text) : "";
  if (problem) { $("ask-problem").textContent = problem; return; }
  $("ask").close();
  asked.then(text);
}

function showList() {
  const places = view.selected.map((id, place) => [id, place]).filter(([id]) => differs(saidOf(id)));
  $("list-empty").hidden = places.length > 0;
  $("list-items").replaceChildren(...places.map(([id, place]) => {
    const item = element("li"), button = element("button");
    const said = saidOf(id);
    button.append(element("b", "", `Sample ${place + 1}`), element("span", "", `you: ${said.label}`), element("span", "", `reward: ${said.verdict}`));
    button.addEventListener("click", () => { $("list").close(); go(place); });
    item.append(button);
    return item;
  }));
  $("list").showModal();
}

function showDone() {
  const { all, done, differ, pass, fail, unsure, withdrawn } = view.counts;
  $("done-title").textContent = done === all ? `All ${all.toLocaleString("en")} samples are judged` : `${done.toLocaleString("en")} of ${all.toLocaleString("en")} samples are judged`;
  const parts = [`${pass} pass, ${fail} fail, ${unsure} unsure${withdrawn ? `, ${withdrawn} withdrawn` : ""}.`];
  parts.push(differ ? `You and the reward disagree on ${differ}: look at them again (key d), withdraw a label that was wrong, or mend the reward.` : done ? "You and the reward disagree nowhere." : "");
  if (data.mode === "static") parts.push("Download the labels and give them to inspect_rewards.py gate CONFIG --labels FILE.");
  else parts.push(done === all ? "Next: inspect_rewards.py gate CONFIG" : "You can go on another time where you stopped.");
  $("done-text").textContent = parts.filter(Boolean).join(" ");
  $("done-go").textContent = data.mode === "static" ? "Download labels" : "Finish";
  $("done-list").hidden = !differ;
  $("done").showModal();
  $("done-go").focus();
}

function fromDoneToList() {
  $("done").close();
  showList();
}

async function finish() {
  $("done").close();
  if (data.mode === "static") return download();
  await act(async () => {
    await server.ask("/api/finish", {});
    banner("Finished. Everything is saved; you can close this tab.");
    for (const button of document.querySelectorAll("main button, footer button, header button")) button.disabled = true;
    view.over = true;
  });
}

function download() {
  // Half a surrogate pair in a note has no bytes of its own; JSON.stringify writes it as an escape.
  const text = file.load().rows.map((row) => JSON.stringify(row) + "\n").join("");
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  link.download = "labels.jsonl";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  announce("The labels are downloaded.");
}

function showHelp() {
  $("help").showModal();
  $("help-title").focus(); // from its beginning, also where it has to be scrolled
}

function toggleWhitespace() {
  view.whitespace = !view.whitespace;
  drawTexts();
  announce(view.whitespace ? "White space is shown." : "White space is not shown.");
}

function unfold() {
  for (const fold of document.querySelectorAll("main .fold")) fold.unfold();
}

// ---------------------------------------------------------------- keys and buttons

const KEYS = {
  ArrowLeft: () => go(view.place - 1), ArrowRight: () => go(view.place + 1), Enter: goOn, z: undo, n: note, x: withdraw, d: showList, g: goTo,
  w: toggleWhitespace, m: unfold, "?": showHelp,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || view.over || view.place < 0) return;
  if (document.querySelector("dialog[open]") || event.target.closest("input, textarea")) return;
  if (event.key === "Enter" && event.target.closest("button, a, summary")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const action = KEYS[key] || (JUDGED[key] && (() => judge(JUDGED[key])));
  if (!action || (event.key.length === 1 && !$("single-keys").checked)) return;
  event.preventDefault();
  if (event.repeat && !key.startsWith("Arrow")) return; // a key that is held down judges once
  if (!busy) action();
});

for (const button of document.querySelectorAll(".judge")) button.addEventListener("click", () => busy || judge(button.dataset.label));
for (const [id, action] of Object.entries({
  previous: KEYS.ArrowLeft, following: KEYS.ArrowRight, next: goOn, undo, note, withdraw, whitespace: toggleWhitespace, unfold, "open-list": showList,
  "open-help": KEYS["?"], "open-goto": goTo, finish: showDone, "done-go": finish, "done-list": fromDoneToList, reviewer: askName,
})) $(id).addEventListener("click", () => busy || action());
for (const button of document.querySelectorAll("dialog .close")) button.addEventListener("click", () => button.closest("dialog").close());
$("done").addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "d" || event.ctrlKey || event.metaKey || event.altKey || $("done-list").hidden || !$("single-keys").checked) return;
  event.preventDefault();
  if (!event.repeat) fromDoneToList();
});
$("ask-form").addEventListener("submit", answerAsked);
$("ask-cancel").addEventListener("click", () => $("ask").close());
$("ask").addEventListener("cancel", (event) => { if (asked?.must) event.preventDefault(); });
$("ask-input").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (asked.short || event.ctrlKey || event.metaKey)) { event.preventDefault(); $("ask-form").requestSubmit(); }
});
// A dialog that closes gives the keys back to the sample.
for (const dialog of document.querySelectorAll("dialog")) dialog.addEventListener("close", () => $("sample").focus({ preventScroll: true }));

function remember(name, value) { try { localStorage.setItem("grpo-rlvr-review:" + name, value); } catch { /* a comfort only */ } }
function recall(name) { try { return localStorage.getItem("grpo-rlvr-review:" + name); } catch { return null; } }
$("single-keys").checked = recall("single-keys") !== "off";
$("single-keys").addEventListener("change", () => remember("single-keys", $("single-keys").checked ? "on" : "off"));

// Another tab may have judged meanwhile.
document.addEventListener("visibilitychange", () => {
  if (document.hidden || view.place < 0 || view.over || document.querySelector("dialog[open]")) return;
  act(async () => { await load(); await show(view.place, false); });
});

async function load() {
  const state = await store.state();
  Object.assign(view, { reviewer: state.reviewer, selected: state.selected, said: state.said, notice: state.notice });
  $("reviewer-name").textContent = data.mode === "server" ? state.reviewer : "";
  $("notice").textContent = view.notice ? `Know before you read: ${view.notice}.` : "";
  $("notice").hidden = !view.notice;
  if (state.stale) banner("A run has written new samples or scores since this review was started. Labels stay good; start the review again to see them.");
}

function askName() {
  ask({
    title: "Who reads?", text: "Your name is kept with each label. Labels stay in this browser until you download them.", label: "Name", value: file.reviewer || data.reviewer, save: "Start",
    needed: "A name is needed.", short: true, must: !file.reviewer,
    then: (name) => { file.reviewer = name; file.write("reviewer", name); start(); },
  });
}

async function start() {
  view.undo = [];
  await act(async () => {
    await load();
    if (data.mode === "static") {
      $("reviewer").hidden = false;
      $("reviewer").textContent = view.reviewer;
      $("finish").textContent = "Download labels";
    }
    if (view.selected.length) await show(waiting(0) ?? 0);
  });
  if (!view.selected.length) return banner("No samples have been selected. Run: inspect_rewards.py run CONFIG");
  if (view.counts && waiting(0) === null) showDone();
}

if (location.search) history.replaceState(null, "", location.pathname); // the secret does not stay in the address bar
if (data.mode === "static") {
  file.reviewer = file.read("reviewer") || data.reviewer;
  if (file.reviewer) start(); else askName();
} else {
  start();
}
