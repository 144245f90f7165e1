// What moves on the page: tooltips, highlighting one job everywhere, sorting a table.
(function () {
  "use strict";

  const tip = document.getElementById("tip");
  const known = {};

  // What a run's charts say of its jobs: JSON in the run's own section.
  function infoOf(run) {
    if (!(run.id in known)) {
      const box = run.querySelector("script[type='application/json']");
      known[run.id] = box ? JSON.parse(box.textContent) : null;
    }
    return known[run.id];
  }

  function textOf(target, event) {
    if (target.dataset.t) {
      return target.dataset.t;
    }
    const run = target.closest("[data-run]");
    const info = run && infoOf(run);
    const job = target.dataset.j;
    if (!info || job === undefined || !info.jobs[job]) {
      return "";
    }
    let text = info.jobs[job][0] + "\n" + info.jobs[job][1];
    const svg = target.ownerSVGElement;
    if (svg && svg.closest(".gantt")) {
      const box = svg.getBoundingClientRect();
      const row = Math.floor(((event.clientY - box.top) / box.height) * info.devices.length);
      const at = info.from + ((event.clientX - box.left) / box.width) * (info.to - info.from);
      text += "\n" + (info.devices[row] || "") + " at " + at.toFixed(at < 100 ? 2 : 1) + " s";
    }
    return text;
  }

  function show(event) {
    const target = event.target.closest && event.target.closest("svg [data-j],svg [data-t]");
    const text = target ? textOf(target, event) : "";
    tip.style.display = text ? "block" : "none";
    if (!text) {
      return;
    }
    tip.textContent = text;
    // Beside the pointer, on its other side where the window ends.
    const x = event.clientX + 14;
    const y = event.clientY + 14;
    const width = tip.offsetWidth;
    const height = tip.offsetHeight;
    tip.style.left = Math.max(4, x + width > innerWidth ? x - width - 28 : x) + "px";
    tip.style.top = Math.max(4, y + height > innerHeight ? y - height - 28 : y) + "px";
  }

  // Everything of one key stands out in all charts of a section.
  function highlight(section, key) {
    section.querySelectorAll("svg").forEach(function (svg) {
      const hits = key ? svg.querySelectorAll("[data-k='" + key + "']") : [];
      svg.querySelectorAll(".on").forEach(function (old) {
        old.classList.remove("on");
      });
      svg.classList.toggle("dim", hits.length > 0);
      hits.forEach(function (hit) {
        hit.classList.add("on");
      });
    });
  }

  function over(event) {
    const hit = event.target.closest && event.target.closest("[data-k]");
    const section = event.target.closest && event.target.closest("[data-run]");
    if (section) {
      highlight(section, hit ? hit.dataset.k : "");
    }
  }

  document.addEventListener("mousemove", show);
  document.addEventListener("mouseover", over);
  document.addEventListener("focusin", over);
  document.addEventListener("mouseleave", function () {
    tip.style.display = "none";
  });

  function valueOf(row, column) {
    const cell = row.cells[column];
    const number = cell.dataset.v;
    return number === undefined ? cell.textContent : parseFloat(number);
  }

  function sort(button) {
    const head = button.closest("th");
    const table = head.closest("table");
    const column = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    const body = table.tBodies[0];
    table.querySelectorAll("th").forEach(function (other) {
      other.removeAttribute("aria-sort");
    });
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    Array.from(body.rows)
      .sort(function (a, b) {
        const x = valueOf(a, column);
        const y = valueOf(b, column);
        // Numbers come first whatever the direction: the others have none.
        if (typeof x !== typeof y) {
          return typeof x === "number" ? -1 : 1;
        }
        const order = typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true });
        return up ? order : -order;
      })
      .forEach(function (row) {
        body.appendChild(row);
      });
  }

  document.querySelectorAll("table.sortable th button").forEach(function (button) {
    button.addEventListener("click", function () {
      sort(button);
    });
  });

  // A link to a run that is folded opens it.
  function unfold() {
    const goal = document.getElementById(location.hash.slice(1));
    if (goal) {
      goal.open = true;
      goal.scrollIntoView();
    }
  }

  addEventListener("hashchange", unfold);
  if (location.hash) {
    unfold();
  }
})();
