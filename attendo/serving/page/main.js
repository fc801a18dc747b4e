// The frame around the views: which of them is seen, the model, the language of the page, its colours, the API key.

import { complaint, get, useKey } from "./api.js";
import { byId, el, roving, show } from "./dom.js";
import { announce, recall, remember, state, when } from "./state.js";
import { languageName, speak, speech, switchWords, t } from "./words.js";
import { startDocuments } from "./documents.js";
import { startGlossary } from "./glossary.js";
import { openInside, startInside } from "./inside.js";
import { openRun, startRun } from "./run.js";
import { startTranslate } from "./translate.js";

const VIEWS = { translate: () => {}, inside: openInside, run: openRun };
const THEMES = ["auto", "light", "dark"];
const RETRY = 3; // seconds until the models are asked for again
const tabs = Object.keys(VIEWS).map((view) => byId(`tab-${view}`));

function open(view) {
  for (const [name, opened] of Object.entries(VIEWS)) {
    const here = name === view;
    byId(name).hidden = !here;
    const tab = byId(`tab-${name}`);
    tab.setAttribute("aria-selected", here);
    tab.tabIndex = here ? 0 : -1;
    if (here) opened();
  }
  byId("title").textContent = `${t(view)} – attendo`;
  document.title = `${t(view)} – attendo`;
}

/** What is no view, such as #main of the link that skips to it, leaves the view as it is. */
function openFromAddress() {
  const view = location.hash.slice(1) || "translate";
  const seen = Object.keys(VIEWS).find((name) => !byId(name).hidden);
  open(Object.hasOwn(VIEWS, view) ? view : (seen ?? "translate"));
}

function startTabs() {
  const list = document.querySelector("[role=tablist]");
  list.addEventListener("keydown", roving(tabs));
  list.addEventListener("focusin", (event) => event.target.click()); // arrow keys open what they reach
  for (const tab of tabs) {
    tab.addEventListener("click", () => {
      const view = tab.getAttribute("aria-controls");
      if (location.hash.slice(1) !== view) location.hash = view;
    });
  }
  addEventListener("hashchange", openFromAddress);
  addEventListener("keydown", (event) => {
    const place = ["Digit1", "Digit2", "Digit3"].indexOf(event.code);
    if (event.altKey && !event.ctrlKey && place >= 0) {
      event.preventDefault();
      tabs[place].focus();
    }
  });
}

function startTheme() {
  const button = byId("theme");
  const apply = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.setAttribute("aria-label", t(`theme ${theme}`));
    button.title = t(`theme ${theme}`);
  };
  button.addEventListener("click", () => {
    const theme = THEMES[(THEMES.indexOf(recall("theme", "auto")) + 1) % THEMES.length];
    remember("theme", theme);
    apply(theme);
    announce("theme");
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => announce("theme"));
  when("words", () => apply(recall("theme", "auto")));
  apply(recall("theme", "auto"));
}

function startLanguage() {
  const button = byId("language");
  const name = () => {
    button.textContent = t("other language");
    button.lang = speech.now === "en" ? "zh" : "en";
  };
  button.addEventListener("click", switchWords);
  when("words", () => {
    name();
    openFromAddress();
  });
  name();
}

function startKey() {
  const dialog = byId("key");
  when("refused", () => {
    if (dialog.open) return;
    dialog.returnValue = "";
    byId("key-given").value = "";
    dialog.showModal();
  });
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "use") return; // cancelled
    useKey(byId("key-given").value);
    announce("key");
  });
}

function nameModels() {
  const named = (model) =>
    model.source ? `${languageName(model.source)} → ${languageName(model.target)}` : model.name;
  const several = state.models.length > 1;
  const select = byId("model");
  show(
    select,
    state.models.map((model) =>
      el("option", { value: model.name }, several && model.source ? `${named(model)} · ${model.name}` : named(model)),
    ),
  );
  select.value = state.model.name;
  select.hidden = !several;
}

async function startModels() {
  try {
    const { models, limits } = await get("v1/models");
    Object.assign(state, { models, limits });
  } catch (error) {
    show(byId("told"), complaint(error, t("trying again", { seconds: RETRY })));
    setTimeout(startModels, 1000 * RETRY);
    return;
  }
  const known = recall("model", null);
  state.model = state.models.find((model) => model.name === known) ?? state.models[0];
  show(byId("told"));
  nameModels();
  byId("model").addEventListener("change", (event) => {
    state.model = state.models.find((model) => model.name === event.target.value);
    remember("model", state.model.name);
    announce("model");
  });
  when("words", nameModels);
  announce("model");
}

speak();
startTabs();
startTheme();
startLanguage();
startKey();
startTranslate();
startGlossary();
startDocuments();
startInside();
startRun();
openFromAddress();
startModels();
