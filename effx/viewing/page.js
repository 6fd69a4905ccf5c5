"use strict";
const all = (selector) => [...document.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);

// A value: where it is defined, and where it is used.
let chosen = null;
function choose(value) {
  chosen = chosen === value ? null : value;
  for (const e of all(".value")) e.classList.toggle("used", e.dataset.value === chosen);
}
document.addEventListener("click", (event) => {
  const value = event.target.closest(".value");
  if (!value) return;
  event.preventDefault();  // not the fold that it may stand in
  choose(value.dataset.value);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") choose(null);
  if (event.key === "Enter" && event.target.matches(".value")) choose(event.target.dataset.value);
});

// Searching opens what holds a match.
const rows = all(".equation").map((e) => ({
  equation: e,
  text: e.querySelector(":scope > .row").textContent.toLowerCase().replace(/\s+/g, " "),
}));
byId("search").addEventListener("input", (event) => {
  const wanted = event.target.value.trim().toLowerCase();
  let found = 0;
  for (const { equation, text } of rows) {
    const match = wanted !== "" && text.includes(wanted);
    equation.classList.toggle("match", match);
    equation.classList.toggle("hidden", wanted !== "" && !match);
    if (!match) continue;
    if (++found === 1) equation.scrollIntoView({ block: "center" });
    for (let e = equation.closest("details"); e; e = e.parentElement.closest("details")) e.open = true;
  }
  byId("found").textContent = wanted === "" ? "" : `${found} found`;
});

const fold = (open) => { for (const e of all("details.program")) e.open = open; };
byId("open").addEventListener("click", () => fold(true));
byId("close").addEventListener("click", () => { fold(false); document.querySelector("details.program").open = true; });
byId("types").addEventListener("change", (event) => document.body.classList.toggle("typed", event.target.checked));
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const now = root.style.colorScheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.style.colorScheme = now === "dark" ? "light" : "dark";
});
