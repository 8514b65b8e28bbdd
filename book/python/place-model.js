// <place-model models gpus networks>: the capstone's place.py, asked in the page. The controls are its
// options, and what is shown is what it prints.
(() => {
  "use strict";
  const { element, button, run, kinds } = window.readerPython;
  const CONFIG = "config.json";
  const OWN = "the config.json below";

  // [option, what it is called, how it begins, its choices or nothing]; empty ones are left out.
  const CONTROLS = (of) => [
    ["model", "Model", "qwen2.5-72b", [...of("models"), OWN]],
    ["gpu", "GPU", "h100", of("gpus")],
    ["gpus", "GPUs in a node", "8"],
    ["nodes", "Nodes", "2"],
    ["network", "Network between nodes", "10 GbE", of("networks")],
    ["prompt", "Tokens per prompt", "2000"],
    ["output", "Tokens per answer", "500"],
    ["concurrency", "Clients at once", "64"],
    ["ttft", "Most seconds to the first token", "0.5"],
    ["tpot", "Most seconds per further token", "0.03"],
  ];
  const quoted = (text) => (/^[\w.,:/+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

  kinds["place-model"] = class {
    constructor(host) {
      this.host = host;
      this.files = {};
    }

    open() {
      const { host } = this;
      const of = (name) => host.getAttribute(name).split(";");
      this.fields = Object.fromEntries(CONTROLS(of).map((control) => [control[0], this.field(...control)]));
      this.more = this.field("more", "Further options, such as --quant fp8 --pools, or --help", "");
      this.picture = element("input", { type: "checkbox" });
      this.config = element("textarea", { rows: 4, spellcheck: false, placeholder: "{ … }" });
      this.config.oninput = () => (this.fields.model.value = OWN);
      const chosen = element("input", { type: "file", multiple: true });
      chosen.onchange = () => this.take(chosen.files);
      this.held = element("small");
      const form = element(
        "form",
        { onsubmit: (event) => (event.preventDefault(), host.ask("run")) },
        element("div", { className: "fields" }, ...[...Object.values(this.fields), this.more].map(({ label }) => label)),
        element("label", { className: "check" }, this.picture, " Draw the picture (--svg)"),
        element(
          "details",
          {},
          element("summary", { textContent: "A model or a box of your own" }),
          element("label", {}, "A config.json, pasted", this.config),
          element("label", {}, "Files that the options name: a box, a measured row, a log", chosen),
          this.held,
        ),
      );
      this.go = element("button", { textContent: "Run place.py" });
      this.stop = button("Cancel", () => this.aborting?.abort(new Error("Cancelled: Python was ended.")));
      this.stop.hidden = true;
      this.stop.className = "stop";
      host.bar.replaceChildren(this.go, this.stop);
      form.append(host.bar);
      this.screen = element("pre", { tabIndex: 0, hidden: true });
      this.screen.setAttribute("aria-label", "What place.py prints");
      this.screen.setAttribute("role", "group");
      this.drawn = element("figure", { className: "lab-figure" });
      host.replaceChildren(form, host.status, this.screen, this.drawn);
      this.fields.model.focus();
    }

    field(name, label, value, choices) {
      const control = choices ? element("select") : element("input", { autocomplete: "off", spellcheck: false });
      for (const choice of choices ?? []) control.add(new Option(choice, choice));
      control.name = name;
      control.value = value;
      control.label = element("label", { className: name }, label, control);
      return control;
    }

    async take(files) {
      for (const file of files) this.files[file.name] = await file.text();
      this.held.textContent = `Here: ${Object.keys(this.files).join(", ")}.`;
    }

    options() {
      const given = Object.entries(this.fields).filter(([, { value }]) => value.trim());
      const own = this.fields.model.value === OWN;
      const words = given.map(([name, { value }]) =>
        name === "model" && own ? `--config ${CONFIG}` : `--${name} ${quoted(value.trim())}`,
      );
      return [...words, this.picture.checked ? "--svg picture.svg" : "", this.more.value.trim()].filter(Boolean).join(" ");
    }

    async run() {
      const options = this.options();
      const files = { ...this.files };
      if (this.config.value.trim()) files[CONFIG] = this.config.value;
      this.aborting = new AbortController();
      this.stop.hidden = false;
      try {
        const say = (text) => this.host.say(text);
        const found = await run("run_place", () => [options, files], say, this.aborting.signal);
        this.show(options, found);
      } finally {
        this.stop.hidden = true;
      }
    }

    show(options, { screen, status, picture, seconds }) {
      this.screen.hidden = false;
      this.screen.textContent = `$ python place.py ${options}\n${screen}`;
      const drawing = picture && new DOMParser().parseFromString(picture, "image/svg+xml").documentElement;
      drawing?.querySelector("style").remove(); // the page has its own, by theme
      this.drawn.replaceChildren(...(drawing ? [drawing] : []));
      const choice = screen.match(/^(Choice: .*?|No plan keeps the limits)[.:]/m)?.[1];
      const end = choice ?? screen.trim().split("\n").pop();
      this.host.say(`${end.replace(/\.?$/, ".")} (${seconds.toFixed(1)} s${status > 1 ? ", refused" : ""})`);
    }
  };
})();
