// <place-model>: the candidate plans of a model on a box under a load, and the choice among them.
// Nothing is computed here: every row is the capstone's planner's, as JSON inside the element. `axes`
// names what can be chosen; `rows` has a list for each combination, the last axis running fastest:
// [the choice, the choice within the limits or -1, close, then for each plan shown its name, longest
// context, ms to the first token, ms per token, tokens/s]; [] where no plan holds one request.
(() => {
  "use strict";

  const LABELS = {
    model: "Model",
    gpu: "GPU",
    gpus: "How many GPUs",
    prompt: "Tokens per prompt",
    output: "Tokens per answer",
    clients: "Clients at once",
  };

  // The answer to {axis: which of its values}: {plans, choice, limited, close}, plans as objects.
  const answer = ({ axes, names, rows }, at) => {
    const place = Object.entries(axes).reduce((sum, [name, values]) => sum * values.length + at[name], 0);
    const [choice, limited, close, ...numbers] = rows[place];
    const plans = [];
    for (let i = 0; i < numbers.length; i += 5) {
      const [name, longest, ttft, tpot, rate] = numbers.slice(i, i + 5);
      plans.push({ name: names[name], longest, ttft, tpot, rate });
    }
    return { plans, choice: names[choice], limited: names[limited], close: close === 1 };
  };

  const time = (ms) => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`);

  let count = 0;
  class PlaceModel extends HTMLElement {
    static answer = answer;

    connectedCallback() {
      if (this.ready) return;
      this.ready = true;
      this.data = JSON.parse(this.querySelector("script[type='application/json']").textContent);
      this.classList.add("lab-widget");
      const id = `place-model-${++count}`;
      this.at = { ...this.data.start };
      const row = ([name, values]) => {
        const [here, start] = [`${id}-${name}`, this.at[name]];
        const control =
          typeof values[0] === "string"
            ? `<select id="${here}" name="${name}">${values.map((value, i) => `<option value="${i}"${i === start ? " selected" : ""}>${value}</option>`).join("")}</select>`
            : `<input id="${here}" name="${name}" type="range" min="0" max="${values.length - 1}" value="${start}" aria-valuetext="${values[start]}"><output for="${here}">${values[start]}</output>`;
        return `<div class="row"><label for="${here}">${LABELS[name]}</label>${control}</div>`;
      };
      this.innerHTML = `<div role="group" aria-label="Place your model">${Object.entries(this.data.axes).map(row).join("")}
        <p class="status" role="status"></p><p class="more"></p>
        <div class="scroll" tabindex="0" role="group" aria-label="Candidate plans"><table><thead><tr><th>plan</th><th>longest context</th><th>TTFT</th><th>TPOT</th><th>tok/s</th></tr></thead><tbody></tbody></table></div></div>`;
      this.addEventListener("input", ({ target }) => {
        this.at[target.name] = +target.value;
        const shown = this.data.axes[target.name][target.value];
        if (target.type === "range") {
          target.setAttribute("aria-valuetext", shown);
          target.nextElementSibling.value = shown;
        }
        this.draw();
      });
      this.draw();
    }

    draw() {
      const { plans, choice, limited, close } = answer(this.data, this.at);
      const of = (name) => this.data.axes[name][this.at[name]];
      const { ttft, tpot } = this.data.limits;
      const within = `the first token within ${time(ttft)} and each further one within ${time(tpot)}`;
      const gpus = `${of("gpus")} ${of("gpu")}${of("gpus") > 1 ? "s" : ""}`;
      this.querySelector(".status").textContent = plans.length
        ? `${choice} makes the most tokens of ${of("model")} on ${gpus}.`
        : `${of("model")} does not fit on ${gpus}: no legal plan holds the weights and one request of ${of("prompt") + of("output")} tokens.`;
      this.querySelector(".more").textContent = !plans.length
        ? ""
        : (close ? "The second best comes so close that the constants, not this arithmetic, decide between the two. " : "") +
          (limited === choice ? `It also delivers ${within}.` : limited ? `To deliver ${within}, choose ${limited}.` : `No plan delivers ${within}.`);
      this.querySelector(".scroll").hidden = !plans.length;
      const mark = ({ name }) => (name === choice ? `<strong>${name}</strong>` : name);
      this.querySelector("tbody").innerHTML = plans
        .map((plan) => `<tr><td>${mark(plan)}</td><td>${plan.longest.toLocaleString("en")}</td><td>${time(plan.ttft)}</td><td>${time(plan.tpot)}</td><td>${plan.rate.toLocaleString("en")}</td></tr>`)
        .join("");
    }
  }
  customElements.define("place-model", PlaceModel);
})();
