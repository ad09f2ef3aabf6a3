// Shows moments in the reader's zone, and has sliders show what they are moved to. Everything works without it.
"use strict";
function showTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    if (!Number.isNaN(moment.getTime())) {
      element.title = element.textContent;
      element.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    }
  }
}
showTimes(document);

const DAY = 24 * 60 * 60 * 1000;
const AT_REST = 350;  // milliseconds after which a slider is taken to stand where it was meant to
function sendAtRest(range, form) {
  let timer;
  range.addEventListener("change", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { sessionStorage.setItem("slider", range.dataset.name); form.requestSubmit(); }, AT_REST);
  });
}
for (const box of document.querySelectorAll("[data-slider]")) {
  const [date, range] = box.querySelectorAll("input");
  const first = Date.parse(box.dataset.first);
  const days = Math.max(1, Math.round((Date.parse(box.dataset.last) - first) / DAY));
  const dayAt = (value) => new Date(first + value * DAY).toISOString().slice(0, 10);
  range.max = days;
  range.dataset.name = date.name;
  range.value = date.value ? Math.round((Date.parse(date.value) - first) / DAY) : days;
  const show = () => range.setAttribute("aria-valuetext", date.value || "now");
  range.addEventListener("input", () => { date.value = Number(range.value) < days ? dayAt(Number(range.value)) : ""; show(); });
  sendAtRest(range, date.form);
  range.hidden = false;
  show();
}
for (const form of document.querySelectorAll("[data-scrubber]")) {
  const range = form.querySelector("input[type=range]");
  range.dataset.name = range.name;
  range.addEventListener("input", () => { form.querySelector("output").textContent = range.value; });
  sendAtRest(range, form);
}
const moved = sessionStorage.getItem("slider");
sessionStorage.removeItem("slider");
for (const range of document.querySelectorAll("input[type=range]")) {
  if (range.dataset.name === moved) range.focus({ preventScroll: true });  // so that keys go on moving it
}
