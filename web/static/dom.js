// Elements from data: every text becomes a text node, never markup.

const SVG = "http://www.w3.org/2000/svg";

// Marks that change the order of text, other controls, and what looks like nothing.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false)
    .map((each) => (each instanceof Node ? each : document.createTextNode(String(each)))));
  return element;
}

export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

// Text of records and names, with its hidden characters shown by their numbers.
export function shown(text) {
  const parts = [];
  let plain = "";
  for (const character of text) {
    if (!HIDDEN.test(character)) {
      plain += character;
      continue;
    }
    const number = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(plain, el("em", { class: "mark" }, `⟨U+${number}⟩`));
    plain = "";
  }
  parts.push(plain);
  return parts;
}

// The same as one text, for what holds no elements.
export function plain(text) {
  return shown(text).map((part) => part.textContent ?? part).join("");
}

// A button that copies a text; where the browser does not let a page copy, the text is shown, selected.
export function copyButton(label, textOf) {
  const reset = () => { button.textContent = label; };
  const button = el("button", { type: "button", onblur: reset, onpointerleave: reset, onclick: async () => {
    const text = await textOf();
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const box = el("pre", { tabindex: 0 }, text);
      button.parentNode.after(box);
      getSelection().selectAllChildren(box);
    }
  } }, label);
  return button;
}

export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([label, value]) => el("div", {}, el("dt", {}, label), el("dd", {}, value))));
}

const ROW = 30;
const MARGIN = 20;

// A table of any number of rows, of which those in sight are elements.
// columns: {name, heading, cell(row), sort(row), number}
export function table(columns, rows, label) {
  const body = el("tbody");
  const state = { rows, by: null, down: false };
  const heads = columns.map((column) => {
    const head = el("th", { scope: "col", class: column.number ? "number" : null });
    if (!column.sort) {
      head.append(column.heading);
      return head;
    }
    head.append(el("button", { type: "button", onclick: () => order(column, head) }, column.heading));
    return head;
  });
  const box = el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": label, onscroll: () => draw() },
    el("table", { "aria-rowcount": rows.length + 1 }, el("thead", {}, el("tr", {}, heads)), body));

  function order(column, head) {
    state.down = state.by === column ? !state.down : Boolean(column.number);
    state.by = column;
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    const key = (row) => column.sort(row);
    state.rows = [...state.rows].sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === b) return 0;
      if (a === null) return 1;
      if (b === null) return -1;
      return (a < b ? -1 : 1) * (state.down ? -1 : 1);
    });
    box.scrollTop = 0;
    draw(true);
  }

  let drawn = "";
  function draw(again = false) {
    const first = Math.max(Math.floor(box.scrollTop / ROW) - MARGIN, 0);
    const count = Math.ceil((box.clientHeight || 600) / ROW) + 2 * MARGIN;
    const last = Math.min(first + count, state.rows.length);
    if (!again && drawn === `${first} ${last}`) return;
    drawn = `${first} ${last}`;
    const spacer = (number) => {
      const cell = el("td", { colspan: columns.length });
      cell.style.height = `${number * ROW}px`;
      return el("tr", { class: "spacer", "aria-hidden": "true" }, cell);
    };
    body.replaceChildren(
      ...(first ? [spacer(first)] : []),
      ...state.rows.slice(first, last).map((row, number) => el("tr", { "aria-rowindex": first + number + 2 },
        columns.map((column) => el("td", { class: column.number ? "number" : column.wrap ? "wrap" : null }, column.cell(row))))),
      ...(last < state.rows.length ? [spacer(state.rows.length - last)] : []));
  }

  box.show = (some) => {
    state.rows = some;
    box.firstChild.setAttribute("aria-rowcount", some.length + 1);
    draw(true);
  };
  draw();
  new ResizeObserver(() => draw()).observe(box);
  return box;
}
