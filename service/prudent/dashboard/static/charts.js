// Draws the charts of the page, and draws them again when their numbers, the colour scheme or the width change.
"use strict";

window.prudentCharts = (() => {
  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset", scrollZoom: false };
  const drawn = new Map();

  // "var(--name)", or "var(--name)/0.5" for half of it
  function paint(text, style) {
    const [name, opacity] = text.split("/");
    const hex = style.getPropertyValue(name.slice(4, -1)).trim();
    if (!opacity) return hex;
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${red},${green},${blue},${opacity})`;
  }

  function coloured(value, style) {
    if (typeof value === "string" && value.startsWith("var(--")) return paint(value, style);
    if (Array.isArray(value)) return value.map((one) => coloured(one, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, coloured(one, style)]));
    }
    return value;
  }

  function draw(element, text) {
    const figure = JSON.parse(text);
    element.hidden = figure === null;
    if (figure === null) return;
    const painted = coloured(figure, getComputedStyle(document.documentElement));
    painted.layout.dragmode = false; // a finger that moves over a chart scrolls the page
    window.Plotly.react(element, painted.data, painted.layout, CONFIG);
  }

  function drawAll(root, { force = false } = {}) {
    if (!window.Plotly) return;
    for (const element of document.querySelectorAll("[data-figure]")) {
      const source = root.getElementById(element.dataset.figure);
      if (!source) continue;
      const text = source.textContent;
      if (!force && drawn.get(element.id) === text) continue;
      drawn.set(element.id, text);
      draw(element, text);
    }
  }

  function redraw() {
    for (const element of document.querySelectorAll("[data-figure]")) {
      const text = drawn.get(element.id);
      if (text !== undefined) draw(element, text);
    }
  }

  document.addEventListener("DOMContentLoaded", () => drawAll(document));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return { drawAll };
})();
