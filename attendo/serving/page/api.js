// Asking the server, and what went wrong in words.

import { el } from "./dom.js";
import { announce } from "./state.js";
import { t } from "./words.js";

export const SECRET = "attendo.key"; // kept while the tab is open

/** What the server refused, or that it cannot be reached: status 0. */
export class Problem extends Error {
  constructor(status, said = {}, retryAfter = null) {
    super(said.error ?? "");
    Object.assign(this, { status, limit: said.limit, value: said.value, retryAfter });
  }

  inWords() {
    const details = { value: this.value?.toLocaleString(), seconds: this.retryAfter, error: this.message };
    if (this.status === 0) return t("server gone");
    if (this.status === 401) return t("problem key");
    if (this.status === 429 || this.status === 503) return t("problem busy", details);
    if (this.limit) return t(`limit ${this.limit}`, details);
    return t("problem", details);
  }
}

async function request(path, options) {
  const secret = sessionStorage.getItem(SECRET);
  if (secret) options.headers = { ...options.headers, Authorization: `Bearer ${secret}` };
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0);
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({ error: response.statusText }));
  if (response.status === 401) announce("refused");
  throw new Problem(response.status, said, response.headers.get("retry-after"));
}

function posted(question, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal };
}

export async function get(path) {
  return (await request(path, {})).json();
}

export async function ask(path, question, signal) {
  return (await request(path, posted(question, signal))).json();
}

/** The server-sent events of an answer, as [event, data]. */
export async function* events(path, question, signal) {
  const response = await request(path, posted(question, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [event, data] = block.split("\n");
      yield [event.replace("event: ", ""), JSON.parse(data.replace("data: ", ""))];
    }
  }
}

/** Runs one question at a time: a new one ends the one before, whose answer is never seen. */
export class Latest {
  #controller = null;

  stop() {
    this.#controller?.abort();
    this.#controller = null;
  }

  /** answer(await work(signal)), or failed(error), unless another run began meanwhile. */
  async run(work, answer, failed) {
    this.stop();
    const own = (this.#controller = new AbortController());
    let then;
    try {
      const found = await work(own.signal);
      then = () => answer(found);
    } catch (error) {
      then = () => failed(error);
    }
    if (this.#controller !== own) return;
    this.#controller = null;
    then();
  }
}

/** What went wrong, as a paragraph. */
export function complaint(error) {
  return el("p", { class: "notice bad" }, error instanceof Problem ? error.inWords() : String(error));
}
