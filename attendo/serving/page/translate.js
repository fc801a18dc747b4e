// Translate: text on the left, its translation on the right as one types.

import { ask, complaint, Latest } from "./api.js";
import { byId, el, roving, show } from "./dom.js";
import { glossary } from "./glossary.js";
import { announce, state, when } from "./state.js";
import { bySentence, placed } from "./target.js";
import { languageName, number, percent, t } from "./words.js";

const PAUSE = 250; // milliseconds without a key before the server is asked
const RETRY = 3; // seconds until a server that is gone is asked again; twice as many after each time in vain
const LONGEST_RETRY = 60;
const SURE = 0.8;
const UNSURE = 0.4;

const translating = new Latest();
const choosing = new Latest();
let timer = null;
let vain = 0; // times that the same question was asked in vain
let shown = null; // {of: {source, model}, text, pieces, warnings, terms} of the translation that is seen
let chosen = null; // the word whose alternatives are seen

function soon(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(translate, milliseconds);
}

function translate() {
  clearTimeout(timer);
  closeMenu();
  const text = byId("source").value;
  if (!text.trim() || !state.model) {
    translating.stop();
    nothing();
    return;
  }
  byId("busy").textContent = t("translating");
  byId("target").setAttribute("aria-busy", "true");
  const question = { text, model: state.model.name, glossary: glossary() };
  translating.run((signal) => ask("v1/translate", question, signal), (answer) => answered(question, answer), failed);
}

function nothing() {
  shown = null;
  settle();
  draw();
}

function answered({ text: source, model }, { translations: [{ text, candidates, warnings, terms }] }) {
  vain = 0;
  settle();
  shown = { of: { source, model }, text, pieces: candidates[0].pieces, warnings, terms };
  draw();
}

/** What was translated before stays, marked as busy, only while the new text is asked for again. */
function failed(error) {
  if (error.passing) {
    const seconds = Math.max(Number(error.retryAfter) || 0, Math.min(RETRY * 2 ** vain, LONGEST_RETRY));
    vain += 1;
    byId("busy").textContent = "";
    show(byId("told"), complaint(error, t("trying again", { seconds })));
    soon(1000 * seconds);
  } else {
    nothing();
    show(byId("told"), complaint(error));
  }
}

function settle() {
  byId("busy").textContent = "";
  byId("target").removeAttribute("aria-busy");
}

/** The translation, word by word, and what is to be said about it. */
function draw() {
  name();
  byId("copy").hidden = !shown;
  byId("legend").hidden = !shown;
  const target = byId("target");
  state.translation = null;
  if (!shown) {
    show(target);
    show(byId("told"));
    return;
  }
  target.lang = state.model.target ?? "";
  const { sentences, words } = placed(shown.text, shown.pieces, state.model.target);
  state.translation = { of: shown.of, sentences: sentences.map(({ start, end }) => shown.text.slice(start, end)) };
  announce("translation");
  const children = [];
  let at = 0;
  for (const word of words) {
    const sureness = word.confidence === null || word.confidence >= SURE ? 3 : word.confidence >= UNSURE ? 2 : 1;
    const title = word.confidence === null ? null : t("probability", { percent: percent(word.confidence) });
    children.push(
      shown.text.slice(at, word.start),
      el("span", { class: `word sure-${sureness}`, role: "button", "aria-haspopup": "menu", title }, word.text),
    );
    at = word.start + word.text.length;
  }
  show(target, ...children, shown.text.slice(at));
  const nodes = [...target.querySelectorAll(".word")];
  const choose = (node) => {
    if (!target.ariaBusy) openMenu(node, words[nodes.indexOf(node)], sentences);
  };
  target.onkeydown = roving(nodes, { onchoose: choose });
  target.onclick = (event) => event.target.classList.contains("word") && choose(event.target);
  tell();
}

function tell() {
  const told = [
    ...shown.warnings.map(({ kind, message }) =>
      el("p", { class: "notice" }, el("b", {}, t(`warning ${kind}`)), ` – ${message}`),
    ),
    ...shown.terms.map((term) => el("p", { class: "notice fine" }, t(term.used ? "term used" : "term lost", term))),
  ];
  if (shown.chosen) told.push(el("p", { class: "notice fine" }, t("chosen for", { word: shown.chosen })));
  show(byId("told"), ...told);
}

// --- alternatives for a word -------------------------------------------------------------------------------------

