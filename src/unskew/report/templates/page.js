"use strict";
(() => {
  const said = document.getElementById("said");

  // Charts: colours are the page's variables, so light, dark and print need no redrawing.
  const specs = JSON.parse(document.getElementById("charts").textContent);
  for (const place of document.querySelectorAll("[data-chart]")) {
    const spec = specs[Number(place.dataset.chart)];
    window
      .vegaEmbed(place, spec, { actions: false, renderer: "svg", ast: true, tooltip: { offsetX: 12 } })
      .catch((error) => { place.textContent = "This figure could not be drawn: " + error.message; });
  }

  // Sorting: numbers by their value, text by the reader's alphabet; what has no value stays at the end.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : cell.dataset.value;
  };
  const compare = (numeric, down) => (a, b) => {
    const missing = (value) => value === "" || value === "–";
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    const order = numeric ? Number(a) - Number(b) : a.localeCompare(b, undefined, { numeric: true });
    return down ? -order : order;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const numeric = head.classList.contains("number");
        const now = head.getAttribute("aria-sort");
        const down = now === "none" ? numeric : now === "ascending";
        const body = table.tBodies[0];
        const order = compare(numeric, down);
        const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
        rows.sort((a, b) => order(a[0], b[0]));
        body.append(...rows.map((pair) => pair[1]));
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        said.textContent = "Sorted by " + head.textContent.trim() + (down ? ", descending" : ", ascending");
      });
    });
  }

  // Copying: the clipboard where the browser allows it, else the old way.
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      area.className = "visually-hidden";
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      await copy(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied";
      said.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
  }

  // Paper cannot be clicked: what is folded away is printed unfolded.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((part) => { part.open = true; });
  });
  window.addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
})();
