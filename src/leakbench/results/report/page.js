// The scorecard: searched, sorted and filtered. Its rows lie in the page as data, so that a browser draws only those it shows.
const packed = Uint8Array.from(atob(document.getElementById("rows").textContent), (letter) => letter.charCodeAt(0));
const rows = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
const columns = JSON.parse(document.getElementById("columns").textContent);
const place = Object.fromEntries(columns.map((column, index) => [column.key, index]));
const text = DataTable.render.text().display;
const badge = (word) => `<span class="badge ${text(word)}">${text(word)}</span>`;
const shown = {
  word: badge,
  // What decides a claim is an expression, which few readers want to see at once.
  what: (value, row) => value === "claim"
    ? `<details><summary>${text(value)}</summary><code>${text(row[place.condition])}</code></details>`
    : `<span class="metric">${text(value)}</span> <span class="light">${text(row[place.condition])}</span>`,
  measured: (value, row) => `<strong>${text(value) || "–"}</strong> <span class="light">${text(row[place.interval])}</span>`,
  reason: (value, row) => `${text(value)} <span class="light">${text(row[place.origin])}</span>` +
    (row[place.examined] ? ` <span class="examined">${text(row[place.examined])}</span>` : ""),
  item: (value, row) => `<a href="#row=${encodeURIComponent(row[place.id])}">${text(row[place.work])} · ${text(value)}</a>`,
};
const numeric = (value) => {
  const number = parseFloat(String(value).replace("−", "-").replace(/,/g, ""));
  return Number.isNaN(number) ? -Infinity : number;
};
const table = new DataTable("#scorecard-table", {
  data: rows,
  columns: columns.map((column) => ({
    title: column.title,
    visible: column.visible,
    className: `${column.key}${column.number ? " num" : ""}`,
    type: column.by_size ? "num" : "string",
    render: (value, type, row) =>
      type === "display" ? (shown[column.key] ?? text)(value, row) : type === "sort" && column.by_size ? numeric(value) : value,
  })),
  deferRender: true,
  order: [],
  pageLength: 25,
  lengthMenu: [25, 100, 500],
  layout: { topStart: null, topEnd: null, top: "search", bottomStart: "info", bottom: "pageLength", bottomEnd: "paging" },
  createdRow: (element, row) => { element.dataset.id = row[place.id]; },
  language: { search: "Search ", lengthMenu: "_MENU_ rows a page", info: "_START_ to _END_ of _TOTAL_ rows",
              infoFiltered: "(all: _MAX_)", infoEmpty: "no row", emptyTable: "no row", zeroRecords: "No row fits." },
});
const chosen = document.querySelectorAll("#filters select");
const narrow = (select) => {
  const value = select.value;
  table.column(place[select.name]).search(value ? (cell) => cell === value : "");
};
for (const select of chosen) {
  const values = [...new Set(rows.map((row) => row[place[select.name]]))].filter(Boolean).sort();
  for (const value of values) select.add(new Option(value, value));
  if (values.includes(select.dataset.first)) { select.value = select.dataset.first; narrow(select); }
  select.addEventListener("change", () => { narrow(select); table.draw(); });
}
table.draw();
const open = () => {
  const [kind, id] = location.hash.slice(1).split("=");
  if (kind !== "row" && kind !== "paper") {
    // The browser's way back from a link to one row leads to all rows again.
    if (table.column(place.id).search()) table.column(place.id).search("").draw();
    return;
  }
  // The counts by paper are of the rows that are shown at first.
  const first = (select) => kind === "paper" && [...select.options].some((option) => option.value === select.dataset.first);
  for (const select of chosen) { select.value = first(select) ? select.dataset.first : ""; narrow(select); }
  const asked = decodeURIComponent(id);
  table.search("").column(place.id).search(kind === "row" ? (cell) => cell === asked : "");
  if (kind === "paper") { const paper = document.querySelector("#filters [name=work]"); paper.value = asked; narrow(paper); }
  table.draw();
  document.getElementById("filters").scrollIntoView();
};
addEventListener("hashchange", open);
open();
document.getElementById("show-all").addEventListener("click", () => {
  for (const select of chosen) { select.value = ""; narrow(select); }
  table.search("").column(place.id).search("").draw();
  history.replaceState(null, "", "#scorecard");
});
// On paper nothing can be opened. Every row is printed only where that is asked for.
if (location.search === "?print=all") {
  document.documentElement.classList.add("all");
  addEventListener("beforeprint", () => table.page.len(-1).draw());
  addEventListener("afterprint", () => table.page.len(25).draw());
}
