// On the page of options: a field that leaves only those rows of the table of keys that contain every word.
document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("option-filter");
  if (!place) return;
  let table = place.nextElementSibling;
  while (table && !table.matches("table") && !table.querySelector("table")) table = table.nextElementSibling;
  const rows = [...table.querySelectorAll("tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
  const field = Object.assign(document.createElement("input"), {
    type: "search",
    placeholder: "Filter by key, class or words of the notes, such as: snapshot honoured",
    ariaLabel: "Filter the options",
  });
  const count = document.createElement("output");
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const [row, text] of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${rows.length} keys`;
  };
  field.addEventListener("input", filter);
  place.append(field, count);
  filter();
});
