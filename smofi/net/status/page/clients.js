// The table of clients: rows are changed in place, and stay sorted by the heading that was pressed.
const BADGES = { waiting: "quiet", training: "", evaluating: "", away: "warning", left: "quiet", refused: "bad" };

const COLUMNS = [
  { name: "client", text: one => one.name, value: one => one.name, small: one => one.address },
  { name: "state", text: one => one.state, value: one => Object.keys(BADGES).indexOf(one.state), small: one => one.reason },
  { name: "step", text: one => one.steps ? `${count(one.step)} of ${count(one.steps)}` : "-", value: one => one.step },
  { name: "steps/s", text: one => one.speed === null ? "-" : three(one.speed), value: one => one.speed },
  { name: "sent", text: one => bytes(one.bytes_up), value: one => one.bytes_up },
  { name: "received", text: one => bytes(one.bytes_down), value: one => one.bytes_down },
  { name: "samples", text: one => one.samples === null ? "-" : count(one.samples), value: one => one.samples },
  { name: "last seen", text: (one, now) => seen(one, now), value: one => one.last_seen },
].map((column, place) => ({ ...column, numeric: place > 1 }));

function seen(client, now) {
  if (client.last_seen === null) return "-";
  const ago = Math.max(0, now - client.last_seen);
  return ago < 2 ? "now" : `${duration(Math.floor(ago))} ago`;
}

class ClientTable {
  constructor(box, states) {
    Object.assign(this, { box, states, rows: new Map(), sorted: null, ascending: true });
    const head = box.querySelector("thead tr");
    this.heads = COLUMNS.map((column, place) => {
      const button = make("button", { type: "button" }, column.name);
      button.addEventListener("click", () => this.sortBy(place));
      const cell = make("th", { scope: "col", "aria-sort": "none", class: column.numeric ? "number" : "" }, button);
      return head.appendChild(cell);
    });
  }

  // Of numbers the largest first, as in the reports.
  sortBy(place) {
    this.ascending = this.sorted === place ? !this.ascending : !COLUMNS[place].numeric;
    this.sorted = place;
    this.heads.forEach((cell, i) => cell.setAttribute("aria-sort", i === place ? this.ascending ? "ascending" : "descending" : "none"));
    this.order();
  }

  show(clients, now) {
    this.box.hidden = !clients.size;
    for (const [name, row] of this.rows) if (!clients.has(name)) { row.node.remove(); this.rows.delete(name); }
    for (const [name, client] of clients) {
      if (!this.rows.has(name)) this.rows.set(name, this.row());
      this.rows.get(name).client = client;
    }
    this.clock(now);
    this.count(clients);
    this.order();
  }

  row() {
    const node = make("tr");
    const cells = COLUMNS.map((column, place) => {
      const attributes = { "data-label": column.name, class: column.numeric ? "number" : "" };
      const cell = node.appendChild(make(place ? "td" : "th", place ? attributes : { scope: "row" }));
      const main = cell.appendChild(make("span", place === 1 ? { class: "badge" } : {}));
      return { main, small: column.small ? cell.appendChild(make("small")) : null };
    });
    return { node, cells, client: null };
  }

  // What changes with time alone, too.
  clock(now) {
    for (const { cells, client } of this.rows.values()) {
      COLUMNS.forEach((column, place) => {
        setText(cells[place].main, column.text(client, now));
        if (column.small) { setText(cells[place].small, column.small(client)); cells[place].small.hidden = !column.small(client); }
      });
      const kind = `badge ${BADGES[client.state] ?? ""}`.trim();
      if (cells[1].main.className !== kind) cells[1].main.className = kind;
    }
  }

  count(clients) {
    const found = new Map();
    for (const { state } of clients.values()) found.set(state, (found.get(state) ?? 0) + 1);
    const badges = Object.keys(BADGES).filter(state => found.has(state))
      .map(state => make("span", { class: `badge ${BADGES[state]}`.trim() }, `${count(found.get(state))} ${state}`));
    const text = badges.map(one => one.textContent).join();
    if (this.states.dataset.shown === text) return;
    this.states.dataset.shown = text;
    this.states.replaceChildren(...badges.length ? badges : ["None has joined yet."]);
  }

  order() {
    const rows = [...this.rows.values()];
    const value = this.sorted === null ? one => one.number : COLUMNS[this.sorted].value, sign = this.ascending ? 1 : -1;
    const compare = (a, b) => {
      const [one, two] = [value(a.client), value(b.client)];
      if (one === null || two === null) return (one === null) - (two === null);
      const by = typeof one === "string" ? one.localeCompare(two, "en", { numeric: true }) : one - two;
      return (this.sorted === null ? 1 : sign) * by;
    };
    rows.sort((a, b) => compare(a, b) || a.client.name.localeCompare(b.client.name, "en", { numeric: true }));
    const body = this.box.querySelector("tbody");
    rows.forEach(({ node }, i) => { if (body.rows[i] !== node) body.insertBefore(node, body.rows[i] ?? null); });
  }
}
