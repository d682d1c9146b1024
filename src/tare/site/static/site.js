"use strict";
// The keyboard: / goes to the search, and an empty filter does not fill the address.
addEventListener("keydown", event => {
  const typing = event.target.closest && event.target.closest("input, select, textarea");
  const search = document.querySelector(".search input");
  if (event.key === "/" && !typing && search) { event.preventDefault(); search.focus(); }
});
for (const form of document.querySelectorAll("form.filters")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  });
  for (const select of form.querySelectorAll("select")) select.addEventListener("change", () => form.requestSubmit());
}
