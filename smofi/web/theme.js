// Light, dark, or as the system has it. What is chosen is kept where the browser lets a page keep anything.
const themes = ["auto", "light", "dark"];
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");

function keptTheme() {
  try { return localStorage.getItem("smofi-theme"); } catch { return null; }
}

function showTheme(theme) {
  const dark = theme === "dark" || (theme === "auto" && systemDark.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  themeButton.dataset.chosen = theme;
  themeButton.textContent = `Theme: ${theme}`;
}

themeButton.addEventListener("click", () => {
  const next = themes[(themes.indexOf(themeButton.dataset.chosen) + 1) % themes.length];
  try { localStorage.setItem("smofi-theme", next); } catch { /* it is chosen for this visit */ }
  showTheme(next);
});
systemDark.addEventListener("change", () => showTheme(themeButton.dataset.chosen));
showTheme(themes.includes(keptTheme()) ? keptTheme() : "auto");
