// The run: how the model in use was trained, and how good it is.

import { complaint, get } from "./api.js";
import { chart } from "./chart.js";
import { byId, el, show } from "./dom.js";
import { bar } from "./heat.js";
import { state, when } from "./state.js";
import { number, t } from "./words.js";

let seen = null;

async function load() {
  const model = state.model;
  show(byId("run-shown"));
  show(byId("run-told"), el("p", { class: "quiet" }, t("loading run")));
  try {
    const found = await get(`v1/run?model=${encodeURIComponent(model.name)}`);
    if (model !== state.model) return;
    seen = found;
    draw();
  } catch (error) {
    if (model === state.model) show(byId("run-told"), complaint(error));
  }
}

function draw() {
  show(byId("run-told"), !seen.finished && el("p", { class: "notice" }, t("not finished")));
  show(byId("run-shown"), curves(), el("div", { class: "panes" }, scores(), facts()), samples());
}

function card(title, about, ...content) {
  return el("div", { class: "card" }, el("h2", {}, title), about && el("p", { class: "quiet" }, about), ...content);
}

function curves() {
  const { training_loss, validation_loss, bleu, learning_rate } = seen.curves;
  if (!training_loss.length && !bleu.length) return el("p", { class: "notice" }, t("no log"));
  const rate = t("learning rate");
  const drawn = [
    {
      title: t("loss"),
      series: [
        { name: t("training loss"), points: training_loss, ink: 0 },
        { name: t("validation loss"), points: validation_loss, ink: 1 },
      ],
    },
    { title: t("bleu"), series: [{ name: "BLEU", points: bleu, ink: 1 }], fromZero: true },
    { title: rate, series: [{ name: rate, points: learning_rate, ink: 0 }], fromZero: true },
  ];
  return el("div", { class: "charts" }, drawn.map((one) => card(one.title, null, chart(one))));
}

function scores() {
  const { weights, beam, perplexity, baseline_bleu } = seen.results;
  const row = (name, score, signature = null) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("b", {}, name), signature && el("span", { class: "signature" }, signature)),
      el("td", { class: "number" }, number(score, 2)),
    );
  const rows = seen.scores.map((one) => row(one.metric, one.score, one.signature));
  if (perplexity !== undefined) rows.push(row(t("perplexity"), perplexity));
  if (baseline_bleu !== undefined) rows.push(row(t("copying the source"), baseline_bleu));
  return card(
    t("scores"),
    seen.finished && beam && t("scores about", { beam, weights }),
    el("table", { class: "facts scored" }, el("tbody", {}, rows)),
  );
}

/** What a bundle says of its sizes, data and training, as far as it says it. */
function facts() {
  const { model, training, tokenizer } = seen.settings;
  const { pairs, parameters, machine } = seen.data;
  const size = [...new Set([model.source_vocab_size, model.target_vocab_size])].map((one) => number(one)).join(" + ");
  const known = {
    parameters: parameters && number(parameters.total),
    layers: t(model.n_heads ? "layers with heads" : "layers are", model),
    width: model.d_ff ? t("width is", model) : number(model.d_model),
    parts: parts(model).join(", "),
    vocabulary: t("vocabulary is", { size, kind: tokenizer.kind }),
    "training pairs": pairs && number(pairs.kept),
    "validation pairs": pairs && number(pairs.held_out),
    dropped: pairs && t("dropped are", { n: number(pairs.dropped_empty + pairs.dropped_long) }),
    files: [...new Set(Object.values(seen.files))].join(", "),
    steps: t("steps are", {
      steps: number(seen.results.steps ?? training.steps),
      tokens: number(training.batch_tokens * training.accumulate),
    }),
    time: seen.minutes && t("minutes are", { n: number(seen.minutes, seen.minutes < 10 ? 1 : 0) }),
    machine: machine && machine.processor,
  };
  const rows = Object.entries(known)
    .filter(([, value]) => value)
    .map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, t(name)), el("td", {}, value)));
  return card(t("facts"), null, el("table", { class: "facts" }, el("tbody", {}, rows)));
}

/** What the kinds of models are made of differs. */
function parts({ kind, positions, norm_place, norm, activation, cell, scoring, width }) {
  if (kind === "rnn") return [kind, cell, scoring];
  if (kind === "conv") return [kind, t("convolution width", { width })];
  return [positions, `${norm_place} ${norm}`, activation];
}

function samples() {
  if (!seen.samples.length) return null;
  const names = ["source", "reference", "translation"];
  const rows = seen.samples.map((sample) =>
    el(
      "tr",
      {},
      names.map((name) => el("td", { dir: "auto", "data-name": t(name) }, sample[name])),
      el("td", { class: "number", "data-name": "BLEU" }, number(sample.bleu, 1), bar(sample.bleu / 100)),
    ),
  );
  const heads = [...names.map((name) => t(name)), "BLEU"].map((name) => el("th", { scope: "col" }, name));
  return card(
    t("samples"),
    t("samples about"),
    el("table", { class: "samples" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)),
  );
}

export function openRun() {
  if (!seen && state.model) load();
}

export function startRun() {
  when("words", () => seen && draw());
  when("model key", () => {
    seen = null;
    if (!byId("run").hidden) load();
  });
}
