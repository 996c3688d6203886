// The heat map of the attention explorer: everything is drawn here, from weights that were sent
// once. Python draws the same picture for pages without a kernel (ehr_course/plots/attention.py).

const LARGEST_CELL = 26; // pixels on the page
const SMALLEST_CELL = 5;
const LARGEST_TEXT = 12;
const SMALLEST_TEXT = 8;
const GAP = 6; // between labels and cells

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

/** The weights of all kinds, as functions of (layer, head, row, column). */
function readWeights(content, bytes) {
  const kinds = {};
  let place = 0;
  for (const kind of ["encoder", "decoder", "cross"]) {
    const { layers, heads, rows, columns } = content.maps[kind];
    const start = place;
    place += 2 * layers * heads * rows.length * columns.length;
    kinds[kind] = (layer, head, row, column) => {
      const cell = ((layer * heads + head) * rows.length + row) * columns.length + column;
      return bytes.getUint16(start + 2 * cell, true) / content.steps;
    };
  }
  return kinds;
}

function render({ model, el }) {
  const content = model.get("_content");
  const weightOf = readWeights(content, model.get("_weights"));
  let hovered = null; // the cell under the pointer; otherwise the chosen one is shown

  // ------------------------------------------------------------------ the page

  const group = `ehr-attention-${Math.random().toString(36).slice(2)}`;
  const radios = Object.keys(weightOf).map((kind) =>
    element("input", { type: "radio", name: group, value: kind }),
  );
  const kinds = element(
    "fieldset",
    {},
    element("legend", { textContent: "attention" }),
    ...radios.map((radio) => element("label", {}, radio, radio.value)),
  );
  const layer = element("input", { type: "range", min: 0, step: 1, ariaLabel: "layer" });
  const head = element("input", { type: "range", min: 0, step: 1, ariaLabel: "head" });
  const layerText = element("span", { className: "ehr-attention-value" });
  const headText = element("span", { className: "ehr-attention-value" });
  const title = element("p", { className: "ehr-attention-title" });
  const reading = element("p", { className: "ehr-attention-reading" });
  const canvas = element("canvas", { tabIndex: 0 });
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "heat map; arrow keys move the chosen cell");
  const readout = element("p", { className: "ehr-attention-readout" });
  readout.setAttribute("role", "status");
  const scale = element("span", { className: "ehr-attention-scale" });
  scale.style.background = `linear-gradient(to right, ${content.colours.join(", ")})`;
  const largest = element("span");
  const greyKey = element("span", { className: "ehr-attention-grey" });
  const hiddenKey = element("span", {}, greyKey, "a later position: not seen");
  const root = element(
    "div",
    { className: "ehr-attention" },
    element(
      "div",
      { className: "ehr-attention-controls" },
      kinds,
      element("label", {}, "layer", layer, layerText),
      element("label", {}, "head", head, headText),
    ),
    title,
    reading,
    canvas,
    readout,
    element(
      "div",
      { className: "ehr-attention-legend" },
      element("span", {}, "weight 0", scale, largest),
      hiddenKey,
    ),
    element("p", { className: "ehr-attention-note", textContent: content.note }),
  );
  // JupyterLab would take the arrow keys for moving from cell to cell.
  for (const part of [root, canvas, layer, head, ...radios]) {
    part.dataset.lmSuppressShortcuts = "true";
  }

  // ------------------------------------------------------------------ what is shown

  function state() {
    const kind = model.get("kind");
    const map = content.maps[kind];
    const at = {
      kind,
      map,
      layer: clamp(model.get("layer"), 0, map.layers - 1),
      head: clamp(model.get("head"), 0, map.heads - 1),
    };
    const cell = hovered ?? { row: model.get("row"), column: model.get("column") };
    at.row = clamp(cell.row, 0, map.rows.length - 1);
    at.column = clamp(cell.column, 0, map.columns.length - 1);
    at.weight = (row, column) => weightOf[kind](at.layer, at.head, row, column);
    at.hidden = (row, column) => map.causal && column > row;
    return at;
  }

  function strongest(at) {
    let best = 0;
    for (let column = 1; column < at.map.columns.length; column += 1) {
      if (at.weight(at.row, column) > at.weight(at.row, best)) best = column;
    }
    return best;
  }

  function titleOf(at) {
    const column = strongest(at);
    const itself = at.kind !== "cross" && column === at.row;
    const seen = itself ? "itself" : at.map.columnNames[column];
    const weight = at.weight(at.row, column).toFixed(2);
    const place = `Layer ${at.layer}, head ${at.head}`;
    const writes = at.map.writes[at.row];
    const read = at.map.rowNames[at.row];
    const name = writes ? `after ${read}, about to write ${writes}, it` : read;
    return `${place}: ${name} looks most at ${seen} (${weight})`;
  }

  function named(name, label) {
    const meaning = content.meanings[label];
    return meaning ? `${name} (${meaning})` : name;
  }

  function readoutOf(at) {
    const row = named(at.map.rowNames[at.row], at.map.rows[at.row]);
    const column = named(at.map.columnNames[at.column], at.map.columns[at.column]);
    if (at.hidden(at.row, at.column)) {
      return [element("strong", { textContent: "Not seen" }), `: ${column} stands after ${row}`];
    }
    const weight = at.weight(at.row, at.column).toFixed(3);
    return [element("strong", { textContent: weight }), ` from ${row} to ${column}`];
  }

  function showWords(at) {
    const words = titleOf(at);
    title.textContent = words;
    const [label, rows] = at.map.favourites[at.layer][at.head];
    reading.textContent =
      `${at.map.reading}. Here ${label} is the first choice of ` +
      `${rows} of ${at.map.rows.length} rows.`;
    readout.replaceChildren(...readoutOf(at));
    canvas.setAttribute("aria-label", `${at.map.name}. ${words}`);
    hiddenKey.style.display = at.map.causal ? "" : "none";
  }

  function showControls(at) {
    for (const radio of radios) radio.checked = radio.value === at.kind;
    for (const [slider, text, value, size] of [
      [layer, layerText, at.layer, at.map.layers],
      [head, headText, at.head, at.map.heads],
    ]) {
      slider.max = size - 1;
      slider.value = value;
      slider.disabled = size === 1;
      text.textContent = value;
    }
  }

  // ------------------------------------------------------------------ the canvas

  let grid = { left: 0, top: 0, cell: SMALLEST_CELL };

  function font(size, bold = false) {
    return `${bold ? "600 " : ""}${size}px ${getComputedStyle(root).fontFamily}`;
  }

  function widest(pen, labels) {
    pen.font = font(LARGEST_TEXT, true);
    return Math.ceil(Math.max(...labels.map((label) => pen.measureText(label).width)));
  }

  function draw() {
    const at = state();
    showControls(at);
    showWords(at);
    const room = root.clientWidth - 8; // less the padding of the root
    if (room <= 0) return; // not on the page yet; the observer calls again
    const { rows, columns } = at.map;
    const pen = canvas.getContext("2d");
    const left = widest(pen, at.map.rowLabels) + GAP;
    const top = widest(pen, columns) + GAP;
    const fitting = Math.floor((room - left - 2) / columns.length);
    const cell = clamp(fitting, SMALLEST_CELL, LARGEST_CELL);
    grid = { left, top, cell };

    const width = left + cell * columns.length + 2;
    const height = top + cell * rows.length + 2;
    const dense = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    pen.setTransform(dense, 0, 0, dense, 0, 0);

    drawCells(pen, at);
    drawLabels(pen, at);
    drawFrames(pen, at);
  }

  function drawCells(pen, at) {
    const { rows, columns } = at.map;
    let top = 0;
    rows.forEach((_, row) =>
      columns.forEach((__, column) => {
        top = Math.max(top, at.weight(row, column));
      }),
    );
    largest.textContent = `${top.toFixed(2)}, by its square root`;
    const grey = getComputedStyle(greyKey).backgroundColor;
    const last = content.colours.length - 1;
    const gap = grid.cell > 8 ? 1 : 0;
    rows.forEach((_, row) =>
      columns.forEach((__, column) => {
        const share = (at.weight(row, column) / top) ** content.gamma;
        pen.fillStyle = at.hidden(row, column) ? grey : content.colours[Math.round(share * last)];
        const [x, y] = [grid.left + column * grid.cell, grid.top + row * grid.cell];
        pen.fillRect(x, y, grid.cell - gap, grid.cell - gap);
      }),
    );
  }

  function drawLabels(pen, at) {
    const { left, top, cell } = grid;
    const size = clamp(Math.floor(cell * 0.8), SMALLEST_TEXT, LARGEST_TEXT);
    const every = Math.ceil((size + 1) / cell); // where there is no room for all labels
    const colours = getComputedStyle(root);
    const [ink, muted] = ["--ehr-ink", "--ehr-muted"].map((name) => colours.getPropertyValue(name));
    const shown = (place, chosen) =>
      place === chosen || (place % every === 0 && Math.abs(place - chosen) >= every);
    const write = (label, chosen) => {
      pen.font = font(size, chosen);
      pen.fillStyle = chosen ? ink : muted;
      pen.fillText(label, 0, 0);
    };
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    at.map.rowLabels.forEach((label, row) => {
      if (!shown(row, at.row)) return;
      pen.save();
      pen.translate(left - GAP, top + (row + 0.5) * cell);
      write(label, row === at.row);
      pen.restore();
    });
    pen.textAlign = "left";
    at.map.columns.forEach((label, column) => {
      if (!shown(column, at.column)) return;
      pen.save();
      pen.translate(left + (column + 0.5) * cell, top - GAP);
      pen.rotate(-Math.PI / 2);
      write(label, column === at.column);
      pen.restore();
    });
  }

  function drawFrames(pen, at) {
    const { left, top, cell } = grid;
    const colours = getComputedStyle(root);
    const y = top + at.row * cell - 0.5;
    pen.strokeStyle = colours.getPropertyValue("--ehr-frame");
    pen.lineWidth = 1;
    pen.strokeRect(left - 0.5, y, at.map.columns.length * cell, cell);
    const x = left + at.column * cell - 0.5;
    pen.lineWidth = 3;
    pen.strokeStyle = colours.getPropertyValue("--ehr-paper");
    pen.strokeRect(x, y, cell, cell);
    pen.lineWidth = 2;
    pen.strokeStyle = colours.getPropertyValue("--ehr-frame");
    pen.strokeRect(x, y, cell, cell);
  }

  // ------------------------------------------------------------------ what the user does

  function change(values) {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
  }

  /** Show other weights, and choose the cell that the title speaks of. */
  function lookAt(values) {
    hovered = null;
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    change({ column: strongest(state()) });
  }

  function cellAt(event) {
    const column = Math.floor((event.offsetX - grid.left) / grid.cell);
    const row = Math.floor((event.offsetY - grid.top) / grid.cell);
    const { rows, columns } = state().map;
    const inside = row >= 0 && row < rows.length && column >= 0 && column < columns.length;
    return inside ? { row, column } : null;
  }

  function hover(cell) {
    if (cell?.row === hovered?.row && cell?.column === hovered?.column) return;
    hovered = cell;
    draw();
  }

  for (const radio of radios) {
    radio.addEventListener("change", () => {
      // The same token stays chosen: it stands one place later in the decoder than in the encoder.
      const before = state();
      const name = before.map.rowNames[before.row];
      const row = Math.max(0, content.maps[radio.value].rowNames.indexOf(name));
      lookAt({ kind: radio.value, row });
    });
  }
  layer.addEventListener("input", () => lookAt({ layer: Number(layer.value) }));
  head.addEventListener("input", () => lookAt({ head: Number(head.value) }));
  canvas.addEventListener("pointermove", (event) => hover(cellAt(event)));
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) change(cell);
  });

  const MOVES = {
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    Home: [0, -Infinity],
    End: [0, Infinity],
  };
  canvas.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    hovered = null;
    const { row, column, map } = state();
    change({
      row: clamp(row + move[0], 0, map.rows.length - 1),
      column: clamp(column + move[1], 0, map.columns.length - 1),
    });
    draw();
  });

  // ------------------------------------------------------------------ life and death of the view

  // Another theme comes as other attributes of the body: a class, a name, or all the colours.
  const themed = new MutationObserver(draw);
  themed.observe(document.body, { attributes: true });

  model.on("change:kind change:layer change:head change:row change:column", draw);
  let width = 0;
  const resized = new ResizeObserver(() => {
    if (el.clientWidth === width) return; // a new height is our own doing
    width = el.clientWidth;
    draw();
  });
  el.append(root);
  resized.observe(el);
  draw();
  return () => {
    model.off("change:kind change:layer change:head change:row change:column", draw);
    resized.disconnect();
    themed.disconnect();
  };
}

export default { render };
