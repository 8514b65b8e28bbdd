// <lab-guess truth unit shown within> asks for a number before the page tells it, and
// <lab-guess options right> for one of a few answers. <lab-record> counts those of a page, and with
// `all` those of the book. What was said stays in this browser. Written by book/labbook/guesses.py.
(() => {
  "use strict";
  if (customElements.get("lab-guess")) return; // the print page holds every chapter's script

  const PAGE = location.pathname.split("/").pop().replace(/\.html$/, "") || "index";
  const storage = window.readerStorage; // by guess:PAGE:NUMBER {said, hit, truth or right}
  const off = () => storage.get("guesses-off") === "yes";
  const changed = () => document.dispatchEvent(new Event("guesses"));

  const keep = (number, entry) => {
    storage.set(`guess:${PAGE}:${number}`, JSON.stringify(entry));
    changed();
  };

  // "1,500", "7,5", "58 %", "3e-4": a positive number, or NaN. A comma that no three digits follow
  // is a decimal one.
  const number = (text) => {
    const value = Number(text.replace(/,(?!\d{3})/, ".").replace(/[\s,_]/g, "").replace(/[^\d.e+-].*$/i, "") || NaN);
    return value > 0 ? value : NaN;
  };

  const verdict = (entry, shown) => {
    if (entry.right) return entry.hit ? "Right." : `You said: ${entry.said}. Right is: ${entry.right}.`;
    const factor = Math.max(entry.said / entry.truth, entry.truth / entry.said);
    const by = factor < 1.1 ? `${Math.round(100 * Math.abs(entry.said / entry.truth - 1))}%` : `${factor < 10 ? factor.toFixed(1) : Math.round(factor)} times`;
    const how = factor < 1.02 ? "spot on" : `${by} too ${entry.said > entry.truth ? "high" : "low"}`;
    return `You said ${entry.said}; it is ${shown}: ${how}${entry.hit && factor >= 1.02 ? ", near enough" : ""}.`;
  };

  customElements.define(
    "lab-guess",
    class extends HTMLElement {
      connectedCallback() {
        storage.ready.then(() => this.form || this.ask());
      }

      ask() {
        this.number = [...document.querySelectorAll("lab-guess")].indexOf(this);
        this.form = document.createElement("form");
        const { options, unit } = this.facts();
        this.form.innerHTML = options
          ? `<select name="said" aria-label="Your answer"><option value="">your answer …</option></select>
             <button>Say</button> <output></output>`
          : `<input name="said" inputmode="decimal" autocomplete="off" aria-label="Your guess" size="8">
             <span></span> <button>Say</button> <output></output>`;
        for (const option of options ?? []) this.form.said.add(new Option(option, option));
        if (!options) this.form.querySelector("span").textContent = unit;
        this.form.addEventListener("submit", (event) => {
          event.preventDefault();
          this.say(this.form.said.value);
        });
        this.append(this.form);
        this.show();
        document.addEventListener("guesses", () => this.show());
        this.guard();
      }

      facts() {
        const of = (name) => this.getAttribute(name);
        return {
          options: of("options")?.split(";"), right: Number(of("right")), unit: of("unit"),
          truth: Number(of("truth")), shown: of("shown"), within: Number(of("within")),
        };
      }

      say(text) {
        const { options, right, truth, within } = this.facts();
        if (options) {
          if (text) keep(this.number, { said: text, right: options[right - 1], hit: text === options[right - 1] });
          return;
        }
        const value = number(text);
        if (Number.isNaN(value)) {
          this.form.querySelector("output").textContent = "A number above 0, please, such as 12 or 3e-4.";
          return;
        }
        const hit = Math.max(value / truth, truth / value) <= within;
        keep(this.number, { said: value, truth, within, hit });
      }

      show() {
        const entry = JSON.parse(storage.get(`guess:${PAGE}:${this.number}`));
        this.hidden = off();
        if (!entry) return;
        this.form.said.value = entry.said;
        this.form.said.disabled = true;
        this.form.querySelector("button").hidden = true;
        this.form.querySelector("output").textContent = verdict(entry, this.facts().shown);
      }

      // Answers open at the second click while something that they answer is not guessed: those of
      // one question stand in its list item, those of all of them in the box.
      guard() {
        const item = this.closest("li");
        const box = item?.querySelector("details") ? item : this.closest(".predict");
        const fold = box?.querySelector("details");
        if (!fold || fold.dataset.guarded) return;
        fold.dataset.guarded = "yes";
        const note = document.createElement("p");
        note.setAttribute("role", "status");
        fold.before(note);
        fold.querySelector("summary").addEventListener("click", (event) => {
          const open = [...box.querySelectorAll("lab-guess")].filter((one) => !one.form?.said.disabled);
          if (fold.open || off() || !open.length || note.textContent) return;
          event.preventDefault();
          note.textContent = `${open.length} not guessed yet. Guess first, or open the answers once more.`;
        });
      }
    },
  );

  customElements.define(
    "lab-record",
    class extends HTMLElement {
      connectedCallback() {
        storage.ready.then(() => this.told || this.tell());
      }

      tell() {
        this.innerHTML = `<p role="status"></p><p><button type="button" name="csv">Download as CSV</button>
          <button type="button" name="off"></button>
          <button type="button" name="again">Forget them</button></p>`;
        this.told = this.querySelector("[role=status]");
        this.addEventListener("click", ({ target }) => this[target.name]?.());
        document.addEventListener("guesses", () => this.show());
        this.show();
      }

      names() {
        return storage.names(this.hasAttribute("all") ? "guess:" : `guess:${PAGE}:`);
      }

      entries() {
        const entries = this.names().map((name) => {
          const [, page, n] = name.split(":");
          return { page, n: Number(n), ...JSON.parse(storage.get(name)) };
        });
        return entries.sort((one, other) => one.page.localeCompare(other.page) || one.n - other.n);
      }

      show() {
        const entries = this.entries();
        const asked = document.querySelectorAll("lab-guess").length;
        const of = this.hasAttribute("all") ? entries.length : asked;
        const hits = entries.filter((one) => one.hit).length;
        const misses = entries.filter((one) => one.truth).map((one) => Math.abs(Math.log(one.said / one.truth)));
        misses.sort((a, b) => a - b);
        const typical = misses.length ? Math.exp(misses[misses.length >> 1]) : 0;
        const where = this.hasAttribute("all") ? "In the whole book" : "On this page";
        this.told.textContent = off()
          ? "The pages ask nothing; their answers are folds."
          : !entries.length
            ? `${storage.problem} Your guesses are counted here.`
            : `${storage.problem} ${where} you guessed ${entries.length}${this.hasAttribute("all") ? "" : ` of ${of}`}, and ${hits} were near enough${typical ? `; half of your numbers are within a factor of ${typical.toFixed(typical < 1.1 ? 2 : 1)}` : ""}.`;
        this.querySelector("[name=off]").textContent = off() ? "Show the questions" : "Hide the questions";
        this.querySelector("[name=csv]").hidden = this.querySelector("[name=again]").hidden = !entries.length;
      }

      off() {
        storage.set("guesses-off", off() ? "no" : "yes");
        changed();
      }

      again() {
        for (const name of this.names()) storage.remove(name);
        location.reload();
      }

      csv() {
        const cell = (value) => `"${String(value ?? "").replace(/"/g, '""')}"`;
        const rows = [["page", "question", "said", "truth", "near enough"]];
        for (const one of this.entries()) rows.push([one.page, one.n + 1, one.said, one.truth ?? one.right, one.hit ? "yes" : "no"]);
        const text = rows.map((row) => row.map(cell).join(",")).join("\r\n");
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
        link.download = "guesses.csv";
        link.click();
        URL.revokeObjectURL(link.href);
      }
    },
  );
})();
