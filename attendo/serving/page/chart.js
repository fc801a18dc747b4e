// Curves: lines over steps, with round ticks.

import { svg } from "./dom.js";
import { t } from "./words.js";

const WIDTH = 400;
const HEIGHT = 230;
const [LEFT, RIGHT, BOTTOM] = [54, 14, 38];
const [TOP, TOP_WITH_NAMES] = [12, 38];

/** About `count` steps of 1, 2 or 5 times a power of ten that reach from below `low` to above `high`. */
export function ticks(low, high, count) {
  if (low === high) [low, high] = [low - Math.abs(low || 1) / 10, high + Math.abs(high || 1) / 10];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * (1 - 1e-9));
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, n) => (first + n) * step);
}

function short(value) {
  if (value !== 0 && Math.abs(value) < 0.01) return value.toExponential(0).replace("e-", "e−");
  return Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(value);
}

/** series: [{name, points: [[x, y]], ink}]; a y of null leaves a gap. */
export function chart({ title, series, fromZero = false }) {
  const all = series.flatMap(({ points }) => points).filter(([, y]) => y !== null);
  const whole = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
  const text = (x, y, content, anchor) => svg("text", { x, y, "text-anchor": anchor }, content);
  if (all.length === 0) {
    whole.append(text(WIDTH / 2, HEIGHT / 2, t("nothing to draw"), "middle"));
    return whole;
  }
  const top = series.length > 1 ? TOP_WITH_NAMES : TOP;
  const end = Math.max(1, ...all.map(([x]) => x));
  const heights = all.map(([, y]) => y);
  const levels = ticks(Math.min(...heights, ...(fromZero ? [0] : [])), Math.max(...heights), 5);
  const [low, high] = [levels[0], levels.at(-1)];
  const across = (x) => LEFT + (x / end) * (WIDTH - LEFT - RIGHT);
  const up = (y) => HEIGHT - BOTTOM - ((y - low) / (high - low)) * (HEIGHT - top - BOTTOM);

  for (const level of levels) {
    const line = svg("path", { class: "grid", d: `M${LEFT} ${up(level)}H${WIDTH - RIGHT}` });
    whole.append(line, text(LEFT - 8, up(level) + 4, short(level), "end"));
  }
  for (const step of ticks(0, end, 5).filter((one) => one <= end)) {
    whole.append(text(across(step), HEIGHT - BOTTOM + 17, short(step), "middle"));
  }
  whole.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 3, t("step"), "middle"));
  let right = LEFT;
  for (const { name, points, ink } of series) {
    const known = points.filter(([, y]) => y !== null);
    const d = known.map(([x, y], n) => `${n ? "L" : "M"}${across(x).toFixed(1)} ${up(y).toFixed(1)}`).join("");
    const group = svg("g", { class: `ink-${ink}` }, svg("path", { class: "line", d: `${d}h0` }));
    const every = Math.ceil(known.length / 60);
    known.forEach(([x, y], n) => {
      if (n % every) return;
      const dot = svg("circle", { cx: across(x), cy: up(y), r: 5 });
      dot.append(svg("title", {}, `${name}: ${Number(y.toPrecision(4))} (${t("step")} ${x})`));
      group.append(dot);
    });
    if (series.length > 1) {
      group.append(svg("path", { class: "line", d: `M${right} 14h18` }));
      whole.append(text(right + 24, 18, name, "start"));
      right += 24 + 8 * name.length + 24;
    }
    whole.append(group);
  }
  return whole;
}
