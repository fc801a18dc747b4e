// What the views share, what the browser remembers, and who is told when something changes.

// translation: {of: {source, model}, sentences: [text]} as it is shown, or null
export const state = { models: [], limits: {}, model: null, source: "", translation: null };

const changes = new EventTarget();

/** Calls `then` whenever one of these was announced: words, theme, model, glossary, key, refused, translation. */
export function when(names, then) {
  for (const name of names.split(" ")) changes.addEventListener(name, then);
}

export function announce(name) {
  changes.dispatchEvent(new Event(name));
}

export function recall(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`attendo.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`attendo.${name}`, JSON.stringify(value));
  } catch {
    // Then it is forgotten when the page is closed.
  }
}
