"""What was seen as one HTML page that needs nothing but itself: maps that enlarge on click, words that light up.

The numbers are in the page as JSON, of a translation those of `POST /v1/attention`, and a small script draws them.
"""

import base64
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from attendo.evaluation.report import page
from attendo.inspection.inspector import Inspection
from attendo.inspection.overlay import GLOW, STRONGEST, enlarged
from attendo.inspection.reading import Reading, SeenPicture
from attendo.inspection.seen import Choice
from attendo.inspection.telling import MOST_LABELS, evidence_in_words, runner_up_lines, tree_lines
from attendo.models.settings import AttentionKind

PICTURE = 448  # pixels of a picture's longer side
LONG = 120  # characters of a heading; a longer text is told by its pieces

STYLE = """
.lead + .card { margin-top: .8rem; }
.words { padding: 1rem 1.2rem; font-size: 1.2rem; line-height: 2; }
.words p { margin: 0; }
.words span { padding: .15em .3em; border-radius: 5px; cursor: default;
  background: color-mix(in srgb, var(--ink-0) calc(var(--weight, 0) * 75%), transparent); }
.words span:focus-visible, .maps button:focus-visible, dialog button:focus-visible {
  outline: 2px solid var(--ink-1); outline-offset: 1px; }
.words .against { background: color-mix(in srgb, var(--ink-1) calc(var(--weight, 0) * 75%), transparent); }
.words .here { background: color-mix(in srgb, var(--ink-1) 45%, transparent); }
.words select { float: inline-end; margin-inline-start: 1rem; padding: .2rem .4rem; border: 1px solid var(--edge);
  border-radius: 6px; background: var(--surface); color: inherit; font: inherit; font-size: .9rem; }
.large { padding: 1rem; overflow-x: auto; }
.large svg { display: block; font: 13px system-ui, sans-serif; }
.large text { fill: var(--text); }
.large image { image-rendering: pixelated; }
.large .frame { fill: none; stroke: var(--axis); }
.large .here { fill: none; stroke: var(--ink-1); stroke-width: 2; visibility: hidden; }
.told { margin: 0 0 .6rem; min-height: 1.6em; color: var(--muted); font-variant-numeric: tabular-nums; }
.beside { display: flex; flex-wrap: wrap; gap: 1rem; padding: 1rem; }
.beside canvas { display: block; max-width: 100%; image-rendering: pixelated; border-radius: 4px; }
.labels { max-width: 40rem; }
.tokens th, .tokens td { padding: .35rem 1.1rem; border-top: 1px solid var(--edge); white-space: nowrap; }
.tokens thead th { border-top: 0; font-size: .85rem; font-weight: 500; color: var(--muted); }
.tokens .bar { width: 7rem; margin-top: .2rem; }
.tokens .doubtful { color: var(--ink-1); font-weight: 600; }
.tokens td > span:not(.bar) { margin-inline-end: 1.2em; }
.tokens small { color: var(--muted); font-variant-numeric: tabular-nums; }
.scroll { max-height: 44rem; overflow: auto; }
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

function painted(weights, canvas = document.createElement("canvas")) {
  const context = canvas.getContext("2d");
  canvas.width = weights[0].length;
  canvas.height = weights.length;
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink-0");
  weights.forEach((row, t) => row.forEach((weight, s) => {
    context.globalAlpha = shade(weight);
    context.fillRect(s, t, 1, 1);
  }));
  return canvas;
}

// A labelled map: who looks at the left, what is looked at above. A long text has less room for each weight, and names
// only some of its pieces.
const BOX = 960, CELL = 24, LINE = 15;
function draw(into, map) {
  const names = "http://www.w3.org/2000/svg", [rows, columns] = [map.rows.length, map.columns.length];
  const cell = Math.max(1, Math.min(CELL, BOX / Math.max(rows, columns))), every = Math.ceil(LINE / cell);
  const widest = labels => 8 + 8.5 * Math.max(...labels.map(label => label.length));
  const left = widest(map.rows), top = widest(map.columns);
  const width = left + cell * columns + 2, height = top + cell * rows + 2;
  const make = (name, attributes, text) => {
    const element = document.createElementNS(names, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const svg = make("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": map.name});
  map.columns.forEach((label, s) => s % every || svg.append(make("text",
    {transform: `translate(${left + cell * (s + .5) + 4.5} ${top - 6}) rotate(-90)`}, label)));
  map.rows.forEach((label, t) => t % every || svg.append(make("text",
    {x: left - 6, y: top + cell * (t + .5) + 4.5, "text-anchor": "end"}, label)));
  const place = {x: left, y: top, width: cell * columns, height: cell * rows};
  svg.append(make("image", {...place, preserveAspectRatio: "none", ["href"]: painted(map.weights).toDataURL()}));
  svg.append(make("rect", {class: "frame", ...place}));
  const here = make("rect", {class: "here", width: cell, height: cell}), told = document.createElement("p");
  svg.append(here);
  told.className = "told";
  told.textContent = "Point at a weight.";
  svg.onpointermove = event => {
    const [s, t] = [(event.offsetX - left) / cell, (event.offsetY - top) / cell].map(Math.floor);
    const inside = s >= 0 && t >= 0 && s < columns && t < rows;
    here.style.visibility = inside ? "visible" : "hidden";
    if (!inside) return;
    here.setAttribute("x", left + cell * s);
    here.setAttribute("y", top + cell * t);
    told.textContent = `${map.rows[t]} → ${map.columns[s]}: ${map.weights[t][s].toFixed(3)}`;
  };
  into.replaceChildren(told, svg);
  into.redraw = () => draw(into, map);
}

const dialog = document.querySelector("dialog");
document.getElementById("close").onclick = () => dialog.close();
dialog.onclick = event => { if (event.target === dialog) dialog.close(); };

function enlarge(name, show) {
  document.getElementById("name").textContent = name;
  show(document.getElementById("enlarged"));
  dialog.showModal();
}

// A row of small maps for each layer, each of which shows itself enlarged on a click.
function table(grid, layers, small, enlarged) {
  layers.forEach((heads, layer) => {
    const label = document.createElement("span");
    label.textContent = `layer ${layer + 1}`;
    grid.append(label);
    heads.forEach((head, number) => {
      const button = document.createElement("button");
      const name = `${grid.dataset.kind}.${layer + 1}.${number + 1}`;
      button.title = name;
      button.setAttribute("aria-label", `enlarge ${name}`);
      button.append(small(head));
      button.onclick = () => enlarge(name, into => enlarged(into, head, name));
      grid.append(button);
    });
  });
}
for (const grid of document.querySelectorAll(".every")) {
  const {rows, columns, weights} = seen.attention[grid.dataset.kind];
  const small = head => {
    const canvas = painted(head);
    canvas.redraw = () => painted(head, canvas);
    return canvas;
  };
  table(grid, weights, small, (into, head, name) => draw(into, {name, rows, columns, weights: head}));
}

// A word that is pointed at, or has the focus, shows what it looks at, or who looks at it.
// lit(number, i): how strongly the other word i is lit while the word of that number is pointed at.
function lights(words, others, lit) {
  const dark = () => [...words, ...others].forEach(word => {
    word.classList.remove("here");
    word.style.removeProperty("--weight");
  });
  words.forEach((word, number) => {
    word.onmouseenter = word.onfocus = () => {
      others.forEach((other, i) => other.style.setProperty("--weight", lit(number, i)));
      word.classList.add("here");
    };
    word.onmouseleave = word.onblur = dark;
  });
}

if (seen.alignment) {
  draw(document.getElementById("alignment"), {name: "alignment", rows: seen.target.pieces,
    columns: seen.source.pieces, weights: seen.alignment.weights});
  const [source, target] = ["source", "target"].map(side => [...document.querySelectorAll(`#${side} span`)]);
  const between = (from, to) => seen.alignment.word_weights[to][from];
  lights(target, source, (number, i) => between(i, number));
  lights(source, target, between);
}

// The pieces of a text, and by which map they are lit: a head's, a layer's mean, or the mean of all.
const pieces = [...document.querySelectorAll("#pieces span")], chosen = document.getElementById("chosen");
if (chosen) {
  const [kind] = Object.keys(seen.attention), {weights} = seen.attention[kind];
  const option = (name, heads) => {
    chosen.append(new Option(name, name));
    chosen.lastChild.heads = heads;
  };
  option("the mean of all heads", weights.flat());
  weights.forEach((heads, layer) => option(`the mean of ${kind}.${layer + 1}`, heads));
  weights.forEach((heads, layer) => heads.forEach((head, i) => option(`${kind}.${layer + 1}.${i + 1}`, [head])));
  lights(pieces, pieces, (from, to) => {
    const {heads} = chosen.selectedOptions[0];
    return Math.sqrt(heads.reduce((sum, head) => sum + head[from][to], 0) / heads.length);
  });
}

// Weights over a picture: no colour over the patch with the smallest, most over that with the largest.
function over(picture, weights, size, canvas = document.createElement("canvas")) {
  const context = canvas.getContext("2d"), all = weights.flat();
  canvas.width = Math.round(picture.width * size);
  canvas.height = Math.round(picture.height * size);
  const smallest = Math.min(...all), range = Math.max(1e-12, Math.max(...all) - smallest);
  const [across, down] = [canvas.width / weights[0].length, canvas.height / weights.length];
  context.imageSmoothingEnabled = false;
  context.filter = "grayscale(1)";
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  context.filter = "none";
  context.fillStyle = `rgb(${seen.glow})`;
  weights.forEach((row, r) => row.forEach((weight, q) => {
    context.globalAlpha = seen.strongest * (weight - smallest) / range;
    const [x, y] = [Math.round(q * across), Math.round(r * down)];
    context.fillRect(x, y, Math.round((q + 1) * across) - x, Math.round((r + 1) * down) - y);
  }));
  return canvas;
}

// The picture with weights over it, and in words the weight that somebody points at.
function shown(into, weights, told) {
  const canvas = over(picture, weights, 1);
  canvas.onpointermove = event => {
    const q = Math.floor(event.offsetX / canvas.clientWidth * weights[0].length);
    const r = Math.floor(event.offsetY / canvas.clientHeight * weights.length);
    if (weights[r]?.[q] !== undefined) told.textContent = `row ${r + 1}, column ${q + 1}: ${weights[r][q].toFixed(4)}`;
  };
  told.textContent = "Point at a patch.";
  into.append(canvas);
}
const picture = new Image();
if (seen.picture) {
  picture.onload = () => {
    const whole = document.createElement("canvas");
    [whole.width, whole.height] = [picture.width, picture.height];
    whole.getContext("2d").drawImage(picture, 0, 0);
    const beside = document.getElementById("rollout");
    beside.append(whole);
    shown(beside, seen.picture.rollout, document.getElementById("share"));
    table(document.querySelector(".over"), seen.picture.heads, head => over(picture, head, .4), (into, head) => {
      const told = document.createElement("p");
      told.className = "told";
      into.replaceChildren(told);
      shown(into, head, told);
    });
  };
  picture.src = seen.file;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
  () => document.querySelectorAll(".every canvas, .large").forEach(one => one.redraw?.()));
"""

