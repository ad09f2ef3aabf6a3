// Shows moments in the reader's zone, has sliders show what they are moved to, and finds as one types. Everything works without it.
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

const TYPING = 180;  // milliseconds without a key, after which what was typed is looked for
const find = document.querySelector(".find");
if (find) {
  const field = find.querySelector("input");
  const panel = find.querySelector(".found");
  let timer;
  let asked = 0;
  const close = () => { clearTimeout(timer); asked += 1; panel.hidden = true; };
  const look = async () => {
    const words = field.value.trim();
    const number = asked += 1;
    if (words.length < 2) { panel.hidden = true; return; }
    const answer = await fetch(`${find.action}?part=1&query=${encodeURIComponent(words)}`);
    if (!answer.ok || number !== asked) return;
    panel.innerHTML = await answer.text();  // the server's own, in which all that memory holds is escaped
    panel.hidden = false;
  };
  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, TYPING); });
  find.addEventListener("focusout", (event) => { if (event.relatedTarget && !find.contains(event.relatedTarget)) close(); });
  document.addEventListener("pointerdown", (event) => { if (!find.contains(event.target)) close(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, textarea, select")) {
      event.preventDefault();
      field.select();
    } else if (find.contains(event.target)) {
      const places = [field, ...panel.querySelectorAll("a")];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") { event.preventDefault(); close(); field.focus(); }
      if (step && !panel.hidden) { event.preventDefault(); places.at((places.indexOf(event.target) + step) % places.length).focus(); }
    }
  });
}
