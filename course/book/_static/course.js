// A link can lead into a folded section: unfold what hides its target.
function unfoldTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
  target.scrollIntoView();
}

window.addEventListener("DOMContentLoaded", unfoldTarget);
window.addEventListener("hashchange", unfoldTarget);
