// Figures are drawn when they come near the window, and all of them before the page is printed.
const setups = JSON.parse(document.getElementById("data").textContent);
const drawn = new Map();

function drawSetup(section) {
  if (drawn.has(section)) return;
  const setup = setups[section.dataset.setup];
  drawn.set(section, [drawCurves, drawPartition, drawTimeline].map(draw => draw(section, setup)).filter(Boolean));
  section.dataset.drawn = "";
}

const near = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting) { drawSetup(entry.target); near.unobserve(entry.target); }
}, { rootMargin: "600px" });
for (const section of document.querySelectorAll(".setup")) near.observe(section);

let closed = [];
addEventListener("beforeprint", () => {
  printing = true;
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = true;
  for (const section of document.querySelectorAll(".setup")) drawSetup(section);
  for (const draws of drawn.values()) for (const draw of draws) draw();
});
addEventListener("afterprint", () => {
  printing = false;
  for (const one of closed) one.open = false;
  for (const draws of drawn.values()) for (const draw of draws) draw();
});
