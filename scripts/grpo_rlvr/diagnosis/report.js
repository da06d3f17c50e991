"use strict";
// Values under the pointer. The page is whole without this script.
const data = JSON.parse(document.getElementById("data").textContent);
const LEFT = 54, RIGHT = 12, WIDTH = 440, TOP = 10, BOTTOM = 174; // as in curves.py

function nearest(steps, step) {
  let low = 0, high = steps.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle; else high = middle;
  }
  return Math.abs(steps[high] - step) < Math.abs(steps[low] - step) ? high : low;
}

for (const figure of document.querySelectorAll("figure[data-panel]")) {
  const svg = figure.querySelector("svg"), out = figure.querySelector("output"), panel = data[figure.dataset.panel];
  const cross = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cross.setAttribute("class", "cross");
  cross.setAttribute("y1", TOP);
  cross.setAttribute("y2", BOTTOM);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * WIDTH;
    const span = Math.max(1, panel.last - panel.first);
    const step = Math.min(panel.last, Math.max(panel.first, panel.first + (x - LEFT) / (WIDTH - LEFT - RIGHT) * span));
    const longest = panel.curves.reduce((a, b) => (b.steps.length > a.steps.length ? b : a));
    const at = longest.steps[nearest(longest.steps, step)];
    const parts = panel.curves.map((curve) => {
      const i = nearest(curve.steps, at);
      return curve.label + " " + curve.values[i] + (curve.steps[i] === at ? "" : " (step " + curve.steps[i] + ")");
    });
    out.textContent = "step " + at + ": " + parts.join(", ");
    const place = LEFT + (at - panel.first) / span * (WIDTH - LEFT - RIGHT);
    cross.setAttribute("x1", place);
    cross.setAttribute("x2", place);
    if (!cross.isConnected) svg.append(cross);
  });
  svg.addEventListener("pointerleave", () => { out.textContent = ""; cross.remove(); });
}
