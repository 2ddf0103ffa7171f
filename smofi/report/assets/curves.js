// Curves over rounds or virtual time. All charts of a setup share which methods are seen, the axis, and the zoom.
const MANY = 6; // methods, from which on they can be hidden all at once

class CurveChart {
  constructor(place, chart, state) {
    Object.assign(this, { place, chart, state, at: null, tip: null });
    const label = `${chart.title}. Arrow keys read values, plus and minus zoom, Escape shows all.`;
    readable(place, label, by => this.step(by), {
      "+": () => state.zoomBy(0.5, this.at), "=": () => state.zoomBy(0.5, this.at), "-": () => state.zoomBy(2, this.at),
      "0": () => state.zoomTo(null), Escape: () => { this.leave(); state.zoomTo(null); },
    });
    place.addEventListener("blur", () => this.leave());
    whenResized(place, () => this.draw());
  }

  get series() {
    return this.chart.series.filter(one => !this.state.hidden.has(one.method));
  }

  xs(series) {
    return this.state.axis === "time" ? series.time : series.round;
  }

  extent() {
    const last = d3.max(this.chart.series, one => d3.max(this.xs(one)));
    return this.state.axis === "time" ? [0, last] : [1, Math.max(2, last)];
  }

  draw() {
    const small = this.place.closest(".multiples") !== null, width = widthOf(this.place, small ? 2 : 1);
    const height = Math.round(small ? Math.min(220, 0.62 * width) : Math.max(260, Math.min(420, 0.48 * width)));
    const margin = { top: 10, right: 14, bottom: 40, left: 52 };
    const svg = drawing(this.place, width, height);
    const x = this.x = d3.scaleLinear(this.state.zoom ?? this.extent(), [margin.left, width - margin.right]);
    const y = this.y = d3.scaleLinear(this.heights(x.domain()), [height - margin.bottom, margin.top]);
    Object.assign(this, { width, height, margin, svg });
    this.frame();
    const clip = `clip-${CurveChart.count = (CurveChart.count ?? 0) + 1}`;
    svg.append("clipPath").attr("id", clip).append("rect").attr("x", margin.left - 6).attr("y", margin.top - 6)
      .attr("width", width - margin.left - margin.right + 12).attr("height", height - margin.top - margin.bottom + 12);
    const inside = svg.append("g").attr("clip-path", `url(#${clip})`);
    for (const [place, one] of this.series.entries()) this.curve(inside, one, place);
    this.selection = svg.append("rect").attr("class", "selection").attr("y", margin.top).attr("height", height - margin.top - margin.bottom);
    this.cursor = svg.append("g");
    this.listen();
    this.tip ??= new Tip(this.place);
    this.tip.hide();
  }

  // The values that are to be seen between two places, with some room.
  heights([from, to]) {
    const values = [];
    for (const one of this.series) {
      this.xs(one).forEach((x, i) => {
        if (x >= from && x <= to) values.push(one.low?.[i] ?? one.mean[i], one.high?.[i] ?? one.mean[i]);
      });
    }
    if (!values.length) return [0, 1];
    const [low, high] = d3.extent(values), room = 0.05 * (high - low || Math.abs(high) || 1);
    if (!this.chart.share) return [low - room, high + room];
    return [Math.max(Math.min(0, low), low - room), Math.min(Math.max(1, high), high + room)];  // a share is at most 1
  }

