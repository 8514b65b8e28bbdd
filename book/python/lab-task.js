// <lab-task lab="lab-04" task="3">: a place to write task 3 and have it graded here, by the lab's own
// checks; without `task`, the whole lab: all points, starter.py in and out. What was written stays in
// this browser's storage.
(() => {
  "use strict";
  const { load, element, button, run, kinds } = window.readerPython;
  const storage = window.readerStorage;
  const HELP = "Tab indents, Escape and then Tab leaves. Ctrl+Enter runs the checks.";
  const WORDS = { passed: "passed", failed: "FAILED", todo: "todo", waits: "waits", not_run: "not run" };

  // --- what was written, piece by piece: a task's is called by its number, what is given by its
  // place, g0, g1 -----------------------------------------------------------------------------------

  const key = (lab, piece) => `lab-task:${lab}:${piece}`;
  const written = (lab, piece) => storage.get(key(lab, piece));
  const keep = (lab, piece, text) =>
    text === null ? storage.remove(key(lab, piece)) : storage.set(key(lab, piece), text);
  const names = (pieces) => pieces.map(({ task }, at) => (task ? String(task) : `g${at}`));

  // {starter: its path, pieces} of a lab, of what is kept now.
  const course = async (lab) => {
    await Promise.all([load("course"), storage.read()]);
    return window.LAB_COURSE.labs[lab];
  };

  // starter.py's pieces, with what was written in the place of the stubs.
  const textsOf = (lab, pieces) =>
    names(pieces).map((name, at) => {
      const text = written(lab, name);
      if (text === null) return pieces[at].text;
      return pieces[at].task && text.trim() ? `${text.trimEnd()}\n\n\n` : text;
    });
  const starterOf = (lab, pieces) => textsOf(lab, pieces).join("").trimEnd() + "\n";

  // Cut a whole starter.py where the pieces begin: by a piece's name its text, null where it is as
  // given. Every line goes into one of them.
  function cut(text, pieces) {
    const lines = text.replaceAll("\r\n", "\n").split("\n");
    const begins = pieces.map(({ anchor, back }, at) => {
      const found = lines.findIndex((line) => line.startsWith(anchor));
      return at && found >= 0 ? Math.max(0, found - back) : at ? -1 : 0;
    });
    let end = lines.length;
    const texts = {};
    for (const [at, name] of [...names(pieces).entries()].reverse()) {
      const found = begins[at] >= 0 && begins[at] <= end;
      const piece = found ? lines.slice(begins[at], end).join("\n").trimEnd() : "";
      const after = piece && !pieces[at].task ? "\n\n\n" : "";
      texts[name] = piece === pieces[at].text.trimEnd() ? null : piece + after;
      if (found) end = begins[at];
    }
    return texts;
  }

  // {starter, text} of a lab: its path and all of it.
  window.readerPython.starter = async (lab) => {
    const { starter, pieces } = await course(lab);
    return { starter, text: starterOf(lab, pieces) };
  };

  // --- what is said of a run --------------------------------------------------------------------

  function claimOf({ outcome, points, text, message, drawing, hint, printed }) {
    const passed = outcome === "passed";
    const shown = text.replace(/\{([^{}]*)\}/g, passed ? "$1" : "…"); // labkit.claims.shown
    const item = element("li", { className: outcome });
    item.append(element("p", {}, element("b", { textContent: `${WORDS[outcome]} ${points}` }), ` ${shown}`));
    if (message && outcome !== "todo") item.append(element("p", { className: "message", textContent: message }));
    if (drawing) item.append(element("pre", { className: "drawing", tabIndex: 0, textContent: drawing }));
    if (hint) item.append(element("p", { className: "clue", textContent: `Hint: ${hint}.` }));
    if (printed) {
      item.append(element("p", { textContent: "Your code printed:" }));
      item.append(element("pre", { className: "printed", tabIndex: 0, textContent: printed }));
    }
    return item;
  }

  // [what is said of a run of `what`, its claims].
  function told(what, { endless, entry, screen }) {
    if (endless) return [`The check “${endless}” did not finish within ${window.readerPython.LIMIT_S} s (an endless loop?). Python was ended.`, []];
    if (!entry) return [`pytest gave no result: ${screen.trim().split("\n").pop()}`, []];
    const { broken, claims, points } = entry;
    if (broken) return [`cannot be graded: ${broken}`, []];
    const total = claims.reduce((sum, claim) => sum + claim.points, 0);
    const rest = points.not_run ? `, ${points.not_run} not run here` : "";
    return [`${what}: ${points.earned} of ${total} points${rest}.`, claims.map(claimOf)];
  }

  // --- one of them ------------------------------------------------------------------------------

  kinds["lab-task"] = class {
    constructor(host) {
      this.host = host;
      this.lab = host.getAttribute("lab");
      this.task = Number(host.getAttribute("task")) || 0;
      this.what = this.task ? `task ${this.task}` : this.lab;
      this.first = [...host.bar.children];
      this.claims = element("ul", { className: "claims" });
      host.append(this.claims);
    }

    async open() {
      const { pieces } = await course(this.lab);
      this.edit(pieces.find(({ task }) => task === this.task).text.trimEnd());
      this.area.focus();
    }

    restore() {
      this.edit(written(this.lab, this.task));
    }

    closed() {
      this.host.bar.replaceChildren(...this.first);
      this.claims.replaceChildren();
      this.host.replaceChildren(this.host.bar, this.host.status, this.claims);
    }

    edit(text) {
      const { bar, status } = this.host;
      const id = `${this.lab}-task-${this.task}`;
      const label = element("label", { htmlFor: id, textContent: `Your ${this.what}, in Python` });
      const help = element("small", { id: `${id}-help` });
      this.area = element("textarea", { id, value: text.trimEnd(), spellcheck: false, wrap: "off" });
      this.area.setAttribute("aria-describedby", help.id);
      this.area.setAttribute("autocapitalize", "off");
      this.area.setAttribute("autocomplete", "off");
      this.area.rows = Math.min(30, text.trimEnd().split("\n").length + 3);
      const explain = (line = "") => (help.textContent = `${HELP} ${line} ${storage.problem}`);
      this.explain = explain;
      this.area.oninput = () => {
        keep(this.lab, this.task, this.area.value);
        explain();
      };
      this.area.onkeydown = (event) => this.typed(event);
      bar.replaceChildren(
        button(`Run the checks of ${this.what}`, () => this.host.ask("run")),
        button("Reset", () => this.reset()),
      );
      explain();
      this.host.replaceChildren(label, this.area, help, bar, status, this.claims);
    }

    typed(event) {
      const { key, ctrlKey, metaKey } = event;
      const leaves = this.leaves;
      if (key !== "Shift") this.leaves = key === "Escape";
      if (key === "Enter" && (ctrlKey || metaKey)) {
        event.preventDefault();
        this.host.ask("run");
      } else if (key === "Tab" && !event.shiftKey && !leaves) {
        event.preventDefault();
        this.put("    ");
      } else if (key === "Enter") {
        event.preventDefault();
        const line = this.area.value.slice(0, this.area.selectionStart).split("\n").pop();
        this.put(`\n${line.match(/^ */)[0]}${line.trimEnd().endsWith(":") ? "    " : ""}`);
      }
    }

    // execCommand alone keeps the browser's undo
    put(text) {
      document.execCommand("insertText", false, text);
    }

    reset() {
      const ask = `Throw away what you wrote for ${this.what} of ${this.lab} in this browser?`;
      if (!confirm(ask)) return;
      keep(this.lab, this.task, null);
      this.host.say("");
      this.closed();
      this.host.bar.firstChild.focus();
    }

    async run() {
      const { starter, pieces } = await course(this.lab);
      const given = () => [this.lab, starter, starterOf(this.lab, pieces), this.task];
      if (this.area) {
        const at = pieces.findIndex(({ task }) => task === this.task);
        const before = textsOf(this.lab, pieces).slice(0, at).join("");
        this.explain(`Line 1 here is line ${before.split("\n").length} of starter.py.`);
      }
      const [said, claims] = told(this.what, await run("run_checks", given, (text) => this.host.say(text)));
      this.claims.replaceChildren(...claims);
      this.host.say(said);
    }

    async download() {
      const { starter, pieces } = await course(this.lab);
      const text = starterOf(this.lab, pieces);
      const link = element("a", { download: "starter.py", href: URL.createObjectURL(new Blob([text])) });
      link.click();
      URL.revokeObjectURL(link.href);
      this.host.say(`It belongs into the lab’s folder: ${starter}`);
    }

    choose() {
      const chosen = element("input", { type: "file", accept: ".py,text/x-python" });
      chosen.onchange = () => {
        this.chosen = chosen.files[0];
        this.host.ask("read");
      };
      chosen.click();
    }

    async read() {
      const { pieces } = await course(this.lab);
      const { name } = this.chosen;
      const texts = cut(await this.chosen.text(), pieces);
      const tasks = Object.keys(texts).filter((piece) => Number(piece) && texts[piece] !== "");
      if (!tasks.length) throw new Error(`${name} has none of the functions of ${this.lab}’s starter.py.`);
      const held = names(pieces).some((piece) => written(this.lab, piece) !== null);
      if (held && !confirm(`Take ${name} in the place of what this browser holds of ${this.lab}?`)) return;
      for (const piece in texts) keep(this.lab, piece, texts[piece]);
      for (const other of document.querySelectorAll(`lab-task[lab="${this.lab}"][task]`)) {
        if (written(this.lab, other.getAttribute("task")) !== null) other.ask("restore");
        else other.kind?.closed();
      }
      this.host.say(`${name} is here, with ${tasks.length} tasks in it.`);
    }
  };
})();