function openMenu(node, word, sentences) {
  const menu = byId("menu");
  const { start, end } = sentences[word.sentence];
  const prefix = shown.text.slice(start, word.start);
  const before = prefix.trimEnd(); // a comma may follow where a space was
  chosen = node;
  const under = (...children) => {
    const close = el("button", { class: "plain", onclick: () => closeMenu(node) }, t("close"));
    const title = el("span", { class: "quiet" }, t("alternatives", { word: word.text }));
    const head = el("div", { class: "bar" }, title, close);
    show(menu, head, ...children);
    menu.hidden = false;
    menu.style.top = `${node.offsetTop + node.offsetHeight + 6}px`;
    const room = menu.parentElement.clientWidth - menu.offsetWidth - 8;
    menu.style.left = `${Math.max(0, Math.min(node.offsetLeft, room))}px`;
  };
  under(el("p", { class: "quiet", role: "status" }, t("looking for alternatives")));
  const question = {
    text: byId("source").value,
    sentence: word.sentence,
    prefix,
    model: state.model.name,
    glossary: glossary(),
  };
  choosing.run(
    (signal) => ask("v1/alternatives", question, signal),
    ({ alternatives }) => {
      if (alternatives.length === 0) return under(el("p", { class: "quiet" }, t("no alternatives")));
      const items = alternatives.map(({ probability, translation }) => {
        const rest = translation.text.startsWith(before) ? translation.text.slice(before.length) : translation.text;
        const [, first, more] = rest.match(/^(\s*\S+)([^]*)$/) ?? [null, rest, ""];
        const onclick = () => take(translation, word, start, end, first.trim());
        return el(
          "button",
          { role: "menuitem", class: "plain option", onclick, dir: "auto", lang: state.model.target },
          el("span", {}, el("b", {}, first), el("span", { class: "quiet" }, more)),
          el("span", { class: "quiet number" }, percent(probability)),
        );
      });
      const list = el("div", { role: "menu", "aria-label": t("alternatives", { word: word.text }) }, items);
      list.addEventListener("keydown", roving(items, { onchoose: (item) => item.click() }));
      under(list);
      items[0].focus();
    },
    (error) => under(complaint(error)),
  );
}

function closeMenu(then) {
  choosing.stop();
  if (byId("menu").hidden) return;
  byId("menu").hidden = true;
  then?.focus();
}

/** Puts another translation in the place of a sentence's. */
function take(translation, word, start, end, first) {
  const pieces = bySentence(shown.pieces);
  pieces[word.sentence] = translation.pieces;
  const text = shown.text.slice(0, start) + translation.text + shown.text.slice(end);
  closeMenu();
  // Warnings were about what stood there before.
  const terms = shown.terms.map((term) => ({ ...term, used: text.includes(term.target) }));
  shown = { ...shown, text, pieces: pieces.flat(), warnings: [], terms, chosen: first };
  draw();
  const nodes = [...byId("target").querySelectorAll(".word")];
  const place = placed(text, shown.pieces, state.model.target).words.findIndex((one) => one.start >= word.start);
  const node = nodes[place] ?? nodes.at(-1);
  nodes.forEach((one) => (one.tabIndex = one === node ? 0 : -1));
  node?.focus();
}

// --- the rest ----------------------------------------------------------------------------------------------------

function name() {
  byId("source-name").textContent = languageName(state.model?.source) ?? t("text");
  byId("target-name").textContent = languageName(state.model?.target) ?? t("translation");
  const length = byId("source").value.length;
  byId("count").textContent = length ? t("characters", { n: number(length) }) : "";
  byId("clear").hidden = !length;
}

async function copy() {
  try {
    await navigator.clipboard.writeText(shown.text);
  } catch {
    // Forbidden, or not there, as over plain HTTP; but what is selected can be copied.
    getSelection().selectAllChildren(byId("target"));
    document.execCommand("copy");
  }
  byId("copy").textContent = t("copied");
  setTimeout(() => (byId("copy").textContent = t("copy")), 1500);
}

export function startTranslate() {
  const source = byId("source");
  source.addEventListener("input", () => {
    state.source = source.value;
    name();
    translating.stop(); // its answer would be to another question
    vain = 0;
    byId("target").setAttribute("aria-busy", "true");
    soon(PAUSE);
  });
  source.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  });
  byId("clear").addEventListener("click", () => {
    source.value = "";
    source.dispatchEvent(new Event("input"));
    source.focus();
  });
  byId("copy").addEventListener("click", copy);
  addEventListener("keydown", (event) => {
    if (!event.altKey || event.ctrlKey || event.code !== "KeyC" || !shown) return; // with Ctrl: AltGr, which types
    event.preventDefault();
    copy();
  });
  byId("result").addEventListener("keydown", (event) => event.key === "Escape" && closeMenu(chosen));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#menu, .word")) closeMenu();
  });
  when("model", () => {
    source.lang = state.model.source ?? "";
    name();
    translate();
  });
  when("glossary key", translate);
  when("words", () => (shown ? draw() : name()));
  name();
}
