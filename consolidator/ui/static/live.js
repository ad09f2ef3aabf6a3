// Adds what comes in a session while it is watched; answers grow as they are written. The page works without it.
"use strict";
const list = document.querySelector("[data-live]");
const state = document.getElementById("status");
const source = new EventSource(list.dataset.live);
const open = new Map();  // message id -> the element of its answer
function show(element) {
  const isAtEnd = window.innerHeight + window.scrollY > document.body.scrollHeight - 400;
  list.append(element);
  if (isAtEnd) element.scrollIntoView({ block: "nearest" });
}
source.addEventListener("piece", (event) => {
  const piece = JSON.parse(event.data);
  let words = open.get(piece.message);
  if (!words) {
    const item = document.createElement("li");
    item.className = "said agent";
    words = document.createElement("div");
    words.className = "words";
    item.append(words);
    open.set(piece.message, words);
    show(item);
  }
  words.textContent += piece.text;
});
source.addEventListener("event", (event) => {
  const said = JSON.parse(event.data);
  if (said.void) {
    for (const words of open.values()) words.parentElement.classList.add("bad");
  }
  if (said.closes) open.clear();
  if (said.html) {
    const template = document.createElement("template");
    template.innerHTML = said.html;  // the server's own, in which all that the log holds is escaped
    const item = template.content.firstElementChild;
    if (item.id && document.getElementById(item.id)) return;
    showTimes(item);
    show(item);
  }
});
source.addEventListener("state", (event) => {
  const said = JSON.parse(event.data);
  state.textContent = said.state;
  document.getElementById("unanswered").hidden = !said.why;
  document.getElementById("why").textContent = said.why;
});
source.addEventListener("end", () => { source.close(); });
