// Shows moments in the reader's zone. Everything works without it.
"use strict";
for (const element of document.querySelectorAll("time[datetime]")) {
  const moment = new Date(element.dateTime);
  if (!Number.isNaN(moment.getTime())) {
    element.title = element.textContent;
    element.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
}
