// A translation's words: where each stands, in which sentence, and how sure the model was of it.

const MOST_SKIPPED = 8; // characters that no piece spells, as when bytes spell them

/** What a piece looks like in a text: "▁Mann" → "Mann", "##ling" → "ling". */
export function spelled(piece) {
  return piece.replace(/^##/, "").replaceAll("▁", " ").trim();
}

/** Pieces of several sentences, each of which ends with an empty piece, by sentence. */
export function bySentence(pieces) {
  const sentences = [[]];
  for (const piece of pieces) {
    sentences.at(-1).push(piece);
    if (piece.piece === "") sentences.push([]);
  }
  return sentences.slice(0, -1);
}

/** Cuts a text into words and what is between them. */
function segments(text, language) {
  try {
    return new Intl.Segmenter(language ?? "en", { granularity: "word" }).segment(text);
  } catch {
    return segments(text, "en"); // no language code
  }
}

/**
 * Where the sentences and words of a translation are.
 *
 * sentences: [{start, end}]. words: [{text, start, sentence, confidence}], where the confidence is that of the least
 * sure piece, or null where none can be found in the text.
 */
export function placed(text, pieces, language) {
  const sureness = new Array(text.length).fill(null);
  const starts = [];
  let at = 0;
  for (const sentence of bySentence(pieces)) {
    at += text.slice(at).match(/^\s*/)[0].length;
    let start = null;
    for (const { piece, confidence } of sentence) {
      const word = spelled(piece);
      const found = word ? text.indexOf(word, at) : -1;
      if (found < 0 || text.slice(at, found).trim().length > MOST_SKIPPED) continue;
      start ??= text.slice(at, found).trim() ? at : found;
      sureness.fill(confidence, found, found + word.length);
      at = found + word.length;
    }
    starts.push(start ?? at);
  }
  const sentences = starts.map((start, n) => ({
    start,
    end: start + text.slice(start, starts[n + 1] ?? text.length).trimEnd().length,
  }));
  const words = [];
  for (const { segment, index, isWordLike } of segments(text, language)) {
    if (!isWordLike) continue;
    const known = sureness.slice(index, index + segment.length).filter((value) => value !== null);
    const sentence = starts.findLastIndex((start) => start <= index);
    if (sentence < 0) continue;
    words.push({ text: segment, start: index, sentence, confidence: known.length ? Math.min(...known) : null });
  }
  return { sentences, words };
}
