// Figures take the places of their still pictures when the page has loaded, and are drawn for paper before it is printed.
const setups = JSON.parse(document.getElementById("data").textContent);
const draws = [...document.querySelectorAll(".setup")].flatMap(section => {
  for (const still of section.querySelectorAll(".still")) still.remove();
  const drawn = [drawCurves, drawPartition, drawTimeline].map(draw => draw(section, setups[section.dataset.setup]));
  section.dataset.drawn = "";
  return drawn.filter(Boolean);
});

let closed = [];
function print(begins) {
  printing = begins;
  if (begins) closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = begins;
  for (const draw of draws) draw();
}
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