_KINDS: dict[AttentionKind, str] = {
    "encoder": "Self-attention of the encoder",
    "decoder": "Self-attention of the decoder",
    "cross": "Attention from the decoder to the encoder",
}


def inspection_page(seen: Inspection | Reading, *, name: str) -> str:
    """The page. `name` is the bundle's."""
    facts = seen.to_json()
    if isinstance(seen, Inspection):
        title, body = seen.target.text, _translation(seen, name)
    else:
        title, body = seen.heading, _reading(seen, name)
        if seen.picture is not None:
            facts |= {"file": _data_address(seen.picture), "glow": GLOW, "strongest": STRONGEST}
    # A "<!--" or "<script" in a text would change where the element ends, so there is no "<" at all.
    data = json.dumps(facts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    if seen.kinds:
        body.append(
            '<h2>Every head</h2><p class="lead">A row is who looks, a column what is looked at; the shade grows with '
            "the square root of the weight. Click to enlarge.</p>"
        )
    body += [
        *(f"<h2>{_KINDS[kind]}</h2>{_grid('every', kind, len(seen.weights(kind)[0]))}" for kind in seen.kinds),
        '<dialog aria-labelledby="name"><header><span id="name"></span><button id="close" type="button">Close</button>'
        '</header><div class="large" id="enlarged"></div></dialog>',
        f'<script type="application/json" id="seen">{data}</script>',
        f"<script>{SCRIPT}</script>",
    ]
    return page(f"Inside {name}: {title}", body, STYLE)


def _grid(what: str, kind: AttentionKind, n_heads: int) -> str:
    """Where the script puts a row of small maps for each layer."""
    heads = "".join(f"<span>head {number}</span>" for number in range(1, n_heads + 1))
    return f'<div class="card maps {what}" data-kind="{kind}" style="--heads:{n_heads}"><span></span>{heads}</div>'


def _without(seen: Inspection | Reading) -> str:
    return f" Without {', '.join(map(str, seen.without))}." if seen.without else ""


def _reading(seen: Reading, name: str) -> list[str]:
    """What was read, what the model makes of it, and where it looks."""
    heading = seen.heading if len(seen.heading) <= LONG else f"{seen.heading[:LONG]}…"
    body = [f"<h1>{escape(heading)}</h1>", f'<p class="lead">As {escape(name)} reads it.{escape(_without(seen))}</p>']
    if seen.probabilities:
        body.append(f'<h2>The likeliest labels</h2><div class="card labels scroll">{_labels(seen)}</div>')
    if seen.picture is not None:
        body += [
            '<h2>What it looked at</h2><p class="lead">Attention rollout: how much of each patch has come to the '
            'label, over all layers. The stronger the colour, the more.</p><p class="told" id="share"></p>'
            '<div class="card beside" id="rollout"></div>',
            '<h2>Every head over the picture</h2><p class="lead">What is looked at, head by head, by what stands for '
            "the picture. Click to enlarge.</p>" + _grid("over", "encoder", len(seen.weights("encoder")[0])),
        ]
        return body
    if seen.guesses:
        body.append(
            f"<h2>{'What comes next' if seen.goes_on else 'What is in the gaps'}</h2>"
            f'<div class="card scroll">{_guesses(seen)}</div>'
        )
    if seen.evidence:
        body.append(
            f'<h2>{escape(evidence_in_words(seen))}</h2><p class="lead">Blue is for it, orange against it, the '
            "stronger the more; point at a piece for its number. All of them, and what the labels have by themselves, "
            'are the logit above the mean of all labels.</p><div class="card words">'
            f"<p>{_evidence(seen)}</p></div>"
        )
    if not seen.kinds:
        return body
    pieces = " ".join(f'<span tabindex="0">{escape(piece)}</span>' for piece in seen.positions)
    body.append(
        '<h2>Where each piece looks</h2><p class="lead">Point at a piece. The stronger the colour of another, the more '
        'it is looked at.</p><div class="card words"><select id="chosen" aria-label="by which heads"></select>'
        f'<p id="pieces">{pieces}</p></div>'
    )
    return body


def _evidence(seen: Reading) -> str:
    """The pieces in the colour of what they say, and the number for who points at one."""
    return " ".join(
        f'<span{" class=against" if value < 0 else ""} style="--weight:{abs(share):.3f}" title="{value:+.3f}">'
        f"{escape(piece)}</span>"
        for piece, value, share in zip(seen.positions, seen.evidence, seen.evidence_shares, strict=True)
    )


def _data_address(seen: SeenPicture) -> str:
    content = io.BytesIO()
    enlarged(seen.pixels, PICTURE).save(content, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def _translation(seen: Inspection, name: str) -> list[str]:
    """The two sentences, what belongs together, how sure each piece is, and the search."""
    body = [
        f"<h1>{escape(seen.target.text)}</h1>",
        f'<p class="lead">{escape(name)} on “{escape(seen.source.text)}”: score {seen.score:.3f}, '
        f"log p {seen.log_prob:.3f}.{escape(_without(seen))} {seen.missing or ''}</p>",
        f'<h2>What belongs together</h2><p class="lead">Point at a word. By {seen.view.in_words}.</p>',
        f'<div class="card words">{_words("source", seen)}{_words("target", seen)}</div>',
        '<div class="card large" id="alignment" style="margin-top:1rem"></div>',
        f'<h2>How sure each piece is</h2><div class="card scroll">{_tokens(seen)}</div>',
    ]
    if seen.tree is not None:
        tree, lost = (escape("\n".join(lines(seen, seen.tree))) for lines in (tree_lines, runner_up_lines))
        body.append(f'<h2>The search</h2><p class="lead">{lost}</p><div class="card"><pre>{tree}</pre></div>')
    return body


def _words(side: str, seen: Inspection) -> str:
    words = seen.source.words if side == "source" else seen.target.words
    return f'<p id="{side}">' + " ".join(f'<span tabindex="0">{escape(word.text)}</span>' for word in words) + "</p>"


def _tokens(seen: Inspection) -> str:
    rows = [[*_sure(token.chosen, token.alternatives), _chances(token.alternatives)] for token in seen.tokens]
    return _table(["piece", "probability", "the likeliest there"], rows)


def _guesses(seen: Reading) -> str:
    def row(position: str, given: Choice | None, likeliest: Sequence[Choice]) -> Iterator[str]:
        yield f"<td>{escape(position)}</td>"
        if seen.goes_on:
            yield from ["<td></td>", "<td></td>"] if given is None else _sure(given, likeliest)
        yield _chances(likeliest)

    names = ["piece", "the next", "probability", "the likeliest there"] if seen.goes_on else ["gap", "the likeliest"]
    return _table(names, [row(seen.positions[one.position], one.given, one.likeliest) for one in seen.guesses])


def _labels(seen: Reading) -> str:
    shown = list(seen.probabilities.items())[:MOST_LABELS]
    rows = [[f"<td>{escape(label)}</td>", _share(probability)] for label, probability in shown]
    return _table(["label", "probability"], rows)


def _table(names: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<table class="tokens"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _sure(chosen: Choice, likeliest: Sequence[Choice]) -> list[str]:
    """A piece and its probability; marked where another is likelier."""
    mark = "" if likeliest[0].piece == chosen.piece else " class=doubtful"
    return [f"<td{mark}>{escape(chosen.piece)}</td>", _share(math.exp(chosen.log_prob))]


def _share(probability: float) -> str:
    return f'<td>{probability:.3f}<span class="bar"><i style="width:{100 * probability:.0f}%"></i></span></td>'


def _chances(choices: Sequence[Choice]) -> str:
    spans = (f"<span>{escape(one.piece)} <small>{math.exp(one.log_prob):.3f}</small></span>" for one in choices)
    return f"<td>{' '.join(spans)}</td>"
