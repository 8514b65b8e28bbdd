// <sharding-explorer>: what one tensor-parallel rank of a Llama-shaped model holds, or why it cannot.
// Presets come from lab 02's configs as JSON inside the element; the rules are those of labs 01 and 02.
(() => {
  "use strict";

  const VOCAB_PADDING = 64;
  const FIELDS = [
    ["num_heads", "Query heads", 1, 256],
    ["num_kv_heads", "KV heads", 1, 256],
    ["head_dim", "Head size", 1, 512],
    ["hidden_size", "Hidden size", 1, 65536],
    ["intermediate_size", "MLP width", 1, 262144],
    ["vocab_size", "Vocabulary", 1, 1000000],
    ["num_layers", "Layers", 1, 512],
  ];

  // A legal size, or the sentence that says which dimension does not split.
  const objection = (model, tp) => {
    for (const [name, what] of [
      ["num_heads", "query heads"],
      ["intermediate_size", "columns of the MLP"],
    ])
      if (model[name] % tp) return `${model[name]} ${what} do not divide by ${tp}`;
    const kv = model.num_kv_heads;
    if (kv % tp && tp % kv) return `${kv} KV heads neither divide by ${tp} nor divide ${tp}`;
    const rows = Math.ceil(model.vocab_size / VOCAB_PADDING) * VOCAB_PADDING;
    return rows % tp ? `${rows} rows of the padded vocabulary do not divide by ${tp}` : "";
  };

  const shard = (model, tp, elementBytes) => {
    const why = objection(model, tp);
    if (why) return { why };
    const { num_heads, num_kv_heads, head_dim, hidden_size: h, intermediate_size: f, num_layers: layers } = model;
    const vocab = Math.ceil(model.vocab_size / VOCAB_PADDING) * VOCAB_PADDING;
    const split = (n) => {
      const heads = num_heads / n;
      const kv = Math.max(1, num_kv_heads / n);
      return [
        ["embed_tokens", [vocab / n, h], 1, "rows"],
        ["qkv_proj", [(heads + 2 * kv) * head_dim, h], layers, "rows, by heads"],
        ["o_proj", [h, heads * head_dim], layers, "columns"],
        ["gate_up_proj", [(2 * f) / n, h], layers, "rows"],
        ["down_proj", [h, f / n], layers, "columns"],
        ["norms", [h], 2 * layers + 1, "whole on every rank"],
        ["lm_head", [vocab / n, h], 1, "rows"],
      ];
    };
    const size = ([, shape, times]) => shape.reduce((a, b) => a * b, 1) * times * elementBytes;
    const mine = split(tp);
    const whole = split(1);
    return {
      why: "",
      rows: mine.map((row, i) => ({ name: row[0], whole: whole[i][1], rank: row[1], times: row[2], how: row[3], bytes: size(row) })),
      rank_bytes: mine.reduce((sum, row) => sum + size(row), 0),
      whole_bytes: whole.reduce((sum, row) => sum + size(row), 0),
      kv_bytes_per_token: 2 * layers * Math.max(1, num_kv_heads / tp) * head_dim * elementBytes,
      kv_copies: Math.max(1, tp / num_kv_heads),
    };
  };
  const legal = (model, most) => Array.from({ length: most }, (_, i) => i + 1).filter((tp) => !objection(model, tp));

  const gib = (n) => (n >= 2 ** 30 ? `${(n / 2 ** 30).toFixed(2)} GiB` : n >= 2 ** 20 ? `${(n / 2 ** 20).toFixed(2)} MiB` : `${(n / 1024).toFixed(2)} KiB`);

  let count = 0;
  class ShardingExplorer extends HTMLElement {
    static shard = shard;
    static legal = legal;

    connectedCallback() {
      if (this.ready) return;
      this.ready = true;
      this.presets = JSON.parse(this.querySelector("script[type='application/json']").textContent);
      this.classList.add("lab-widget");
      const id = `sharding-explorer-${++count}`;
      this.model = { ...Object.values(this.presets)[0] };
      this.tp = 2;
      this.elementBytes = 2;
      const number = ([name, label, least, most]) =>
        `<div class="row"><label for="${id}-${name}">${label}</label>
         <input id="${id}-${name}" name="${name}" type="number" min="${least}" max="${most}" value="${this.model[name]}"></div>`;
      this.innerHTML = `<div role="group" aria-label="Sharding explorer">
        <div class="row"><label for="${id}-preset">Model</label><select id="${id}-preset" name="preset">${Object.keys(this.presets)
          .map((name) => `<option>${name}</option>`)
          .join("")}<option value="">my own</option></select></div>
        <div class="row"><label for="${id}-tp">Tensor-parallel ranks</label>
         <input id="${id}-tp" name="tp" type="range" min="1" max="16" value="2"><output for="${id}-tp">2</output></div>
        <details><summary>Shape of the model</summary>${FIELDS.map(number).join("")}
        <div class="row"><label for="${id}-bytes">Bytes per weight</label><select id="${id}-bytes" name="bytes"><option>1</option><option selected>2</option><option>4</option></select></div></details>
        <p class="status" role="status"></p><p class="more"></p>
        <div class="scroll" tabindex="0" role="group" aria-label="Shapes on each rank"><table><thead><tr><th>weight</th><th>whole</th><th>each rank</th><th>split by</th><th>bytes per rank</th></tr></thead><tbody></tbody></table></div></div>`;
      this.addEventListener("input", (event) => {
        const { name, value } = event.target;
        if (name === "preset") {
          if (value) this.model = { ...this.presets[value] };
          for (const [field] of FIELDS) this.querySelector(`[name=${field}]`).value = this.model[field];
        } else if (name === "tp") {
          this.tp = +value;
          event.target.nextElementSibling.value = value;
        } else if (name === "bytes") {
          this.elementBytes = +value;
        } else {
          const [, , least, most] = FIELDS.find(([field]) => field === name);
          const whole = Math.min(most, Math.max(least, Math.floor(+value)));
          if (whole) this.model[name] = whole;
          this.querySelector("[name=preset]").value = "";
        }
        this.draw();
      });
      this.draw();
    }

    draw() {
      const { tp } = this;
      const found = shard(this.model, tp, this.elementBytes);
      const sizes = legal(this.model, 16).join(", ");
      const body = this.querySelector("tbody");
      const more = this.querySelector(".more");
      this.querySelector(".scroll").hidden = Boolean(found.why);
      if (found.why) {
        this.querySelector(".status").textContent = `TP=${tp} is not possible: ${found.why}.`;
        more.textContent = `Sizes up to 16 that are: ${sizes}.`;
        body.innerHTML = "";
        return;
      }
      const extra = found.rank_bytes * tp - found.whole_bytes;
      this.querySelector(".status").textContent = `TP=${tp}: each rank holds ${gib(found.rank_bytes)} of ${gib(found.whole_bytes)}.`;
      more.textContent =
        (found.kv_copies > 1 ? `Each KV head is stored ${found.kv_copies} times. ` : "") +
        (tp > 1 ? `Together the ranks hold ${gib(extra)} more than one copy. ` : "") +
        `A token's KV cache takes ${gib(found.kv_bytes_per_token)} on each rank. Possible sizes up to 16: ${sizes}.`;
      const shape = (list, times) => `[${list.join(", ")}]${times > 1 ? ` × ${times}` : ""}`;
      body.innerHTML = found.rows
        .map((row) => `<tr><td>${row.name}</td><td>${shape(row.whole, row.times)}</td><td>${shape(row.rank, row.times)}</td><td>${row.how}</td><td>${gib(row.bytes)}</td></tr>`)
        .join("");
    }
  }
  customElements.define("sharding-explorer", ShardingExplorer);
})();
