// The page works without scripts. With them: keys, copy buttons, times in the reader's zone, and charts to drag over.
"use strict";
document.documentElement.classList.add("js");

// j and k move down and up in the list, / focuses the text filter.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (event.key === "/") {
    const field = document.querySelector('input[name="grep"]');
    if (field) {
      event.preventDefault();
      field.focus();
    }
    return;
  }
  if (event.key !== "j" && event.key !== "k") return;
  const links = [...document.querySelectorAll("table.lines td.time a")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = event.key === "j" ? Math.min(at + 1, links.length - 1) : Math.max(at - 1, 0);
  links[next].focus();
});

// Copy buttons.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
  } catch {
    button.classList.add("failed");
  }
});

// Times are written in UTC. The reader may switch to the zone of the browser, which keeps the choice.
const zoneKey = "egress.zone";
const pad = (number) => String(number).padStart(2, "0");
const isLocal = () => localStorage.getItem(zoneKey) === "local";
function showTimes(root) {
  const local = isLocal();
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.dataset.utc ??= time.textContent;
    const day = time.querySelector(".day");
    const clock = time.querySelector(".clock");
    const date = local ? [at.getFullYear(), at.getMonth() + 1, at.getDate()] : [at.getUTCFullYear(), at.getUTCMonth() + 1, at.getUTCDate()];
    const hour = local ? [at.getHours(), at.getMinutes(), at.getSeconds()] : [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()];
    if (day) day.textContent = `${date[0]}-${pad(date[1])}-${pad(date[2])}`;
    if (clock) clock.textContent = hour.slice(0, "seconds" in clock.dataset ? 3 : 2).map(pad).join(":");
  }
  for (const zone of root.querySelectorAll(".zone")) zone.textContent = local ? "local" : "UTC";
}
document.addEventListener("click", (event) => {
  if (!event.target.closest("button.zone-switch")) return;
  localStorage.setItem(zoneKey, isLocal() ? "utc" : "local");
  showTimes(document);
});
document.addEventListener("DOMContentLoaded", () => showTimes(document));
document.addEventListener("htmx:afterSwap", () => showTimes(document));

// Charts: the column under the pointer says its numbers; dragging over columns leads to their lines.
let dragged = null;
const columnOf = (event) => event.target.closest && event.target.closest("svg a[data-since]");
document.addEventListener("pointerover", (event) => {
  const column = columnOf(event);
  if (!column) return;
  const readout = column.closest("figure").querySelector(".readout");
  if (readout) readout.textContent = column.querySelector("title").textContent;
  if (!dragged || dragged.closest("svg") !== column.closest("svg")) return;
  const columns = [...column.closest("svg").querySelectorAll("a[data-since]")];
  const [from, to] = [columns.indexOf(dragged), columns.indexOf(column)].sort((a, b) => a - b);
  columns.forEach((each, place) => each.classList.toggle("chosen", place >= from && place <= to));
});
document.addEventListener("pointerdown", (event) => {
  dragged = columnOf(event);
  if (dragged) event.preventDefault();
});
document.addEventListener("pointerup", (event) => {
  const [from, to] = [dragged, columnOf(event)];
  dragged = null;
  if (!from || !to || from === to || from.closest("svg") !== to.closest("svg")) return;
  const [first, last] = from.dataset.since < to.dataset.since ? [from, to] : [to, from];
  const address = new URL(first.getAttribute("href"), location.href);
  address.searchParams.set("since", first.dataset.since);
  address.searchParams.set("until", last.dataset.until);
  location.assign(address);
});
document.addEventListener("dragstart", (event) => {
  if (columnOf(event)) event.preventDefault();
});
