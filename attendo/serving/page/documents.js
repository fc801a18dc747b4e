// A file is chosen or dropped, translated passage by passage, and given back.

import { complaint, events, Latest, Problem } from "./api.js";
import { byId, el, show } from "./dom.js";
import { glossary } from "./glossary.js";
import { state } from "./state.js";
import { t } from "./words.js";

const MOST_WARNINGS = 5;
const latest = new Latest();
let address = null; // of the translated file, inside the browser

function tell(...children) {
  show(byId("document-told"), ...children);
}

class NotText extends Error {
  inWords() {
    return t("not utf-8", { name: this.message });
  }
}

function translate(file) {
  if (!state.model) return;
  tell(el("p", { class: "quiet" }, t("translating")));
  const question = { name: file.name, model: state.model.name, glossary: glossary() };
  const work = async (signal) => {
    question.content = await read(file);
    signal.throwIfAborted(); // another file was chosen meanwhile
    return follow(question, signal);
  };
  latest.run(work, offer, failed);
}

async function read(file) {
  const { body_bytes: most } = state.limits;
  if (file.size > most) throw new Problem(413, { limit: "body_bytes", value: most });
  try {
    // A byte order mark stays: everything but the words comes back as it was.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
  } catch {
    throw new NotText(file.name);
  }
}

/** The last event, while progress is told. */
async function follow(question, signal) {
  const bar = el("progress", { max: 1, value: 0, "aria-label": question.name });
  const words = el("span", { class: "quiet" });
  const cancel = el("button", { class: "plain", onclick: () => (latest.stop(), tell()) }, t("cancel"));
  tell(el("div", { class: "bar" }, bar, words, cancel));
  for await (const [event, data] of events("v1/document", question, signal)) {
    if (event === "progress") {
      bar.value = data.done / data.of;
      words.textContent = t("passages", data);
    } else if (event === "done") return data;
    else throw new Problem(422, data);
  }
  throw new Problem(0); // the stream broke off
}

function offer(done) {
  if (address) URL.revokeObjectURL(address);
  address = URL.createObjectURL(new Blob([done.content], { type: "text/plain" }));
  const told = done.warnings.slice(0, MOST_WARNINGS).map((one) => el("li", {}, t("passage warning", one)));
  const more = done.warnings.length - told.length;
  if (more > 0) told.push(el("li", {}, t("more warnings", { n: more })));
  const download = el("a", { class: "button", href: address, download: done.name }, t("download", { name: done.name }));
  tell(
    el("p", {}, t("document done", { name: done.name, n: done.passages })),
    download,
    told.length > 0 && el("ul", { class: "quiet" }, told),
  );
}

function failed(error) {
  tell(complaint(error));
}

export function startDocuments() {
  const drop = byId("drop");
  byId("file").addEventListener("change", (event) => {
    if (event.target.files.length) translate(event.target.files[0]);
    event.target.value = "";
  });
  for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, () => drop.classList.add("over"));
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    if (event.dataTransfer.files.length) translate(event.dataTransfer.files[0]);
  });
  // A file that misses its place would be opened instead of the page.
  for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
}
