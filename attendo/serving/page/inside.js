// Look inside: for one sentence, what attended to what, what the search kept, how likely each piece was.

import { ask, complaint, Latest } from "./api.js";
import { byId, el, roving, show } from "./dom.js";
import { bar, readable, table, thumbnail } from "./heat.js";
import { state, when } from "./state.js";
import { beamTree } from "./tree.js";
import { languageName, number, percent, t } from "./words.js";

const KINDS = ["cross", "encoder", "decoder"];
const NOTHING = { source: "", translation: null };
const looking = new Latest();
let seen = null; // the answer that is shown
let sentence = 0;
let without = []; // heads that are switched off, such as "cross.3.2"
let taken = NOTHING; // what stood in Translate when it was last taken over

/** A text as it stands in the form, which has one line. */
const flat = (text) => text.replace(/\s+/g, " ").trim();

/** Whether the form has what was taken over: then lines stay apart, and the translation is that of Translate. */
function untouched() {
  return byId("inside-source").value === flat(taken.source) && !byId("inside-target").value.trim();
}

function look() {
  const own = untouched();
  const text = own ? taken.source : byId("inside-source").value.trim();
  if (!text || !state.model) {
    looking.stop();
    seen = null;
    draw();
    return;
  }
  byId("inside-busy").textContent = t("looking");
  const question = {
    text,
    sentence,
    translation: byId("inside-target").value.trim() || null,
    without_heads: without,
    model: state.model.name,
  };
  looking.run(
    (signal) => inspected(question, own && !without.length ? taken.translation : null, signal),
    (answer) => {
      seen = answer;
      draw();
    },
    (error) => {
      seen = null;
      draw();
      show(byId("inside-told"), complaint(error));
    },
  );
}

/**
 * What the server sees. Where Translate shows another translation than the search alone finds, as with a glossary or a
 * word that was chosen, that one is looked at; with heads switched off the search is what one wants to see.
 */
async function inspected(question, translations, signal) {
  const searched = await ask("v1/attention", question, signal);
  const translation = translations?.[searched.sentence];
  if (!translation || flat(translation) === flat(searched.target.text)) return searched;
  const text = searched.sentences[searched.sentence];
  const given = await ask("v1/attention", { ...question, text, translation, sentence: 0 }, signal);
  const { sentences, beam } = searched;
  return { ...given, sentences, sentence: searched.sentence, beam, instead: searched.target.text };
}

/** Everything anew; what had the focus has it again, or the page's content where it is gone. */
function draw() {
  const focused = byId("inside").contains(document.activeElement) && document.activeElement.id;
  name();
  byId("inside-busy").textContent = "";
  show(byId("inside-told"), ...told());
  drawSeen();
  if (focused) (byId(focused) ?? byId("main")).focus({ preventScroll: true });
}

function drawSeen() {
  if (!seen) {
    show(byId("inside-shown"), el("p", { class: "empty" }, t("nothing to look at")));
    return;
  }
  show(
    byId("inside-shown"),
    ...[overlay(), heat(), heads(), search(), tokens()].map(([title, about, ...content]) =>
      el("div", { class: "card" }, el("h2", {}, title), about && el("p", { class: "quiet" }, about), content),
    ),
  );
  showParting();
}

/** Which sentence of several is seen, where its translation is from, and which heads are off. */
function told() {
  const found = [];
  if (seen && seen.sentences.length > 1) {
    const options = seen.sentences.map((text, n) =>
      el("option", { value: n, selected: n === seen.sentence }, `${n + 1}. ${text}`),
    );
    const onchange = (event) => {
      sentence = Number(event.target.value);
      look();
    };
    found.push(el("select", { id: "sentence", "aria-label": t("sentence"), onchange }, options));
  }
  if (seen?.instead) found.push(el("p", { class: "notice" }, t("instead", { text: seen.instead })));
  if (without.length) {
    const onclick = () => {
      without = [];
      look();
    };
    found.push(
      el(
        "p",
        { class: "notice" },
        t("without heads", { heads: without.map(headName).join("; ") }),
        " ",
        el("button", { id: "switch-on", class: "plain", onclick }, t("switch on")),
      ),
    );
  }
  return found;
}

function headName(name) {
  const [kind, layer, head] = name.split(".");
  return t("head", { kind: t(kind), layer, head });
}

// --- which words it looked at ------------------------------------------------------------------------------------

