// The beam as a tree, from left to right: a column for each step, a row for each end.

import { svg } from "./dom.js";
import { readable } from "./heat.js";
import { number, t } from "./words.js";

const ROW = 44;
const GAP = 26; // between columns
const MARGIN = 12;

/** How wide a text is, in pixels. */
function widthOf(text) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `600 14px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(context.measureText(text).width);
}

/** Ids of a node and all before it. */
function pathTo(nodes, id) {
  const path = new Set();
  for (let at = id; at !== null && at !== undefined; at = nodes[at].parent) path.add(at);
  return path;
}

/** beam: as /v1/attention answers. everything: also what never ended. */
export function beamTree(beam, everything) {
  const nodes = Object.fromEntries(beam.nodes.map((node) => [node.id, node]));
  const ends = [...beam.hypotheses, ...(beam.runner_up ? [beam.runner_up] : [])].map((one) => one.node);
  const leading = new Set(ends.flatMap((id) => [...pathTo(nodes, id)]));
  const second = beam.runner_up ? pathTo(nodes, beam.runner_up.node) : new Set();
  const seen = beam.nodes.filter((node) => everything || leading.has(node.id) || node.parent === null);

  const children = Object.fromEntries(seen.map((node) => [node.id, []]));
  for (const node of seen) if (node.parent !== null) children[node.parent].push(node);
  const worth = (node) => 2 * node.best + second.has(node.id);
  const rowOf = {};
  let rows = 0;
  const place = (node) => {
    const below = children[node.id].sort((a, b) => worth(b) - worth(a) || b.score - a.score);
    if (below.length === 0) rowOf[node.id] = rows++;
    below.forEach(place);
    if (below.length) rowOf[node.id] = rowOf[below[0].id];
  };
  place(seen[0]);

  const widths = [];
  for (const node of seen) {
    widths[node.step] = Math.max(widths[node.step] ?? 34, widthOf(readable(node.piece)));
  }
  const lefts = [MARGIN];
  for (const width of widths) lefts.push(lefts.at(-1) + width + GAP);
  const at = (node) => [lefts[node.step], MARGIN + 14 + ROW * rowOf[node.id]];

  const kind = (node) => (node.best ? "best" : second.has(node.id) ? "second" : node.state);
  const lines = [];
  const names = [];
  for (const node of [...seen].sort((a, b) => worth(a) - worth(b))) {
    const [x, y] = at(node);
    if (node.parent !== null) {
      const [from, height] = at(nodes[node.parent]);
      const begin = from + widthOf(readable(nodes[node.parent].piece)) + 6;
      const middle = x - GAP / 2;
      const [low, high] = [height - 4, y - 4]; // the middle of the letters
      const d = `M${begin} ${low}H${Math.max(begin, middle - 10)}C${middle} ${low} ${middle} ${high} ${x - 6} ${high}`;
      lines.push(svg("path", { class: `edge ${kind(node)}`, d, "stroke-width": 1 + 4 * Math.exp(node.log_prob) }));
    }
    const score = node.parent === null ? "" : number(node.score, 2);
    names.push(
      svg(
        "g",
        { class: `node ${kind(node)}` },
        svg("text", { x, y }, readable(node.piece)),
        svg("text", { x, y: y + 15, class: "score" }, score),
      ),
    );
  }
  const width = lefts.at(-1) + MARGIN;
  const height = MARGIN + ROW * rows + 8;
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  return svg("svg", { class: "tree", role: "img", "aria-label": t("beam tree"), ...size }, lines, names);
}
