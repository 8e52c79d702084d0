"use strict";
// Before anything is painted, so that no page flashes in the other theme.
try {
  document.documentElement.dataset.theme = localStorage.getItem("holdfast-theme") || "auto";
  document.documentElement.dataset.density = localStorage.getItem("holdfast-density") || "normal";
} catch {
  // A browser that keeps nothing shows the theme of its system.
}
document.documentElement.classList.add("scripted");