/** A text with its words as elements of their own, and these. */
function inWords(text, words, make) {
  const nodes = words.map(make);
  const children = [];
  let at = 0;
  words.forEach((word, n) => {
    children.push(text.slice(at, word.start), nodes[n]);
    at = word.end;
  });
  return [[...children, text.slice(at)], nodes];
}

function overlay() {
  const { source, target } = seen.words;
  const { word_weights: weights } = seen.alignment;
  const [sourceText, sources] = inWords(seen.source.text, source, (word) => el("span", { class: "lit" }, word.text));
  const [targetText, targets] = inWords(seen.target.text, target, (word) =>
    el("span", { class: "word", role: "button", "aria-pressed": "false" }, word.text),
  );
  const said = el("p", { class: "quiet", role: "status" });
  const light = (node) => {
    const n = targets.indexOf(node);
    if (n < 0) return;
    targets.forEach((one) => one.setAttribute("aria-pressed", String(one === node)));
    sources.forEach((one, m) => one.style.setProperty("--weight", weights[n][m]));
    const most = weights[n]
      .map((weight, m) => [weight, source[m].text])
      .sort(([a], [b]) => b - a)
      .slice(0, 3)
      .filter(([weight]) => weight >= 0.05)
      .map(([weight, text]) => `${text} ${percent(weight)}`);
    said.textContent = t("attends to", { word: target[n].text, words: most.join(", ") });
  };
  const line = el("p", { class: "text", dir: "auto", lang: state.model.target }, targetText);
  line.addEventListener("keydown", roving(targets));
  for (const name of ["pointerover", "focusin", "click"]) line.addEventListener(name, (event) => light(event.target));
  light(targets[0]);
  const above = el("p", { class: "text", dir: "auto", lang: state.model.source }, sourceText);
  return [t("overlay"), t("overlay about"), above, line, said];
}

function heat() {
  const [, layer, head] = seen.alignment.from.split(".");
  const from = t(head ? "from head" : layer ? "from layer" : "from all", { layer, head });
  const map = { rows: seen.target.pieces, columns: seen.source.pieces, weights: seen.alignment.weights };
  const said = el("p", { class: "quiet" });
  const scrolled = el("div", { class: "scrolled" }, table(map, t("heat"), reader(map, said)));
  return [t("heat"), t("heat about", { from }), scrolled, said];
}

/** Tells in an element which weight somebody points at. */
function reader({ rows, columns, weights }, said) {
  said.textContent = t("head point");
  return (row, column) => {
    const names = { row: readable(rows[row]), column: readable(columns[column]) };
    said.textContent = t("head about", { ...names, weight: percent(weights[row][column]) });
  };
}

// --- every head --------------------------------------------------------------------------------------------------

/** The kinds of attention that the model has. */
const there = () => KINDS.filter((kind) => seen.attention[kind]);

function heads() {
  const groups = there().map((kind) => {
    const { weights } = seen.attention[kind];
    const rows = weights.map((layer, l) =>
      layer.map((map, h) =>
        el(
          "button",
          {
            id: `${kind}.${l + 1}.${h + 1}`,
            class: "plain head",
            "aria-label": headName(`${kind}.${l + 1}.${h + 1}`),
            onclick: () => enlarge(kind, l, h),
          },
          thumbnail(map),
        ),
      ),
    );
    const name = (l) => el("span", { class: "quiet", title: t("layer", { layer: l + 1 }) }, l + 1);
    const lines = rows.map((row, l) => [name(l), row]);
    const grid = el("div", { class: "heads" }, lines.flat(2));
    grid.style.setProperty("--heads", rows[0].length);
    grid.addEventListener("keydown", roving(rows.flat(), { columns: rows[0].length }));
    return el("div", {}, el("h3", {}, t(kind)), grid);
  });
  return [t("heads"), t("heads about"), el("div", { class: "kinds" }, groups)];
}

function enlarge(kind, layer, head) {
  const map = { ...seen.attention[kind], weights: seen.attention[kind].weights[layer][head] };
  const name = headName(`${kind}.${layer + 1}.${head + 1}`);
  byId("head-name").textContent = name;
  show(byId("head-map"), table(map, name, reader(map, byId("head-about"))));
  const all = there().flatMap((k) => seen.attention[k].weights.flatMap((l, i) => l.map((_, j) => [k, i, j])));
  const here = all.findIndex(([k, i, j]) => k === kind && i === layer && j === head);
  const go = (step) => enlarge(...all[(here + step + all.length) % all.length]);
  byId("head-before").onclick = () => go(-1);
  byId("head-after").onclick = () => go(1);
  byId("head-off").onclick = () => {
    without = [...new Set([...without, `${kind}.${layer + 1}.${head + 1}`])];
    byId("head").close();
    look();
  };
  const dialog = byId("head");
  dialog.onkeydown = (event) => {
    if (event.target.closest(".scrolled")) return;
    if (event.key === "ArrowLeft") go(-1);
    if (event.key === "ArrowRight") go(1);
  };
  if (!dialog.open) dialog.showModal();
}

