// Replaces the progress of a current run every few seconds while the page is visible. Without it the page shows the
// progress as of when it was loaded.
"use strict";
(() => {
  const part = document.getElementById("live");
  if (!part) return;
  const next = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(part.dataset.from, { redirect: "error", cache: "no-store" });
        if (answer.status === 204) { location.reload(); return; }
        if (answer.ok) part.innerHTML = await answer.text();
      } catch { /* the next try may succeed */ }
    }
    setTimeout(next, 3000);
  };
  setTimeout(next, 3000);
})();
