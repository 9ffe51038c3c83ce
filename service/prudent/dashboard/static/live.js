// Keeps the page up to date without losing the reader's place, shows times relative to now, and copies commands.
"use strict";

(() => {
  const EVERY_MS = 5000;
  const COSTLY = 20; // a page that takes long to build is requested less often
  const button = document.getElementById("live");
  let wait = EVERY_MS;
  let timer = null;
  let isOn = true;

  function fromNow(past) {
    const seconds = Math.abs(past);
    if (seconds < 10) return "just now"; // clocks differ by as much
    const [size, name] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([one]) => seconds >= one);
    const length = `${Math.floor(seconds / size)} ${name}`;
    return past < 0 ? `in ${length}` : `${length} ago`;
  }

  const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const SHOWN = {
    seconds: { ...CLOCK, second: "2-digit" },
    minutes: CLOCK,
    days: { ...CLOCK, month: "short", day: "numeric" },
    whole: { ...CLOCK, second: "2-digit", year: "numeric", month: "short", day: "numeric", timeZoneName: "short" },
  };
  const LANGUAGE = document.documentElement.lang;

  function inZone(instant, shown) {
    if (shown !== "zone") return new Intl.DateTimeFormat(LANGUAGE, SHOWN[shown]).format(instant);
    const parts = new Intl.DateTimeFormat(LANGUAGE, { timeZoneName: "short" }).formatToParts(instant);
    return parts.find((part) => part.type === "timeZoneName").value;
  }

  // Times relative to now, and those in charts and tooltips in the reader's zone instead of UTC.
  function showTimes() {
    for (const one of document.querySelectorAll("time[datetime]")) {
      const instant = Date.parse(one.dateTime);
      const text = fromNow((Date.now() - instant) / 1000);
      if (one.textContent !== text) one.textContent = text;
      if (!one.dataset.zoned) one.title = one.dataset.zoned = inZone(instant, "whole");
    }
    for (const one of document.querySelectorAll("[data-utc]")) {
      one.textContent = one.textContent.replace(one.dataset.utc, inZone(Number(one.dataset.instant), one.dataset.shown));
      delete one.dataset.utc;
    }
  }

  function offerCopies() {
    if (!navigator.clipboard) return;
    for (const one of document.querySelectorAll(".copy[hidden]")) one.hidden = false;
  }

  function parts(page) {
    return [...page.querySelectorAll("[data-live]")].map((one) => one.id).join(" ");
  }

  // Replaces what has changed; all of the page if it has other parts now, as with the first decision. What is open stays
  // open, and what has the focus keeps it.
  function replace(fresh) {
    const focused = document.activeElement && document.activeElement.id;
    const changing = parts(fresh) === parts(document) ? "[data-live]" : "main";
    for (const old of document.querySelectorAll(changing)) {
      const next = fresh.getElementById(old.id);
      if (!next || next.innerHTML === old.dataset.text) continue;
      const isFirst = old.dataset.text === undefined;
      old.dataset.text = next.innerHTML;
      if (isFirst && next.innerHTML === old.innerHTML) continue;
      const open = new Set([...old.querySelectorAll("details[open]")].map((one) => one.id));
      old.innerHTML = next.innerHTML;
      for (const one of old.querySelectorAll("details")) one.open = open.has(one.id);
    }
    if (focused && document.activeElement.id !== focused) {
      const again = document.getElementById(focused);
      if (again) again.focus({ preventScroll: true });
    }
    document.dispatchEvent(new Event("prudent:replaced"));
    showTimes();
    offerCopies();
  }

  function say(text, failing) {
    button.textContent = text;
    button.classList.toggle("failing", failing);
  }

  async function refresh() {
    const started = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.redirected) {
        say("Signed out, please reload", true);
        isOn = false;
      } else if (answer.ok) {
        replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
        say("Live", false);
      } else {
        say(`Out of date (HTTP ${answer.status})`, true);
      }
    } catch {
      say("No response, retrying", true);
    }
    document.documentElement.dataset.refreshed = String(Number(document.documentElement.dataset.refreshed || 0) + 1);
    wait = Math.max(EVERY_MS, COSTLY * (performance.now() - started));
    plan();
  }

  function plan() {
    clearTimeout(timer);
    timer = isOn && !document.hidden ? setTimeout(refresh, wait) : null;
  }

  function start() {
    showTimes();
    offerCopies();
    setInterval(showTimes, 10000);
    if (!button || !document.querySelector("[data-live]")) return;
    button.hidden = false;
    button.title = "This page updates itself. Press to stop, press again to resume.";
    button.addEventListener("click", () => {
      isOn = !isOn;
      button.setAttribute("aria-pressed", String(isOn));
      say(isOn ? "Live" : "Stopped", false);
      if (isOn) refresh();
      else plan();
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && isOn) refresh();
      else plan();
    });
    plan();
  }

  document.addEventListener("click", async (event) => {
    const pressed = event.target.closest(".copy");
    if (!pressed) return;
    await navigator.clipboard.writeText(pressed.parentElement.querySelector("code").textContent);
    pressed.textContent = "Copied";
    setTimeout(() => { pressed.textContent = "Copy"; }, 1500);
  });
  document.addEventListener("DOMContentLoaded", start);
})();
