// <communication-bill>: a step under tensor parallelism, and what its all-reduces take of it. A step
// has two roofs: it reads the weights once, and it multiplies them once per token.
// Constants come from lab 03 as JSON inside the element; the formulas below are lab 03's.
(() => {
  "use strict";

  const ring = (p, bytes, c, a, busbw) => {
    if (p === 1) return { launch: 0, bytes: 0 };
    const hops = 2 * (p - 1);
    return { launch: c + hops * a, bytes: ((hops / p) * bytes) / busbw };
  };

  const bill = ({
    weight_bytes, num_layers, hidden_size, element_bytes, memory_bytes_per_s, flops_per_s, tp, batch, c_s, a_s, busbw_bytes_per_s,
  }) => {
    const messages = 2 * num_layers;
    const payload = batch * hidden_size * element_bytes;
    const one = ring(tp, payload, c_s, a_s, busbw_bytes_per_s);
    const weights_s = weight_bytes / (tp * memory_bytes_per_s);
    const arithmetic_s = (2 * batch * weight_bytes) / element_bytes / (tp * flops_per_s);
    const step_s = Math.max(weights_s, arithmetic_s);
    const latency_s = messages * one.launch;
    const wire_s = messages * one.bytes;
    const paid_s = latency_s + wire_s;
    return {
      messages,
      payload,
      weights_s,
      arithmetic_s,
      step_s,
      latency_s,
      wire_s,
      paid_s,
      saved_s: step_s * tp - step_s,
      share: paid_s / (paid_s + step_s),
      crossover_bytes: tp === 1 ? 0 : (one_launch(tp, c_s, a_s) * busbw_bytes_per_s * tp) / (2 * (tp - 1)),
    };
  };
  const one_launch = (p, c, a) => c + 2 * (p - 1) * a;

  const TP = [1, 2, 4, 8, 16];
  const BATCH = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
  const bytes = (n) => (n >= 1048576 ? `${(n / 1048576).toPrecision(3)} MiB` : n >= 1024 ? `${(n / 1024).toPrecision(3)} KiB` : `${Math.round(n)} bytes`);
  const time = (s) => (s >= 1e-3 ? `${(s * 1e3).toPrecision(3)} ms` : `${(s * 1e6).toPrecision(3)} µs`);
  const percent = (x) => `${(100 * x).toFixed(x < 0.0995 ? 1 : 0)}%`;

  let count = 0;
  class CommunicationBill extends HTMLElement {
    static bill = bill;

    connectedCallback() {
      if (this.ready) return;
      this.ready = true;
      this.data = JSON.parse(this.querySelector("script[type='application/json']").textContent);
      this.classList.add("lab-widget");
      const id = `communication-bill-${++count}`;
      const first = (table) => Object.keys(table)[0];
      this.state = { model: first(this.data.models), gpu: "H100", link: "NVLink 4", tp: 3, batch: 0 };
      const choice = (name, label, table) =>
        `<div class="row"><label for="${id}-${name}">${label}</label><select id="${id}-${name}" name="${name}">${Object.keys(table)
          .map((key) => `<option${key === this.state[name] ? " selected" : ""}>${key}</option>`)
          .join("")}</select></div>`;
      const slider = (name, label, values) =>
        `<div class="row"><label for="${id}-${name}">${label}</label>
         <input id="${id}-${name}" name="${name}" type="range" min="0" max="${values.length - 1}" value="${this.state[name]}" aria-valuetext="${values[this.state[name]]}">
         <output for="${id}-${name}">${values[this.state[name]]}</output></div>`;
      this.innerHTML = `<div role="group" aria-label="Communication bill">
        ${choice("model", "Model", this.data.models)}${choice("gpu", "GPU", this.data.gpus)}${choice("link", "Link", this.data.links)}
        ${slider("tp", "Tensor-parallel ranks", TP)}${slider("batch", "Tokens per step", BATCH)}
        <svg role="img"></svg>
        <p class="key"><span><i class="k0"></i>reading weights, or multiplying them where that is longer</span><span><i class="k1"></i>all-reduce: latency</span><span><i class="k2"></i>all-reduce: bytes on the wire</span></p>
        <p class="status" role="status"></p><p class="more"></p></div>`;
      this.addEventListener("input", (event) => {
        const { name, value } = event.target;
        if (name === "tp" || name === "batch") {
          this.state[name] = +value;
          const shown = (name === "tp" ? TP : BATCH)[value];
          event.target.setAttribute("aria-valuetext", shown);
          event.target.nextElementSibling.value = shown;
        } else {
          this.state[name] = value;
          if (name === "gpu") {
            this.state.link = this.data.gpus[value].link;
            this.querySelector("[name=link]").value = this.state.link;
          }
        }
        this.draw();
      });
      addEventListener("resize", () => this.draw());
      this.draw();
    }

    // The bill with one end of each range: 0 the lowest, 1 the highest.
    side(c, a, busbw) {
      const { model, gpu, link, tp, batch } = this.state;
      const { c_s, a_s, busbw_bytes_per_s } = this.data.links[link];
      return bill({
        ...this.data.models[model],
        memory_bytes_per_s: this.data.gpus[gpu].memory_bytes_per_s * this.data.achieved_bandwidth,
        flops_per_s: this.data.gpus[gpu].flops_per_s * this.data.achieved_arithmetic,
        tp: TP[tp],
        batch: BATCH[batch],
        c_s: c_s[c],
        a_s: a_s[a],
        busbw_bytes_per_s: busbw_bytes_per_s[busbw],
      });
    }

    draw() {
      const [best, worst] = [this.side(0, 0, 1), this.side(1, 1, 0)];
      // Low latency and low bandwidth make the crossover small; the best box has one and not the other.
      const crossovers = [this.side(0, 0, 0), this.side(1, 1, 1)].map((side) => bytes(side.crossover_bytes));
      const tp = TP[this.state.tp];
      const svg = this.querySelector("svg");
      const width = Math.min(600, Math.max(240, svg.clientWidth || 600)); // so that text keeps its size
      const left = 48;
      const scale = (width - left - 4) / (worst.step_s + worst.paid_s);
      const bar = (side, label, y) => {
        let x = left;
        const part = (seconds, look) => {
          const width = seconds * scale;
          const rect = `<rect class="${look}" x="${x}" y="${y}" width="${width}" height="26"/>`;
          x += width;
          return rect;
        };
        return `<text x="${left - 8}" y="${y + 17}" text-anchor="end" font-size="13">${label}</text>
          ${part(side.step_s, "c0")}${part(side.latency_s, "c1")}${part(side.wire_s, "c2")}
          <text x="${left}" y="${y + 40}" font-size="12">${time(side.step_s + side.paid_s)}: ${percent(side.share)} is all-reduce</text>`;
      };
      svg.setAttribute("viewBox", `0 0 ${width} 96`);
      svg.style.maxWidth = "600px";
      svg.innerHTML = bar(best, "best", 2) + bar(worst, "worst", 50);
      svg.setAttribute("aria-label", `Best case ${time(best.step_s + best.paid_s)} per step, worst case ${time(worst.step_s + worst.paid_s)}.`);
      const work = best.arithmetic_s > best.weights_s ? "multiply" : "read";
      const share = percent(best.share) === percent(worst.share) ? percent(best.share) : `${percent(best.share)} to ${percent(worst.share)}`;
      this.querySelector(".status").textContent =
        tp === 1 ? `One rank: no all-reduce, ${time(best.step_s)} to ${work} the weights.` : `${tp} ranks: all-reduce takes ${share} of reading and messages together.`;
      const mean = (name) => (best[name] + worst[name]) / 2;
      const bound = mean("latency_s") > mean("wire_s") ? "latency" : "bandwidth";
      const pays = [best, worst].map((side) => side.paid_s < side.saved_s);
      const verdict = pays[0] && pays[1] ? "pays for itself in time" : pays[0] ? "may or may not pay, depending on the box" : "makes the step slower than one rank";
      this.querySelector(".more").textContent =
        tp === 1
          ? ""
          : `${best.messages} messages of ${bytes(best.payload)}; ${bound}-bound. Latency and bytes weigh the same at ${crossovers[0]} to ${crossovers[1]}. ` +
            `A step takes ${time(best.weights_s)} to read the weights and ${time(best.arithmetic_s)} to multiply them. ` +
            `Splitting saves ${time(best.saved_s)} of one rank's step and costs ${time(best.paid_s)} to ${time(worst.paid_s)}: it ${verdict}.`;
    }
  }
  customElements.define("communication-bill", CommunicationBill);
})();