  frame() {
    const { svg, x, y, width, height, margin, state, chart } = this;
    const across = Math.max(3, Math.round(width / 110)), up = Math.max(3, Math.round(height / 60));
    const whole = state.axis === "round" ? x.ticks(across).filter(Number.isInteger) : x.ticks(across);
    svg.append("g").attr("class", "grid").selectAll("line").data(y.ticks(up)).join("line")
      .attr("x1", margin.left).attr("x2", width - margin.right).attr("y1", y).attr("y2", y);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - margin.bottom})`)
      .call(d3.axisBottom(x).tickValues(whole).tickFormat(value => d3.format(",~r")(+value.toPrecision(6))).tickSizeOuter(0).tickPadding(6));
    const ticks = d3.axisLeft(y).ticks(up).tickSize(0).tickPadding(8);
    svg.append("g").attr("class", "axis").attr("transform", `translate(${margin.left},0)`)
      .call(chart.share ? ticks.tickFormat(this.percents(y.ticks(up))) : ticks);
    svg.append("text").attr("x", width - margin.right).attr("y", height - 4).attr("text-anchor", "end").text(state.axisName);
    if (chart.target === undefined || chart.target === null) return;
    const [low, high] = y.domain();
    if (chart.target < low || chart.target > high) return;
    svg.append("line").attr("class", "target").attr("x1", margin.left).attr("x2", width - margin.right).attr("y1", y(chart.target)).attr("y2", y(chart.target));
    svg.append("text").attr("x", width - margin.right).attr("y", y(chart.target) - 5).attr("class", "halo").attr("text-anchor", "end").text(`target ${shown(chart.target, chart.share)}`);
  }

  // Percent with as many decimals as it takes to tell ticks apart.
  percents(ticks) {
    const apart = ticks.length > 1 ? ticks[1] - ticks[0] : 0.1;
    return d3.format(`.${Math.max(0, Math.ceil(-Math.log10(apart) - 2 - 1e-9))}%`);
  }

  curve(inside, one, place) {
    const { x, y } = this, xs = this.xs(one), method = this.state.method(one.method);
    const group = inside.append("g").attr("class", "series").attr("data-method", one.method);
    const points = d3.range(xs.length);
    if (one.low) {
      const area = d3.area(i => x(xs[i]), i => y(one.low[i]), i => y(one.high[i]));
      group.append("path").attr("class", "band").style("--colour", method.colour).attr("d", area(points));
    }
    group.append("path").attr("class", "curve").style("--colour", method.colour).attr("stroke-dasharray", method.dashes || null)
      .attr("d", d3.line(i => x(xs[i]), i => y(one.mean[i]))(points));
    const apart = Math.max(1, Math.floor(xs.length / 8)), first = Math.floor(place * apart / this.series.length);
    for (const i of xs.length === 1 ? [0] : d3.range(first, xs.length, apart)) {
      mark(group.append("g").attr("transform", `translate(${x(xs[i])},${y(one.mean[i])})`), method);
    }
  }

  listen() {
    const { svg, margin, width, height } = this;
    let from = null;
    const inside = event => Math.max(margin.left, Math.min(width - margin.right, d3.pointer(event, svg.node())[0]));
    svg.append("rect").attr("class", "sensor").attr("x", margin.left).attr("y", margin.top).attr("fill", "transparent")
      .attr("width", width - margin.left - margin.right).attr("height", height - margin.top - margin.bottom)
      .on("pointerdown", event => {
        if (event.button) return;
        from = inside(event);
        event.target.setPointerCapture?.(event.pointerId);
      })
      .on("pointermove", event => {
        const to = inside(event);
        if (from !== null) this.selection.attr("x", Math.min(from, to)).attr("width", Math.abs(to - from));
        this.show(this.x.invert(to), d3.pointer(event, svg.node())[1], false);
      })
      .on("pointerup", event => {
        const to = inside(event), [low, high] = [Math.min(from ?? to, to), Math.max(from ?? to, to)];
        from = null;
        this.selection.attr("width", 0);
        if (high - low > 8) this.state.zoomTo([this.x.invert(low), this.x.invert(high)]);
      })
      .on("pointercancel", () => { from = null; this.selection.attr("width", 0); })
      .on("pointerleave", () => { if (from === null) this.leave(); })
      .on("dblclick", () => this.state.zoomTo(null));
  }

  // The place of the point of a curve that is closest to x.
  nearest(one, x) {
    return d3.bisector(value => value).center(this.xs(one), x);
  }

  show(value, top, aloud) {
    const { x, y, state, chart, cursor, margin, height } = this;
    const seen = this.series.map(one => [one, this.nearest(one, value)]);
    if (!seen.length) return;
    const [first, i] = d3.least(seen, ([one, i]) => Math.abs(this.xs(one)[i] - value));
    this.at = this.xs(first)[i];
    cursor.selectAll("*").remove();
    cursor.append("line").attr("class", "cursor").attr("x1", x(this.at)).attr("x2", x(this.at)).attr("y1", margin.top).attr("y2", height - margin.bottom);
    const rows = [];
    for (const [one, i] of seen) {
      const there = this.xs(one)[i];
      if (state.axis === "round" && there !== this.at) continue; // it was not evaluated after this round
      const method = state.method(one.method);
      mark(cursor.append("g").attr("transform", `translate(${x(there)},${y(one.mean[i])})`), method, 60);
      const some = one.low && one.seeds[i] === 1 ? " (1 seed)" : "";
      const spread = one.low && !some ? (one.high[i] - one.low[i]) / 2 : null;
      rows.push([one.mean[i], [key => sample(key, method), method.name, withSpread(one.mean[i], spread, chart.share) + some]]);
    }
    rows.sort((a, b) => b[0] - a[0]);
    const scale = this.place.clientWidth / this.width;
    const heading = state.axis === "round" ? `round ${this.at}` : `${plain(this.at)} ${state.axisUnit}`;
    this.tip.show(heading, rows.map(([, row]) => row), scale * x(this.at), scale * (top ?? margin.top), aloud);
  }

  step(by) {
    const places = [...new Set(this.series.flatMap(one => this.xs(one)))].sort(d3.ascending)
      .filter(value => value >= this.x.domain()[0] && value <= this.x.domain()[1]);
    if (!places.length) return;
    const now = this.at === null ? (by > 0 ? -1 : places.length) : d3.bisector(value => value).center(places, this.at);
    this.show(places[Math.max(0, Math.min(places.length - 1, now + by))], null, true);
  }

  leave() {
    this.at = null;
    this.cursor?.selectAll("*").remove();
    this.tip?.hide();
  }
}

// What all charts of a setup share.
class CurveState {
  constructor(setup) {
    this.setup = setup;
    this.hidden = new Set();
    this.axis = "round";
    this.zoom = null;
    this.charts = [];
    this.changed = () => {};
  }

  method(name) {
    return this.setup.methods.find(one => one.name === name);
  }

  get axisUnit() {
    return this.setup.time;
  }

  get axisName() {
    return this.axis === "time" ? `${this.setup.time} on the clients' devices` : "round";
  }

  draw() {
    for (const chart of this.charts) chart.draw();
    this.changed();
  }

  zoomTo(range) {
    const [low, high] = this.charts[0].extent();
    this.zoom = range && [Math.max(low, range[0]), Math.min(high, range[1])];
    if (this.zoom && (this.zoom[1] - this.zoom[0] <= 0 || (this.zoom[0] <= low && this.zoom[1] >= high))) this.zoom = null;
    this.draw();
  }

  zoomBy(factor, around) {
    const [low, high] = this.zoom ?? this.charts[0].extent(), middle = around ?? (low + high) / 2;
    this.zoomTo([middle - (middle - low) * factor, middle + (high - middle) * factor]);
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.draw();
  }

  toggleAll() {
    this.hidden = new Set(this.hidden.size ? [] : this.setup.methods.map(method => method.name));
    this.draw();
  }

  useAxis(axis) {
    Object.assign(this, { axis, zoom: null });
    this.draw();
  }
}

