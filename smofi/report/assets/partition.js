// The clients' data: a column each, the largest first; above its size, below the mix of its classes.
function drawPartition(section, setup) {
  const figure = section.querySelector('[data-figure="partition"]');
  if (!figure) return;
  const place = figure.querySelector(".plot"), { sizes, clients, batch, classes, counts } = setup.partition;
  const keys = d3.select(figure).insert("div", "figcaption").attr("class", "legend");
  for (const one of classes) {
    const key = keys.append("span").attr("class", "key");
    swatch(key, one.colour);
    key.append("span").text(one.name);
  }
  const tip = new Tip(place);
  let at = null, x, layout;

  const boxes = (low, high) => sizes.map((_, i) => {
    const gap = x.step() > 6 ? 1 : 0, left = x(i) + gap / 2, wide = Math.max(0.3, x.step() - gap);
    return high(i) === low(i) ? "" : `M${left.toFixed(1)} ${low(i).toFixed(1)}V${high(i).toFixed(1)}h${wide.toFixed(1)}V${low(i).toFixed(1)}z`;
  }).join("");

  function draw() {
    const width = widthOf(place), above = 120, below = classes.length ? 150 : 0, left = 52, right = 14, top = 24;
    const height = top + above + (below ? below + 34 : 0) + 28;
    const svg = drawing(place, width, height);
    x = d3.scaleBand(d3.range(sizes.length), [left, width - right]);
    const y = d3.scaleLinear([0, Math.max(d3.max(sizes), batch)], [top + above, top]).nice(4);
    layout = { svg, width, left, right, top, bottom: height - 28 };
    const lines = svg.append("g").attr("class", "grid").selectAll("line").data(y.ticks(4)).join("line");
    lines.attr("x1", left).attr("x2", width - right).attr("y1", y).attr("y2", y);
    svg.append("g").attr("class", "axis").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).ticks(4, ",d").tickSize(0).tickPadding(8));
    svg.append("text").attr("class", "name").attr("x", 0).attr("y", 11).text("samples");
    svg.append("path").attr("class", "fill").style("--colour", "#56B4E9").attr("d", boxes(() => y(0), i => y(sizes[i])));
    svg.append("path").attr("class", "fill").style("--colour", "#D55E00").attr("d", boxes(() => y(0), i => sizes[i] < batch ? y(sizes[i]) : y(0)));
    svg.append("line").attr("class", "target").attr("x1", left).attr("x2", width - right).attr("y1", y(batch)).attr("y2", y(batch));
    svg.append("text").attr("x", width - right).attr("y", y(batch) - 4).attr("class", "halo").attr("text-anchor", "end").text(`one batch, ${batch}`);
    if (below) mix(svg, width, left, right, top + above + 34, below);
    svg.append("text").attr("x", width - right).attr("y", height - 8).attr("text-anchor", "end").text("clients, largest first");
    layout.cursor = svg.append("g");
    svg.append("rect").attr("class", "sensor").attr("x", left).attr("y", top).attr("width", width - left - right).attr("height", height - 28 - top).attr("fill", "transparent")
      .on("pointermove pointerdown", event => {
        const [across, down] = d3.pointer(event, svg.node());
        show(Math.floor((across - left) / x.step()), down, false);
      })
      .on("pointerleave", leave);
    leave();
  }

  function mix(svg, width, left, right, top, height) {
    const y = d3.scaleLinear([0, 1], [top + height, top]);
    svg.append("text").attr("class", "name").attr("x", 0).attr("y", top - 7).text("classes");
    svg.append("g").attr("class", "axis").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).ticks(4, "%").tickSize(0).tickPadding(8));
    const below = sizes.map(() => 0);
    classes.forEach((one, group) => {
      const from = [...below];
      sizes.forEach((size, i) => { below[i] += size ? counts[group][i] / size : 0; });
      svg.append("path").attr("class", "fill").style("--colour", one.colour).attr("d", boxes(i => y(from[i]), i => y(below[i])));
    });
  }

  function show(client, top, aloud) {
    at = Math.max(0, Math.min(sizes.length - 1, client));
    const { svg, cursor, width, top: above, bottom } = layout, scale = place.clientWidth / width;
    cursor.selectAll("*").remove();
    cursor.append("rect").attr("class", "selection").attr("x", x(at)).attr("y", above).attr("width", Math.max(2, x.step())).attr("height", bottom - above);
    const rows = classes.map((one, group) => [key => swatch(key, one.colour), one.name, counts[group][at]]).filter(([, , count]) => count)
      .sort((a, b) => b[2] - a[2]).map(([key, name, count]) => [key, name, `${d3.format(",")(count)}, ${d3.format(".0%")(count / sizes[at])}`]);
    const name = /^\d/.test(clients[at]) ? `client ${clients[at]}` : clients[at];
    tip.show(`${name}: ${d3.format(",")(sizes[at])} samples`, rows, scale * x(at), scale * (top ?? above), aloud);
  }

  function leave() {
    at = null;
    layout.cursor.selectAll("*").remove();
    tip.hide();
  }

  readable(place, `Samples of ${sizes.length} clients. Arrow keys read them.`, by => show((at ?? (by > 0 ? -1 : sizes.length)) + by, null, true), { Escape: leave });
  place.addEventListener("blur", leave);
  whenResized(place, draw);
  draw();
  return draw;
}
