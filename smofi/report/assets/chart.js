// What all figures share: a place to draw in, a tip beside the pointer, and words for those who hear the page.
const PAPER = 680; // pixels across a printed page
let printing = false;

const MARKERS = {
  o: [d3.symbolCircle, 0], "*": [d3.symbolStar, 0], X: [d3.symbolCross, 45], s: [d3.symbolSquare, 0],
  D: [d3.symbolSquare, 45], P: [d3.symbolCross, 0], v: [d3.symbolTriangle, 180], "^": [d3.symbolTriangle, 0],
  "<": [d3.symbolTriangle, -90], ">": [d3.symbolTriangle, 90], d: [d3.symbolDiamond, 0],
};

const percent = d3.format(".1%");
const plain = value => Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? d3.format(".3~e")(value) : d3.format(",.4~r")(value);
const shown = (value, share) => share ? percent(value) : plain(value);

// A mean and the standard deviation over seeds, as in the table.
const withSpread = (mean, spread, share) =>
  spread === null ? shown(mean, share) : `${shown(mean, share).replace("%", "")} ± ${shown(spread, share)}`;

// Up to how many figures stand side by side on paper is said by `abreast`.
function widthOf(place, abreast = 1) {
  return printing ? PAPER / abreast : Math.max(240, place.clientWidth);
}

function shorten(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.floor(most) - 1)}…`;
}

function drawing(place, width, height) {
  d3.select(place).selectAll("svg").remove();
  return d3.select(place).insert("svg", ":first-child")
    .attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("height", height).attr("aria-hidden", "true");
}

// A marker at the origin of a group.
function mark(group, method, size = 42) {
  const [symbol, turn] = MARKERS[method.marker] ?? MARKERS.o;
  return group.append("path").attr("class", method.hollow ? "mark hollow" : "mark")
    .style("--colour", method.colour).attr("d", d3.symbol(symbol, size)()).attr("transform", `rotate(${turn})`);
}

// A short piece of a method's line with its marker, for legends and tips.
function sample(selection, method) {
  const svg = selection.append("svg").attr("width", 30).attr("height", 14).attr("viewBox", "0 0 30 14").attr("aria-hidden", "true");
  svg.append("path").attr("class", "curve").style("--colour", method.colour).attr("d", "M1 7H29")
    .attr("stroke-dasharray", method.dashes || null);
  mark(svg.append("g").attr("transform", "translate(15,7)"), method);
}

// A name that is broken between its parts rather than inside a word.
function breakable(selection, name) {
  for (const [i, piece] of name.split(/(?<=\+)(?=[A-Za-z_])|(?<=, |\()/).entries()) {
    if (i) selection.append("wbr");
    selection.node().append(piece);
  }
}

function swatch(selection, colour, kind = "") {
  selection.append("span").attr("class", `swatch ${kind}`).style("--colour", colour);
}

// The tip of a figure, beside a point of its drawing; rows are [what draws a key, name, value].
class Tip {
  constructor(place) {
    this.place = place;
    this.box = d3.select(place).append("div").attr("class", "tip").attr("role", "presentation").attr("hidden", "");
    this.said = d3.select(place).append("div").attr("class", "unseen").attr("aria-live", "polite");
  }

  show(heading, rows, left, top, aloud) {
    this.box.attr("hidden", null).text("");
    this.box.append("b").text(heading);
    const grid = this.box.append("div");
    for (const [key, name, value] of rows) {
      grid.append("span").each(function () { if (key) key(d3.select(this)); });
      breakable(grid.append("span"), name);
      grid.append("b").text(value);
    }
    const node = this.box.node(), room = this.place.clientWidth;
    const right = left + 16 + node.offsetWidth <= room;
    const x = right ? left + 16 : Math.max(0, left - 16 - node.offsetWidth);
    this.box.style("left", `${x}px`).style("top", `${Math.max(0, top)}px`);
    if (aloud) this.said.text(`${heading}: ${rows.map(([, name, value]) => `${name} ${value}`).join(", ")}`);
  }

  hide() {
    this.box.attr("hidden", "");
  }
}

// Let a figure be read from the keyboard: `step` moves by so many places, the other keys are given by name.
function readable(place, label, step, keys = {}) {
  d3.select(place).attr("tabindex", 0).attr("role", "group").attr("aria-roledescription", "figure").attr("aria-label", label);
  place.addEventListener("keydown", event => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (event.key in moves) step(moves[event.key]);
    else if (event.key in keys) keys[event.key]();
    else return;
    event.preventDefault();
  });
}

// Draw again when a place changes its width.
function whenResized(place, draw) {
  let width = place.clientWidth;
  new ResizeObserver(() => {
    if (printing || Math.abs(place.clientWidth - width) < 2) return;
    width = place.clientWidth;
    draw();
  }).observe(place);
}

function button(selection, text, press) {
  return selection.append("button").attr("type", "button").attr("class", "control").text(text).on("click", press);
}
