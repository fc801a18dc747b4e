// The glossary: pairs of terms, kept in this browser, sent along with every text.

import { byId, el, show } from "./dom.js";
import { announce, recall, remember, when } from "./state.js";
import { t } from "./words.js";

let terms = recall("glossary", {});

/** {source term: target term}, or null where there is none. */
export function glossary() {
  return Object.keys(terms).length ? terms : null;
}

function keep(changed) {
  terms = changed;
  remember("glossary", terms);
  list();
  announce("glossary");
}

function list() {
  show(
    byId("terms"),
    Object.entries(terms).map(([source, target]) =>
      el(
        "li",
        {},
        el("span", { dir: "auto" }, source),
        el("span", { class: "quiet", "aria-hidden": "true" }, "→"),
        el("span", { dir: "auto" }, target),
        el(
          "button",
          {
            class: "plain",
            "aria-label": t("remove", { term: source }),
            onclick: () => {
              const { [source]: _, ...rest } = terms;
              keep(rest);
              byId("term-source").focus();
            },
          },
          "×",
        ),
      ),
    ),
  );
}

export function startGlossary() {
  byId("add-term").addEventListener("submit", (event) => {
    event.preventDefault();
    const [source, target] = [byId("term-source"), byId("term-target")];
    if (!source.value.trim() || !target.value.trim()) return;
    keep({ ...terms, [source.value.trim()]: target.value.trim() });
    event.target.reset();
    source.focus();
  });
  when("words", list);
  list();
}
