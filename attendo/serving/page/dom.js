// Elements from values. A text becomes a text node and never markup, whoever wrote it.

/** el("p", {class: "quiet", onclick: go}, "some text", anotherElement); null and false are left out. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for a drawing. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** An element's content, replaced. */
export function show(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

/**
 * One of several elements can be reached by Tab, the others from it by arrow keys: up and down by as many as there are
 * columns. Returns the keydown listener.
 */
export function roving(items, { onchoose, columns = 1 } = {}) {
  items.forEach((item, place) => (item.tabIndex = place === 0 ? 0 : -1));
  return (event) => {
    const at = items.indexOf(event.target);
    if (at < 0) return;
    const [up, down] = [at - columns, at + columns];
    const to = { ArrowLeft: at - 1, ArrowUp: up, ArrowRight: at + 1, ArrowDown: down, Home: 0, End: -1 };
    if (event.key in to) {
      event.preventDefault();
      const next = items[(to[event.key] + items.length) % items.length];
      items.forEach((item) => (item.tabIndex = item === next ? 0 : -1));
      next.focus();
    } else if ((event.key === "Enter" || event.key === " ") && onchoose) {
      event.preventDefault();
      onchoose(items[at]);
    }
  };
}
