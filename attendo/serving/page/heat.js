// Attention weights as pictures: a thumbnail of one pixel for each weight, and a table with names.

import { el, roving, svg } from "./dom.js";
import { percent, t } from "./words.js";

const UPRIGHT = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u; // in a column, letters lie

/** A piece of the vocabulary as it is shown: its space is left out, the ends of a sentence are named. */
export function readable(piece) {
  if (piece === "<s>") return t("begin");
  if (piece === "</s>" || piece === "") return t("end");
  return piece.replaceAll("▁", " ").trim() || "␣";
}

/** weights: [row][column] of numbers from 0 to 1. */
export function thumbnail(weights) {
  const canvas = el("canvas", { class: "thumbnail", width: weights[0].length, height: weights.length });
  const context = canvas.getContext("2d");
  const picture = context.createImageData(canvas.width, canvas.height);
  const [red, green, blue] = getComputedStyle(document.querySelector(".mark")).color.match(/[\d.]+/g).map(Number);
  weights.flat().forEach((weight, place) => picture.data.set([red, green, blue, 255 * weight], 4 * place));
  context.putImageData(picture, 0, 0);
  return canvas;
}

/** The same with its rows and columns named; onpoint(row, column) when somebody points at a weight or goes there. */
export function table({ rows, columns, weights }, label, onpoint) {
  const heads = columns.map((piece) => {
    const name = readable(piece);
    return el("th", { scope: "col" }, el("span", { class: UPRIGHT.test(name) && "upright" }, name));
  });
  const cells = weights.map((row) =>
    row.map((weight) => {
      const cell = el("td", { "aria-label": percent(weight) });
      cell.style.setProperty("--weight", weight);
      return cell;
    }),
  );
  const body = rows.map((piece, row) => el("tr", {}, el("th", { scope: "row" }, readable(piece)), cells[row]));
  const whole = el(
    "table",
    { class: "heat", role: "grid", "aria-label": label },
    el("thead", {}, el("tr", {}, el("td"), heads)),
    el("tbody", {}, body),
  );
  whole.addEventListener("keydown", roving(cells.flat(), { columns: columns.length }));
  const point = (event) => {
    const cell = event.target.closest("tbody td");
    if (!cell) return;
    const [row, column] = [cell.parentElement.sectionRowIndex, cell.cellIndex - 1];
    body.forEach((one, place) => one.firstChild.classList.toggle("pointed", place === row));
    heads.forEach((one, place) => one.classList.toggle("pointed", place === column));
    onpoint(row, column);
  };
  for (const name of ["pointerover", "focusin"]) whole.addEventListener(name, point);
  return whole;
}

/** A probability as a bar. */
export function bar(probability) {
  return svg(
    "svg",
    { class: "chance", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 6, rx: 3 }),
    svg("rect", { class: "ink", width: Math.max(1, 100 * probability), height: 6, rx: 3 }),
  );
}