function controlsOf(figure, state, main) {
  const row = d3.select(figure).insert("div", ".plot").attr("class", "controls");
  const changes = [];
  const left = row.append("div");
  if (state.setup.charts.length > 1) {
    const choice = left.append("label").text("Measure ").append("select");
    choice.selectAll("option").data(state.setup.charts).join("option").text(chart => chart.title).attr("value", (_, i) => i);
    choice.on("change", event => { main.chart = state.setup.charts[event.target.value]; state.draw(); });
  }
  if (state.setup.time) {
    const group = left.append("div").attr("class", "controls").attr("role", "group").attr("aria-label", "Horizontal axis");
    for (const [axis, name] of [["round", "rounds"], ["time", state.setup.time]]) {
      const one = button(group, `over ${name}`, () => state.useAxis(axis)).attr("data-axis", axis);
      changes.push(() => one.attr("aria-pressed", state.axis === axis));
    }
  }
  const right = row.append("div").attr("role", "group").attr("aria-label", "Zoom");
  button(right, "+", () => state.zoomBy(0.5)).attr("aria-label", "Zoom in").attr("data-zoom", "in");
  const out = button(right, "−", () => state.zoomBy(2)).attr("aria-label", "Zoom out").attr("data-zoom", "out");
  const all = button(right, "Show all", () => state.zoomTo(null)).attr("data-zoom", "all");
  changes.push(() => { out.attr("disabled", state.zoom ? null : ""); all.attr("disabled", state.zoom ? null : ""); });
  return changes;
}

function legendOf(figure, state) {
  const row = d3.select(figure).insert("div", ".plot").attr("class", "legend").attr("role", "group").attr("aria-label", "Methods that are shown");
  const many = state.setup.methods.length >= MANY;
  const all = many ? button(row, "", () => state.toggleAll()).attr("data-methods", "all") : null;
  const changes = state.setup.methods.map(method => {
    const one = row.append("button").attr("type", "button").attr("data-method", method.name).on("click", () => state.toggle(method.name));
    sample(one, method);
    breakable(one.append("span"), method.name);
    return () => one.attr("aria-pressed", !state.hidden.has(method.name));
  });
  return [...changes, () => all?.text(state.hidden.size ? "Show all methods" : "Hide all methods")];
}

function drawCurves(section, setup) {
  const figure = section.querySelector('[data-figure="curves"]');
  if (!figure) return;
  const state = new CurveState(setup);
  setup.charts[0].target = setup.target;
  const main = new CurveChart(figure.querySelector(".plot"), setup.charts[0], state);
  const changes = [...controlsOf(figure, state, main), ...legendOf(figure, state)];
  state.changed = () => changes.forEach(change => change());
  state.charts.push(main);
  for (const chart of setup.diagnostics) {
    const small = d3.select(section).select('[data-figure="diagnostics"]').append("figure").attr("aria-label", chart.title);
    small.append("h4").text(chart.title);
    state.charts.push(new CurveChart(small.append("div").attr("class", "plot").node(), chart, state));
  }
  state.draw();
  return () => state.draw();
}
