// A round of each method, side by side over the same seconds: what every client does when.
const WORK = { compute: ["computing", "#0072B2"], up: ["sending", "#E69F00"], server: ["server", "#009E73"], down: ["receiving", "#56B4E9"], latency: ["latency", "#CC79A7"] };
const UNITS = 1000, BAR = 100; // as smofi draws them

function drawTimeline(section, setup) {
  const figure = section.querySelector('[data-figure="timeline"]');
  if (!figure) return;
  const keys = d3.select(figure).insert("div", ".plot").attr("class", "legend");
  const done = Object.entries(WORK).filter(([kind]) => kind !== "latency" || setup.timelines.some(round => round.paths[kind]));
  for (const [kind, [name, colour]] of [...done, ["waiting", ["waiting", null]]]) {
    const key = keys.append("span").attr("class", "key");
    swatch(key, colour, kind);
    key.append("span").text(name);
  }
  const longest = d3.max(setup.timelines, round => round.seconds);
  const places = d3.select(figure).select(".plot").attr("class", "multiples wide");
  const draws = setup.timelines.map(round => drawRound(places.append("div").attr("class", "plot").node(), round, longest));
  return () => draws.forEach(draw => draw());
}

function drawRound(place, round, longest) {
  const line = 16, above = 42, { clients } = round, tip = new Tip(place);
  const some = round.all > clients.length ? `, ${clients.length} of ${round.all} shown` : "";
  let at = null, width, cursor;

  function draw() {
    width = widthOf(place, 2);
    const left = 84, right = 14, bottom = above + line * clients.length;
    const svg = drawing(place, width, bottom + 30), x = d3.scaleLinear([0, longest], [left, width - right]);
    svg.append("text").attr("class", "name").attr("x", 0).attr("y", 16).text(shorten(round.method, width / 8));
    svg.append("text").attr("x", 0).attr("y", 33).text(`${round.took}; clients wait ${percent(round.idle)} of it${some}`);
    const group = svg.append("g").attr("transform", `translate(${left},${above}) scale(${(x(round.seconds) - left) / UNITS},${line / BAR})`);
    group.append("path").attr("class", "fill waiting").attr("d", round.paths.waiting);
    for (const [kind, [, colour]] of Object.entries(WORK)) group.append("path").attr("class", "fill").style("--colour", colour).attr("d", round.paths[kind]);
    clients.forEach((client, row) => {
      const name = shorten(client.fate ? `✕ ${client.name}` : client.name, 12);
      svg.append("text").attr("x", left - 8).attr("y", above + (row + 0.76) * line).attr("text-anchor", "end").text(name);
    });
    svg.append("line").attr("class", "cursor").attr("x1", x(round.seconds)).attr("x2", x(round.seconds)).attr("y1", above).attr("y2", bottom);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${bottom})`)
      .call(d3.axisBottom(x).ticks(4).tickFormat(value => `${plain(value)} s`).tickSizeOuter(0));
    cursor = svg.append("rect").attr("class", "selection").attr("x", 0).attr("width", width - right).attr("height", 0);
    svg.append("rect").attr("class", "sensor").attr("x", 0).attr("y", above).attr("width", width).attr("height", line * clients.length).attr("fill", "transparent")
      .on("pointermove pointerdown", event => {
        const [across, down] = d3.pointer(event, svg.node());
        show(Math.floor((down - above) / line), across, false);
      })
      .on("pointerleave", leave);
    leave();
  }

  function show(row, across, aloud) {
    at = Math.max(0, Math.min(clients.length - 1, row));
    const client = clients[at], scale = place.clientWidth / width, top = above + at * line;
    cursor.attr("y", top).attr("height", line);
    const rows = [[null, "works", `${plain(client.busy)} s`], [null, "waits", percent(client.idle)], [null, "steps", client.steps]];
    if (client.fate) rows.push([null, "in the end", client.fate]);
    tip.show(client.name, rows, scale * (across ?? 90), scale * top + 20, aloud);
  }

  function leave() {
    at = null;
    cursor.attr("height", 0);
    tip.hide();
  }

  const label = `${round.method}, round ${round.round}: ${round.took}. Arrow keys read one client after the other.`;
  readable(place, label, by => show((at ?? (by > 0 ? -1 : clients.length)) + by, null, true), { Escape: leave });
  place.addEventListener("blur", leave);
  whenResized(place, draw);
  draw();
  return draw;
}