// --- the search, and the pieces ----------------------------------------------------------------------------------

function search() {
  const { beam } = seen;
  if (!beam) return [t("beam"), t("beam greedy")];
  const around = { class: "scrolled", tabindex: 0, role: "region", "aria-label": t("beam tree") };
  const drawn = el("div", around, beamTree(beam, false));
  const box = el("input", { type: "checkbox", onchange: () => show(drawn, beamTree(beam, box.checked)) });
  return [
    t("beam"),
    t("beam about", { width: beam.width }),
    el("p", {}, runnerUp(beam)),
    el("p", { class: "quiet" }, swatch("best"), t("winner"), swatch("second"), t("runner-up")),
    drawn,
    el("label", { class: "check" }, box, t("show dropped")),
  ];
}

/** Where a tree is wider than the screen, the place where the runner-up leaves is what one wants to see. */
function showParting() {
  const leaving = [...document.querySelectorAll(".tree .node.second")];
  if (leaving.length === 0) return;
  const around = leaving[0].closest(".scrolled");
  around.scrollLeft = Math.min(...leaving.map((node) => node.getBBox().x)) - around.clientWidth / 2;
}

function swatch(kind) {
  return el("span", { class: `swatch ${kind}` });
}

function runnerUp(beam) {
  const second = beam.runner_up;
  if (!second) return t("no runner-up");
  const lost = t("runner-up lost", {
    text: second.text,
    score: number(second.score, 2),
    best: number(beam.hypotheses[0].score, 2),
    step: second.parts_at,
    piece: readable(second.piece),
    chance: percent(Math.exp(second.log_prob_there)),
    best_piece: readable(second.best_piece),
    best_chance: percent(Math.exp(second.best_log_prob)),
  });
  return `${lost} ${second.behind_from === null ? t("by length") : t("behind from", { step: second.behind_from })}`;
}

function tokens() {
  const rows = seen.tokens.map(({ piece, probability, alternatives }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, readable(piece)),
      el("td", { class: "number" }, bar(probability), percent(probability)),
      el(
        "td",
        { class: "chips" },
        alternatives.map((one) =>
          el(
            "span",
            { class: one.piece === piece ? "chip taken" : "chip" },
            `${readable(one.piece)} `,
            el("small", {}, percent(one.probability)),
          ),
        ),
      ),
    ),
  );
  const names = ["piece", "piece probability", "likeliest"].map((one) => el("th", { scope: "col" }, t(one)));
  return [
    t("tokens"),
    t("tokens about"),
    el("table", { class: "tokens" }, el("thead", {}, el("tr", {}, names)), el("tbody", {}, rows)),
  ];
}

// --- the form ----------------------------------------------------------------------------------------------------

function name() {
  byId("inside-source-name").textContent = languageName(state.model?.source) ?? t("text");
  byId("inside-target-name").textContent = languageName(state.model?.target) ?? t("translation");
}

function again() {
  sentence = 0;
  without = [];
  look();
}

/** Takes over what stands in Translate, if that is new; another translation only where the form was left alone. */
export function openInside() {
  const { source, model } = state;
  const { of, sentences } = state.translation ?? {};
  const translation = of?.source === source && of.model === model?.name ? sentences : null;
  const translatedAnew = translation && untouched() && String(translation) !== String(taken.translation);
  if (source.trim() && (source !== taken.source || translatedAnew)) {
    taken = { source, translation };
    byId("inside-source").value = flat(source);
    byId("inside-target").value = "";
    again();
  } else if (!seen) draw();
}

export function startInside() {
  byId("look").addEventListener("submit", (event) => {
    event.preventDefault();
    again();
  });
  byId("head-close").addEventListener("click", () => byId("head").close());
  when("words theme", () => seen && draw());
  when("model key", () => {
    taken = byId("inside").hidden ? NOTHING : { ...taken, translation: null };
    seen = null;
    if (!byId("inside").hidden) again();
  });
  when("translation", () => !byId("inside").hidden && openInside());
  name();
}
