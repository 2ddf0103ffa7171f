// Numbers and times as people read them, and elements whose content is always text.
const decimals = most => new Intl.NumberFormat("en", { maximumFractionDigits: most });
const counts = decimals(0), tenths = decimals(1), digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

const three = value => new Intl.NumberFormat("en", { maximumSignificantDigits: 3, minimumSignificantDigits: 3 }).format(value);
const count = value => counts.format(value);
const shown = (value, share) => value === null || value === undefined ? "-" : share ? `${(100 * value).toFixed(1)}%` : digits.format(value);

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < units.length - 1) { value /= 1000; place += 1; }
  return `${place ? three(value) : count(value)} ${units[place]}`;
}

function duration(seconds) {
  if (seconds < 10) return `${tenths.format(seconds)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (seconds < 600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (minutes < 60) return `${minutes} min`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${tenths.format(minutes / 1440)} days`;
}

// Of an event: the time, and the day unless it is today.
function moment(seconds) {
  const then = new Date(1000 * seconds), time = then.toLocaleTimeString("en-GB");
  const today = then.toDateString() === new Date().toDateString();
  return today ? time : `${then.toLocaleDateString("sv-SE")} ${time}`;
}

const capital = text => text.charAt(0).toUpperCase() + text.slice(1);
const find = id => document.getElementById(id);

// An element with text, attributes and children. Text is never HTML.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
