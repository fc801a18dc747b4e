// Before anything is drawn, so that no page flashes in the wrong colours: the theme that was chosen last time.
try {
  const theme = JSON.parse(localStorage.getItem("attendo.theme"));
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // A browser that remembers nothing follows the system.
}
