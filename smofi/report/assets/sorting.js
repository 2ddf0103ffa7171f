// Tables are sorted by the column whose heading is pressed, the other way round when it is pressed again.
function sortTable(table, column) {
  const head = table.tHead.rows[0].cells[column], body = table.tBodies[0];
  const numeric = head.classList.contains("number");
  // of numbers the largest first: what is best, or takes most, is looked for more often
  const first = numeric ? "descending" : "ascending";
  const other = numeric ? "ascending" : "descending";
  const order = head.getAttribute("aria-sort") === first ? other : first;
  const sign = order === "ascending" ? 1 : -1;
  const value = row => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.trim();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const compare = (a, b) => {
    const [one, two] = [value(a), value(b)];
    if (one === null || two === null) return (one === null) - (two === null);
    return sign * (numeric ? one - two : one.localeCompare(two, "en", { numeric: true }));
  };
  body.append(...[...body.rows].sort(compare));
  for (const cell of table.tHead.rows[0].cells) cell.setAttribute("aria-sort", cell === head ? order : "none");
}

for (const table of document.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    cell.querySelector("button").addEventListener("click", () => sortTable(table, column));
  });
}
