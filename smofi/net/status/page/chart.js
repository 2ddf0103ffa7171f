// One curve over rounds, read by mouse and by arrow keys.
const SVG = "http://www.w3.org/2000/svg";

function drawn(parent, tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
}

// Round numbers between two values, about as many as asked for.
function ticks(low, high, about) {
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(one => one * power >= 0.7 * rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(i * step);
  return found;
}

// The values with some room; a share is never below 0 or above 1.
function extent(values, share) {
  const low = Math.min(...values), high = Math.max(...values), room = 0.05 * (high - low || Math.abs(high) || 1);
  return share ? [Math.max(0, low - room), Math.min(1, high + room)] : [low - room, high + room];
}

class Chart {
  constructor(place) {
    this.place = place;
    this.points = [];
    this.at = null;
    this.tip = place.appendChild(make("div", { class: "tip", hidden: "" }));
    this.said = place.appendChild(make("div", { class: "unseen", "aria-live": "polite" }));
    for (const [name, value] of Object.entries({ tabindex: 0, role: "group", "aria-roledescription": "figure" })) place.setAttribute(name, value);
    place.addEventListener("pointermove", event => this.point(event));
    place.addEventListener("pointerleave", () => this.leave());
    place.addEventListener("blur", () => this.leave());
    place.addEventListener("keydown", event => this.key(event));
    new ResizeObserver(() => this.draw()).observe(place);
    addEventListener("beforeprint", () => this.draw(680));
    addEventListener("afterprint", () => this.draw());
  }

  // points: [round, value] in order; share: whether values are shares of 1
  show(points, name, share) {
    Object.assign(this, { points, name, share });
    this.place.setAttribute("aria-label", `${capital(name)} over rounds. Arrow keys read values.`);
    this.draw();
  }

  draw(fixed) {
    this.place.querySelector("svg")?.remove();
    this.cursor = null;
    this.place.hidden = !this.points.length;
    if (!this.points.length) return;
    const width = fixed ?? Math.max(240, this.place.clientWidth), height = Math.round(Math.max(200, Math.min(320, 0.4 * width)));
    const left = 52, right = 14, top = 10, bottom = 40;
    const values = this.points.map(([, value]) => value), rounds = this.points.map(([round]) => round);
    const [low, high] = extent(values, this.share);
    const first = Math.min(1, rounds[0]), last = Math.max(rounds.at(-1), first + 1);
    this.x = round => left + (round - first) / (last - first) * (width - left - right);
    this.y = value => height - bottom - (value - low) / (high - low) * (height - top - bottom);
    this.frame = { width, height, left, right, top, bottom, first, last };
    this.svg = drawn(this.place, "svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
    this.axes(low, high);
    drawn(this.svg, "path", { class: "curve", d: this.points.map(([round, value], i) => `${i ? "L" : "M"}${this.x(round).toFixed(1)} ${this.y(value).toFixed(1)}`).join("") });
    const [round, value] = this.points.at(-1);
    drawn(this.svg, "circle", { class: "mark", cx: this.x(round), cy: this.y(value), r: 5 });
    if (this.at !== null) this.read(this.at);
  }

  axes(low, high) {
    const { width, height, left, right, bottom, first, last } = this.frame;
    const heights = ticks(low, high, Math.max(4, height / 60));
    const apart = heights.length > 1 ? heights[1] - heights[0] : 0.1;
    const places = Math.max(0, Math.ceil(-Math.log10(apart) - 2 - 1e-9));
    for (const value of heights) {
      const y = this.y(value);
      drawn(this.svg, "line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y });
      drawn(this.svg, "text", { x: left - 8, y: y + 4, "text-anchor": "end" }, this.share ? `${(100 * value).toFixed(places)}%` : digits.format(value));
    }
    for (const round of ticks(first, last, Math.max(4, width / 110)).filter(Number.isInteger)) {
      drawn(this.svg, "line", { class: "tick", x1: this.x(round), x2: this.x(round), y1: height - bottom, y2: height - bottom + 6 });
      drawn(this.svg, "text", { x: this.x(round), y: height - bottom + 20, "text-anchor": "middle" }, count(round));
    }
    drawn(this.svg, "text", { x: width - right, y: height - 4, "text-anchor": "end" }, "round");
  }

  point(event) {
    if (!this.points.length || event.target.closest(".tip")) return;
    const box = this.svg.getBoundingClientRect(), x = (event.clientX - box.left) * this.frame.width / box.width;
    const off = this.points.map(([round]) => Math.abs(this.x(round) - x));
    this.read(off.indexOf(Math.min(...off)));
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (event.altKey || event.ctrlKey || event.metaKey || !this.points.length) return;
    if (event.key === "Escape") return this.leave();
    if (!(event.key in moves)) return;
    const from = this.at ?? (moves[event.key] < 0 ? this.points.length : -1);
    this.read(Math.max(0, Math.min(this.points.length - 1, from + moves[event.key])));
    setText(this.said, this.tip.textContent);
    event.preventDefault();
  }

  read(at) {
    this.at = Math.min(at, this.points.length - 1);
    const [round, value] = this.points[this.at], x = this.x(round), { top, bottom, height } = this.frame;
    this.cursor?.remove();
    this.cursor = drawn(this.svg, "g", {});
    drawn(this.cursor, "line", { class: "cursor", x1: x, x2: x, y1: top, y2: height - bottom });
    drawn(this.cursor, "circle", { class: "mark", cx: x, cy: this.y(value), r: 5 });
    this.tip.replaceChildren(make("b", {}, `Round ${count(round)}`), `: ${this.name} ${shown(value, this.share)}`);
    this.tip.hidden = false;
    const beside = x + 12 + this.tip.offsetWidth <= this.place.clientWidth ? x + 12 : Math.max(0, x - 12 - this.tip.offsetWidth);
    this.tip.style.left = `${beside}px`;
    this.tip.style.top = `${this.y(value) < 60 ? this.y(value) + 16 : this.y(value) - 44}px`;
  }

  leave() {
    this.at = null;
    this.tip.hidden = true;
    this.cursor?.remove();
  }
}
