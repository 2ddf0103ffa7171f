// A round of each method, one below the other over the same seconds: what every client does when.
const WORK = { compute: ["computing", "#0072B2"], up: ["sending", "#E69F00"], server: ["server", "#009E73"], down: ["receiving", "#56B4E9"], latency: ["latency", "#CC79A7"] };
const UNITS = 1000, BAR = 100; // as smofi draws them

function drawTimeline(section, setup) {
  const figure = section.querySelector('[data-figure="timeline"]');
  if (!figure) return;
  const place = figure.querySelector(".plot"), rounds = setup.timelines;
  const keys = d3.select(figure).insert("div", "figcaption").attr("class", "legend");
  const done = Object.entries(WORK).filter(([kind]) => kind !== "latency" || rounds.some(round => round.paths[kind]));
  for (const [kind, [name, colour]] of [...done, ["waiting", ["waiting", null]]]) {
    const key = keys.append("span").attr("class", "key");
    swatch(key, colour, kind);
    key.append("span").text(name);
  }
  const tip = new Tip(place);
  const lines = rounds.flatMap(round => round.clients.map((client, row) => ({ round, client, row })));
  let at = null, tops, width;

  function draw() {
    width = widthOf(place);
    const left = width < 500 ? 6 : 108, right = 10, line = 16, gap = 44;
    const height = d3.sum(rounds, round => gap + line * round.clients.length) + 26;
    const svg = drawing(place, width, height);
    const longest = d3.max(rounds, round => round.seconds);
    const x = d3.scaleLinear([0, longest], [left, width - right]);
    let top = 0;
    tops = [];
    for (const round of rounds) {
      svg.append("text").attr("class", "name").attr("x", 0).attr("y", top + 20).text(round.method);
      const some = round.all > round.clients.length ? `, ${round.clients.length} of ${round.all} clients` : "";
      svg.append("text").attr("x", 0).attr("y", top + 36).text(`${round.took}; clients wait ${percent(round.idle)} of their time${some}`);
      top += gap;
      const across = (x(round.seconds) - left) / UNITS, group = svg.append("g").attr("transform", `translate(${left},${top}) scale(${across},${line / BAR})`);
      group.append("path").attr("class", "fill waiting").attr("d", round.paths.waiting);
      for (const [kind, [, colour]] of Object.entries(WORK)) group.append("path").attr("class", "fill").style("--colour", colour).attr("d", round.paths[kind]);
      round.clients.forEach((client, row) => {
        tops.push(top + row * line);
        if (left < 50) return;
        const name = client.name.length > 15 ? `${client.name.slice(0, 14)}…` : client.name;
        svg.append("text").attr("x", left - 8).attr("y", top + (row + 0.76) * line).attr("text-anchor", "end").text(client.fate ? `✕ ${name}` : name);
      });
      svg.append("line").attr("class", "cursor").attr("x1", x(round.seconds)).attr("x2", x(round.seconds)).attr("y1", top).attr("y2", top + line * round.clients.length);
      top += line * round.clients.length;
    }
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${top})`)
      .call(d3.axisBottom(x).ticks(Math.max(3, Math.round(width / 130))).tickFormat(value => `${plain(value)} s`).tickSizeOuter(0));
    const cursor = svg.append("rect").attr("class", "selection").attr("x", left).attr("width", width - left - right).attr("height", 0);
    tops.cursor = place => cursor.attr("y", place === null ? 0 : tops[place]).attr("height", place === null ? 0 : line);
    svg.append("rect").attr("class", "sensor").attr("x", 0).attr("y", 0).attr("width", width).attr("height", height - 26).attr("fill", "transparent")
      .on("pointermove pointerdown", event => {
        const down = d3.pointer(event, svg.node())[1], found = tops.findIndex(top => down >= top && down < top + line);
        if (found < 0) leave(); else show(found, d3.pointer(event, svg.node())[0], false);
      })
      .on("pointerleave", leave);
    leave();
  }

  function show(place_, across, aloud) {
    at = Math.max(0, Math.min(lines.length - 1, place_));
    const { round, client } = lines[at], scale = place.clientWidth / width;
    tops.cursor(at);
    const rows = [[null, "works", `${plain(client.busy)} s`], [null, "waits", percent(client.idle)], [null, "steps", client.steps]];
    if (client.fate) rows.push([null, "then", client.fate]);
    tip.show(`${round.method}, ${client.name}`, rows, scale * (across ?? 120), scale * tops[at] + 20, aloud);
  }

  function leave() {
    at = null;
    tops.cursor(null);
    tip.hide();
  }

  readable(place, "What clients do in a round. Arrow keys read one after the other.", by => show((at ?? (by > 0 ? -1 : lines.length)) + by, null, true), { Escape: leave });
  place.addEventListener("blur", leave);
  whenResized(place, draw);
  draw();
  return draw;
}
