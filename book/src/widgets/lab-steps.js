// <lab-steps says='["...", ...]' start="0">: drawings that come step by step, from step `start`. A part with data-step is seen at
// that step only, one with data-from at that step and after. Without this script, where motion is
// not wanted and in print, lab.css shows everything at once.
(() => {
  "use strict";
  if (customElements.get("lab-steps")) return; // the print page holds every chapter's script

  customElements.define(
    "lab-steps",
    class extends HTMLElement {
      connectedCallback() {
        if (this.bar) return;
        this.says = JSON.parse(this.getAttribute("says"));
        this.bar = document.createElement("div");
        this.bar.className = "steps";
        this.bar.innerHTML = `<button type="button" value="-1">← Back</button>
          <button type="button" value="1">Next →</button><p role="status"></p>`;
        this.prepend(this.bar);
        this.dataset.on = "";
        this.bar.addEventListener("click", ({ target }) => this.show(this.step + Number(target.value ?? 0)));
        this.bar.addEventListener("keydown", (event) => {
          const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
          if (!by) return;
          event.stopPropagation(); // the arrows would turn the page
          this.show(this.step + by);
        });
        this.show(Number(this.getAttribute("start")));
      }

      show(step) {
        const count = this.says.length;
        this.step = (step + count) % count;
        this.querySelector("[role=status]").textContent = this.says[this.step];
        for (const part of this.querySelectorAll("[data-step], [data-from]")) {
          const { step, from } = part.dataset;
          part.toggleAttribute("data-off", step ? Number(step) !== this.step : Number(from) > this.step);
        }
      }
    },
  );
})();
