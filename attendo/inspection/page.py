"""An inspection as one HTML page that needs nothing but itself: maps that enlarge on click, words that light up.

The numbers are in the page as JSON, those of `POST /v1/attention`, and a small script draws them.
"""

import json
import math
from html import escape

from attendo.alignment.heads import KINDS, Kind
from attendo.evaluation.report import page
from attendo.inspection.inspector import Inspection
from attendo.inspection.telling import runner_up_lines, tree_lines

STYLE = """
.lead + .card { margin-top: .8rem; }
.words { padding: 1rem 1.2rem; font-size: 1.2rem; line-height: 2; }
.words p { margin: 0; }
.words span { padding: .15em .3em; border-radius: 5px; cursor: default;
  background: color-mix(in srgb, var(--ink-0) calc(var(--weight, 0) * 75%), transparent); }
.words span:focus-visible, .maps button:focus-visible, dialog button:focus-visible {
  outline: 2px solid var(--ink-1); outline-offset: 1px; }
.words .here { background: color-mix(in srgb, var(--ink-1) 45%, transparent); }
.large { padding: 1rem; overflow-x: auto; }
.large svg { display: block; font: 13px system-ui, sans-serif; }
.large text { fill: var(--text); }
.large rect { fill: var(--ink-0); }
.large .frame { fill: none; stroke: var(--axis); }
.large rect:hover { stroke: var(--ink-1); stroke-width: 2; }
.tokens th, .tokens td { padding: .35rem 1.1rem; border-top: 1px solid var(--edge); white-space: nowrap; }
.tokens thead th { border-top: 0; font-size: .85rem; font-weight: 500; color: var(--muted); }
.tokens .bar { width: 7rem; margin-top: .2rem; }
.tokens .doubtful { color: var(--ink-1); font-weight: 600; }
.tokens td > span:not(.bar) { margin-inline-end: 1.2em; }
.tokens small { color: var(--muted); font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
pre { margin: 0; padding: 1rem 1.2rem; overflow-x: auto; font: 14px/1.5 ui-monospace, monospace; }
.maps { display: grid; gap: .6rem; padding: 1rem; align-items: start; overflow-x: auto;
  justify-content: start;
  grid-template-columns: max-content repeat(var(--heads), minmax(4.5rem, 13rem)); }
.maps span { color: var(--muted); font-size: .85rem; }
.maps button { padding: 0; border: 1px solid var(--edge); border-radius: 4px; background: none; cursor: zoom-in; }
.maps canvas { display: block; width: 100%; image-rendering: pixelated; }
dialog { max-width: 96vw; max-height: 94vh; padding: 1rem 1.2rem; border: 1px solid var(--edge); border-radius: 10px;
  background: var(--surface); color: var(--text); }
dialog::backdrop { background: rgb(0 0 0 / .5); }
dialog header { display: flex; justify-content: space-between; gap: 2rem; font-weight: 600; }
dialog button { border: 1px solid var(--edge); border-radius: 6px; background: none; color: inherit; font: inherit;
  cursor: pointer; }
"""

SCRIPT = """
"use strict";
const seen = JSON.parse(document.getElementById("seen").textContent);
const shade = weight => Math.sqrt(Math.max(0, Math.min(1, weight)));

// A labelled map: who looks at the left, what is looked at above.
function draw(into, map) {
  const cell = 24, names = "http://www.w3.org/2000/svg";
  const widest = labels => 8 + 8.5 * Math.max(...labels.map(label => label.length));
  const left = widest(map.rows), top = widest(map.columns);
  const width = left + cell * map.columns.length + 2, height = top + cell * map.rows.length + 2;
  const make = (name, attributes, text) => {
    const element = document.createElementNS(names, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const svg = make("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": map.name});
  map.columns.forEach((label, s) => svg.append(make("text",
    {transform: `translate(${left + cell * (s + .65)} ${top - 6}) rotate(-90)`}, label)));
  map.rows.forEach((label, t) => {
    svg.append(make("text", {x: left - 6, y: top + cell * (t + .7), "text-anchor": "end"}, label));
    map.weights[t].forEach((weight, s) => {
      const square = make("rect", {x: left + cell * s, y: top + cell * t, width: cell, height: cell,
        "fill-opacity": shade(weight)});
      square.append(make("title", {}, `${label} → ${map.columns[s]}: ${weight.toFixed(3)}`));
      svg.append(square);
    });
  });
  svg.append(make("rect", {class: "frame", x: left, y: top, width: cell * map.columns.length,
    height: cell * map.rows.length}));
  into.replaceChildren(svg);
}

const dialog = document.querySelector("dialog");
document.getElementById("close").onclick = () => dialog.close();
dialog.onclick = event => { if (event.target === dialog) dialog.close(); };

function paint(canvas) {
  const weights = canvas.map.weights, context = canvas.getContext("2d");
  canvas.width = weights[0].length;
  canvas.height = weights.length;
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink-0");
  weights.forEach((row, t) => row.forEach((weight, s) => {
    context.globalAlpha = shade(weight);
    context.fillRect(s, t, 1, 1);
  }));
}

for (const grid of document.querySelectorAll(".maps")) {
  const {rows, columns, weights} = seen.attention[grid.dataset.kind];
  weights.forEach((heads, layer) => {
    const label = document.createElement("span");
    label.textContent = `layer ${layer + 1}`;
    grid.append(label);
    heads.forEach((head, number) => {
      const button = document.createElement("button"), canvas = document.createElement("canvas");
      const name = `${grid.dataset.kind}.${layer + 1}.${number + 1}`;
      canvas.map = {name, rows, columns, weights: head};
      button.title = name;
      button.setAttribute("aria-label", `enlarge ${name}`);
      button.append(canvas);
      button.onclick = () => {
        document.getElementById("name").textContent = name;
        draw(document.getElementById("enlarged"), canvas.map);
        dialog.showModal();
      };
      grid.append(button);
      paint(canvas);
    });
  });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
  () => document.querySelectorAll(".maps canvas").forEach(paint));

draw(document.getElementById("alignment"), {name: "alignment", rows: seen.target.pieces, columns: seen.source.pieces,
  weights: seen.alignment.weights});

// A word that is pointed at, or has the focus, shows what it looks at, or who looks at it.
const words = {};
for (const side of ["source", "target"]) words[side] = [...document.querySelectorAll(`#${side} span`)];
const between = (source, target) => seen.alignment.word_weights[target][source];
function light(side, number) {
  const other = side === "target" ? "source" : "target";
  words[side][number].classList.add("here");
  words[other].forEach((word, i) => word.style.setProperty("--weight",
    side === "target" ? between(i, number) : between(number, i)));
}
function dark() {
  for (const word of [...words.source, ...words.target]) {
    word.classList.remove("here");
    word.style.removeProperty("--weight");
  }
}
for (const side of ["source", "target"]) words[side].forEach((word, number) => {
  word.onmouseenter = word.onfocus = () => light(side, number);
  word.onmouseleave = word.onblur = dark;
});
"""

