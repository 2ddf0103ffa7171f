// The picture that the server sends, kept up to date, and the connection, which comes back by itself.
const SILENCE = 30, AGAIN = 2, MOST_EVENTS = 300; // seconds without a word, seconds until the next try, events shown
const picture = { headline: "", run: null, now: 0, history: new Map(), clients: new Map(), events: new Map() };
const KEYS = { history: "round", clients: "name", events: "number" };
const chart = new Chart(find("plot"));
const table = new ClientTable(find("clients").querySelector(".box"), find("states"));
let source = null, heard = performance.now(), tried = heard, due = false, measures = "";

function take(changes) {
  for (const [name, key] of Object.entries(KEYS)) {
    if (changes.whole.includes(name)) picture[name].clear();
    for (const item of changes[name]) picture[name].set(item[key], item);
  }
  for (const number of [...picture.events.keys()].slice(0, -MOST_EVENTS)) picture.events.delete(number);
  picture.history = new Map([...picture.history].sort(([a], [b]) => a - b));
  Object.assign(picture, { headline: changes.headline, run: changes.run, now: changes.now });
  heard = performance.now();
  if (!due) requestAnimationFrame(show);
  due = true;
}

// The server's time, by its last message.
const serverTime = () => picture.now + (performance.now() - heard) / 1000;

function show() {
  due = false;
  const { run } = picture;
  setText(find("headline"), picture.headline);
  find("headline").classList.toggle("warnings", run.paused !== null);
  const judged = run.metrics[0], reached = run.latest ? ` · ${shown(run.latest.values[judged.name], judged.share)}` : "";
  document.title = run.rounds ? `${run.state === "running" ? "" : `${run.state} · `}${run.done}/${run.rounds}${reached} · smofi` : "smofi";
  const within = run.ended === null && run.round > run.done && run.steps ? run.step / run.steps : 0;
  Object.assign(find("progress"), { hidden: !run.rounds, value: run.rounds ? Math.min(1, (run.done + within) / run.rounds) : 0 });
  showFacts(run, judged);
  showCurve(run);
  table.show(picture.clients, serverTime());
  showEvents();
}

function showFacts(run, judged) {
  const clients = [...picture.clients.values()], sum = key => clients.reduce((total, one) => total + one[key], 0);
  const joined = clients.filter(one => one.samples !== null);  // not those that were refused at the door
  const connected = joined.filter(one => !["away", "left", "refused"].includes(one.state)).length;
  const latest = run.latest, value = point => shown(point.values[judged.name], judged.share), facts = [];
  const step = run.round > run.done ? `step ${count(run.step)} of ${count(run.steps)}` : "";
  if (run.rounds) facts.push(["Rounds done", `${count(run.done)} of ${count(run.rounds)}`, step]);
  if (latest) facts.push([capital(judged.heading), value(latest), run.best ? `best ${value(run.best)} (round ${count(run.best.round)})` : ""]);
  if (latest && latest.loss !== null) facts.push(["Loss", shown(latest.loss), `training loss ${shown(latest.train_loss)}`]);
  if (run.seconds_per_round !== null) facts.push(["A round takes", duration(run.seconds_per_round), run.seconds_left ? `about ${duration(run.seconds_left)} left` : ""]);
  if (joined.length) facts.push(["Clients connected", `${count(connected)} of ${count(joined.length)}`, run.per_round ? `${count(run.per_round)} take part in a round` : ""]);
  if (sum("bytes_up") + sum("bytes_down")) facts.push(["Clients sent", bytes(sum("bytes_up")), `received ${bytes(sum("bytes_down"))}`]);
  const list = find("facts");
  while (list.children.length > facts.length) list.lastChild.remove();
  facts.forEach(([name, value, note], i) => {
    const place = list.children[i] ?? list.appendChild(make("div", {}, make("dt"), make("dd", {}, make("span"), make("small"))));
    setText(place.querySelector("dt"), name);
    setText(place.querySelector("span"), value);
    setText(place.querySelector("small"), note);
  });
}

function showCurve(run) {
  const offered = [
    ...run.metrics.map(one => ({ ...one, of: point => point.values[one.name] })),
    { name: "loss", heading: "loss", of: point => point.loss }, { name: "train_loss", heading: "training loss", of: point => point.train_loss },
    { name: "seconds", heading: "seconds per round", of: point => point.seconds },
  ];
  const select = find("measure"), names = JSON.stringify(offered);
  if (names !== measures) {
    const chosen = select.selectedIndex;
    select.replaceChildren(...offered.map(one => make("option", {}, capital(one.heading))));
    select.selectedIndex = Math.max(0, Math.min(chosen, offered.length - 1));
    measures = names;
  }
  const one = offered[select.selectedIndex];
  setText(find("curve-title"), capital(one.heading));
  const points = [...picture.history.values()].map(point => [point.round, one.of(point)]).filter(([, value]) => value !== null && value !== undefined);
  find("curve-note").hidden = points.length > 0;
  const drawn = JSON.stringify([one.heading, points]);
  if (drawn !== chart.drawn) chart.show(points, one.heading, Boolean(one.share));
  chart.drawn = drawn;
}

function showEvents() {
  const list = find("happened"), events = [...picture.events.values()], last = Number(list.dataset.last ?? 0);
  const newest = events.at(-1)?.number ?? 0;
  if (newest < last) list.replaceChildren();
  for (const one of events.filter(event => event.number > (newest < last ? 0 : last))) {
    const time = make("time", { datetime: new Date(1000 * one.time).toISOString() }, moment(one.time));
    const badge = one.level === "info" ? [] : [make("span", { class: one.level === "error" ? "badge bad" : "badge warning" }, one.level)];
    list.prepend(make("li", {}, time, make("span", {}, ...badge, one.text)));
  }
  while (list.children.length > MOST_EVENTS) list.lastChild.remove();
  list.dataset.last = newest;
  list.hidden = !events.length;
  find("no-events").hidden = events.length > 0;
}

function live(is, why = "") {
  const badge = find("connection"), notice = find("lost");
  setText(badge, is ? "live" : "connection lost");
  badge.className = is ? "badge" : "badge bad";
  if (!is && (why || notice.hidden)) {
    const from = picture.run ? " What is below is from then." : "";
    setText(notice, why || `The connection to the server was lost at ${moment(Date.now() / 1000)}.${from} This page comes back by itself.`);
  }
  notice.hidden = is;
}

function connect() {
  source?.close();
  source = new EventSource("events");
  tried = performance.now();
  source.onmessage = event => { take(JSON.parse(event.data)); live(true); };
  source.onerror = () => {
    live(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(askAgain, 1000 * AGAIN); // the server answered, but not with events
  };
}

// Why there are no events is said by the answer's number, which a stream of events does not tell.
async function askAgain() {
  const answer = await fetch("healthz").then(() => fetch("status.json", { method: "HEAD" })).catch(() => null);
  if (answer?.status !== 401) return connect();
  live(false, "The server asks for its token: open the address that it gave when it started.");
  setTimeout(askAgain, 1000 * SILENCE); // another tab may have been given it
}

find("measure").addEventListener("change", () => showCurve(picture.run));
setInterval(() => {
  if (picture.run) table.clock(serverTime());
  if (performance.now() - Math.max(heard, tried) > 1000 * SILENCE && source.readyState !== EventSource.CLOSED) { live(false); connect(); }
}, 1000);
connect();
