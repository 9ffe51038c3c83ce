// Tooltips for the charts, and legends that highlight an arm. The charts are complete without this script.
"use strict";

(() => {
  const OFFSET = 14; // pixels between pointer and tooltip
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;

  // The title of the element under the pointer or of a group around it, moved so that the browser shows no second tooltip.
  function textAt(element) {
    for (let one = element; one instanceof SVGElement; one = one.parentNode) {
      const title = [...one.children].find((child) => child.localName === "title");
      if (title) {
        one.dataset.tip = title.textContent;
        title.remove();
      }
      if (one.dataset.tip) return one.dataset.tip;
    }
    return "";
  }

  function point(event) {
    const text = textAt(event.target);
    tip.hidden = !text;
    if (!text) return;
    if (tip.textContent !== text) tip.textContent = text;
    const { width, height } = tip.getBoundingClientRect();
    const right = event.clientX + OFFSET;
    const x = right + width < document.documentElement.clientWidth ? right : Math.max(4, event.clientX - OFFSET - width);
    const y = Math.max(4, event.clientY - OFFSET - height);
    tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
  }

  function showOnly(chart, name) {
    chart.toggleAttribute("data-only", Boolean(name));
    if (name) chart.dataset.only = name;
    for (const one of chart.querySelectorAll(".area, .dots, .part")) {
      one.classList.toggle("dim", Boolean(name) && !one.classList.contains(name));
    }
    for (const key of chart.querySelectorAll("[data-key]")) {
      key.setAttribute("aria-pressed", String(key.dataset.key === name));
    }
  }

  document.addEventListener("click", (event) => {
    const key = event.target.closest("[data-key]");
    if (!key) return;
    const chart = key.closest(".chart");
    showOnly(chart, chart.dataset.only === key.dataset.key ? "" : key.dataset.key);
  });
  document.addEventListener("prudent:replaced", () => {
    for (const chart of document.querySelectorAll(".chart[data-only]")) showOnly(chart, chart.dataset.only);
  });
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, point);
  const hide = () => { tip.hidden = true; };
  document.addEventListener("scroll", hide, true);
  document.documentElement.addEventListener("pointerleave", hide);
  document.addEventListener("DOMContentLoaded", () => document.body.append(tip));
})();
