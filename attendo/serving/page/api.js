// Asking the server, and what went wrong in words.

import { el } from "./dom.js";
import { announce } from "./state.js";
import { t } from "./words.js";

const SECRET = "attendo.key";
let secret = null;
try {
  secret = sessionStorage.getItem(SECRET); // kept while the tab is open
} catch {
  // Then it is asked for when the page is loaded again.
}

/** Sends this API key from now on. */
export function useKey(given) {
  secret = given;
  try {
    sessionStorage.setItem(SECRET, given);
  } catch {
    // As above.
  }
}

/** What the server refused, or that it cannot be reached: status 0. */
export class Problem extends Error {
  constructor(status, said = {}, retryAfter = null) {
    super(said.error ?? "");
    Object.assign(this, { status, limit: said.limit, value: said.value, retryAfter });
  }

  /** Whether the same question may be answered later. What takes too long by itself will not get shorter. */
  get passing() {
    return [0, 429, 503].includes(this.status) && this.limit !== "seconds";
  }

  inWords() {
    const details = { value: this.value?.toLocaleString(), error: this.message };
    if (this.status === 0) return t("server gone");
    if (this.status === 401) return t("problem key");
    if (this.passing) return t("problem busy");
    if (this.limit) return t(`limit ${this.limit}`, details);
    return t("problem", details);
  }
}

/** What the network brings, or the problem that it broke off. */
async function brought(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0);
  }
}

async function request(path, options) {
  if (secret) options.headers = { ...options.headers, Authorization: `Bearer ${secret}` };
  const response = await brought(fetch(path, options));
  if (response.ok) return response;
  const said = await response.json().catch(() => ({ error: response.statusText }));
  if (response.status === 401) announce("refused");
  throw new Problem(response.status, said, response.headers.get("retry-after"));
}

function posted(question, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal };
}

export async function get(path) {
  return brought((await request(path, {})).json());
}

export async function ask(path, question, signal) {
  return brought((await request(path, posted(question, signal))).json());
}

/** The server-sent events of an answer, as [event, data]. */
export async function* events(path, question, signal) {
  const response = await request(path, posted(question, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await brought(reader.read());
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

/** What went wrong, as a paragraph, and what is done about it. */
export function complaint(error, more = "") {
  return el("p", { class: "notice bad" }, error.inWords?.() ?? String(error), more && ` ${more}`);
}
