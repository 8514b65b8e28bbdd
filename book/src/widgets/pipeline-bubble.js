// <pipeline-bubble p="4" m="8">: fill, drain and bubble of a pipeline, forward-only or training.
(() => {
  "use strict";

  // Orders and their replay, as lab 04 defines them. An op is [kind, microbatch]; one stage per rank.
  const range = (n) => Array.from({ length: n }, (_, i) => i);
  const orders = {
    forward: (p, m) => range(p).map(() => range(m).map((i) => ["F", i])),
    gpipe: (p, m) => range(p).map(() => [...range(m).map((i) => ["F", i]), ...range(m).map((i) => ["B", i])]),
    "1f1b": (p, m) =>
      range(p).map((rank) => {
        const warmup = Math.min(p - 1 - rank, m);
        const ops = range(warmup).map((i) => ["F", i]);
        for (let i = 0; i < m - warmup; i++) ops.push(["F", warmup + i], ["B", i]);
        for (let i = m - warmup; i < m; i++) ops.push(["B", i]);
        return ops;
      }),
  };
  const TICKS = { F: 1, B: 2 };

  // grid[stage][tick] is an op or null; every op runs as early as its order and its inputs allow.
  const replay = (order) => {
    const last = order.length - 1;
    const done = new Map();
    const key = (kind, stage, i) => `${kind}${stage},${i}`;
    const needs = (kind, stage, i) => {
      if (kind === "F") return stage ? [key("F", stage - 1, i)] : [];
      return stage === last ? [key("F", stage, i)] : [key("F", stage, i), key("B", stage + 1, i)];
    };
    const grid = order.map(() => []);
    const next = order.map(() => 0);
    for (let moved = true; moved; ) {
      moved = false;
      order.forEach((ops, stage) => {
        while (next[stage] < ops.length) {
          const [kind, i] = ops[next[stage]];
          const inputs = needs(kind, stage, i);
          if (!inputs.every((need) => done.has(need))) break;
          const row = grid[stage];
          while (row.length < Math.max(0, ...inputs.map((need) => done.get(need)))) row.push(null);
          for (let t = 0; t < TICKS[kind]; t++) row.push(ops[next[stage]]);
          done.set(key(kind, stage, i), row.length);
          next[stage]++;
          moved = true;
        }
      });
    }
    const width = Math.max(...grid.map((row) => row.length));
    for (const row of grid) while (row.length < width) row.push(null);
    return grid;
  };

  const compute = (p, m, schedule) => {
    const order = orders[schedule](p, m);
    const grid = replay(order);
    const idle = grid.flat().filter((cell) => !cell).length;
    const held = order.map((ops) => {
      let live = 0;
      return Math.max(...ops.map(([kind]) => (live += kind === "F" ? 1 : -1)));
    });
    return { grid, idle, cells: p * grid[0].length, bubble: idle / (p * grid[0].length), held: Math.max(...held) };
  };

  let count = 0;
  class PipelineBubble extends HTMLElement {
    static compute = compute;

    connectedCallback() {
      if (this.ready) return;
      this.ready = true;
      this.classList.add("lab-widget");
      const id = `pipeline-bubble-${++count}`;
      const start = (name, most) => Math.min(most, Math.max(1, parseInt(this.getAttribute(name), 10) || 1));
      this.state = { p: start("p", 8), m: start("m", 64), schedule: "forward" };
      const slider = (name, label, most) =>
        `<div class="row"><label for="${id}-${name}">${label}</label>
         <input id="${id}-${name}" name="${name}" type="range" min="1" max="${most}" value="${this.state[name]}">
         <output for="${id}-${name}">${this.state[name]}</output></div>`;
      this.innerHTML = `<div role="group" aria-label="Pipeline bubble explorer">
        <div class="row"><label for="${id}-schedule">Schedule</label>
          <select id="${id}-schedule" name="schedule">
            <option value="forward">inference: forward passes only</option>
            <option value="gpipe">training: GPipe</option>
            <option value="1f1b">training: 1F1B</option>
          </select></div>
        ${slider("p", "Stages p", 8)}${slider("m", "Microbatches m", 64)}
        <svg role="img"></svg>
        <p class="key"></p>
        <p class="status" role="status"></p></div>`;
      this.addEventListener("input", (event) => {
        const { name, value } = event.target;
        this.state[name] = name === "schedule" ? value : +value;
        if (name !== "schedule") event.target.nextElementSibling.value = value;
        this.draw();
      });
      this.draw();
      addEventListener("resize", () => this.draw());
    }

    draw() {
      const { p, m, schedule } = this.state;
      const { grid, idle, cells, bubble, held } = compute(p, m, schedule);
      const svg = this.querySelector("svg");
      const [left, high] = [56, 24];
      const full = svg.parentElement.clientWidth || 640; // in pixels, so that labels keep their size
      const wide = Math.min(34, (full - left) / grid[0].length);
      svg.setAttribute("viewBox", `0 0 ${full} ${p * high}`);
      const forward = schedule === "forward";
      const look = (op) => (!op ? "idle" : forward ? `c${op[1] % 6}` : op[0] === "F" ? "c0" : "c1");
      const cell = (op, x, y) => {
        const label = op && `${forward ? "" : op[0]}${op[1]}`;
        const place = `x="${left + (x + 0.5) * wide}" y="${(y + 0.5) * high}"`;
        const text = label && wide >= 4 + 7 * label.length ? `<text class="on" ${place} font-size="11">${label}</text>` : "";
        return `<rect class="${look(op)}" x="${left + x * wide}" y="${y * high}" width="${wide}" height="${high}"/>${text}`;
      };
      svg.innerHTML = grid
        .map((row, y) => {
          const name = `<text x="0" y="${(y + 0.68) * high}" font-size="12">stage ${y}</text>`;
          return name + row.map((op, x) => cell(op, x, y)).join("");
        })
        .join("");
      this.querySelector(".key").innerHTML = forward
        ? `<span>One colour per microbatch</span><span><i class="kidle"></i>idle</span>`
        : `<span><i class="k0"></i>forward</span><span><i class="k1"></i>backward (takes two ticks)</span><span><i class="kidle"></i>idle</span>`;
      svg.setAttribute("aria-label", `${p} stages over ${grid[0].length} ticks: ${idle} of ${cells} cells are idle.`);
      const memory = schedule === "forward" ? "" : ` The first stage holds up to ${held} activation${held > 1 ? "s" : ""}.`;
      this.querySelector(".status").textContent =
        `${p} stage${p > 1 ? "s" : ""}, ${m} microbatch${m > 1 ? "es" : ""}: the bubble is ${idle} of ${cells} cells, ${(100 * bubble).toFixed(1)}%.${memory}`;
    }
  }
  customElements.define("pipeline-bubble", PipelineBubble);
})();