_KINDS: dict[Kind, str] = {
    "encoder": "Self-attention of the encoder",
    "decoder": "Self-attention of the decoder",
    "cross": "Attention from the decoder to the encoder",
}


def inspection_page(seen: Inspection, *, name: str) -> str:
    """The page. `name` is the bundle's."""
    without = f" Without {', '.join(map(str, seen.without))}." if seen.without else ""
    # A "<!--" or "<script" in a text would change where the element ends, so there is no "<" at all.
    data = json.dumps(seen.to_json(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    body = [
        f"<h1>{escape(seen.target.text)}</h1>",
        f'<p class="lead">{escape(name)} on “{escape(seen.source.text)}”: score {seen.score:.3f}, '
        f"log p {seen.log_prob:.3f}.{escape(without)}</p>",
        f'<h2>What belongs together</h2><p class="lead">Point at a word. By {seen.view.in_words}.</p>',
        f'<div class="card words">{_words("source", seen)}{_words("target", seen)}</div>',
        '<div class="card large" id="alignment" style="margin-top:1rem"></div>',
        f'<h2>How sure each piece is</h2><div class="card scroll">{_tokens(seen)}</div>',
    ]
    if seen.tree is not None:
        tree, lost = (escape("\n".join(lines(seen, seen.tree))) for lines in (tree_lines, runner_up_lines))
        body.append(f'<h2>The search</h2><p class="lead">{lost}</p><div class="card"><pre>{tree}</pre></div>')
    body.append(
        '<h2>Every head</h2><p class="lead">A row is who looks, a column what is looked at; the shade grows with the '
        "square root of the weight. Click to enlarge.</p>"
    )
    n_heads = len(seen.weights("cross")[0])
    heads = "".join(f"<span>head {number}</span>" for number in range(1, n_heads + 1))
    for kind in KINDS:
        body.append(
            f'<h2>{_KINDS[kind]}</h2><div class="card maps" data-kind="{kind}" style="--heads:{n_heads}">'
            f"<span></span>{heads}</div>"
        )
    body += [
        '<dialog aria-labelledby="name"><header><span id="name"></span><button id="close" type="button">Close</button>'
        '</header><div class="large" id="enlarged"></div></dialog>',
        f'<script type="application/json" id="seen">{data}</script>',
        f"<script>{SCRIPT}</script>",
    ]
    return page(f"Inside {name}: {seen.target.text}", body, STYLE)


def _words(side: str, seen: Inspection) -> str:
    words = seen.source.words if side == "source" else seen.target.words
    return f'<p id="{side}">' + " ".join(f'<span tabindex="0">{escape(word.text)}</span>' for word in words) + "</p>"


def _tokens(seen: Inspection) -> str:
    rows = []
    for token in seen.tokens:
        sure = math.exp(token.chosen.log_prob)
        likeliest = token.alternatives[0].piece == token.chosen.piece
        others = " ".join(
            f"<span>{escape(one.piece)} <small>{math.exp(one.log_prob):.3f}</small></span>"
            for one in token.alternatives
        )
        rows.append(
            f"<tr><td{'' if likeliest else ' class=doubtful'}>{escape(token.chosen.piece)}</td>"
            f'<td>{sure:.3f}<span class="bar"><i style="width:{100 * sure:.0f}%"></i></span></td><td>{others}</td></tr>'
        )
    head = "<thead><tr><th>piece</th><th>probability</th><th>the likeliest there</th></tr></thead>"
    return f'<table class="tokens">{head}<tbody>{"".join(rows)}</tbody></table>'
