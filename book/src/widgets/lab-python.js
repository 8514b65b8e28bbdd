// <lab-task>, <place-model> and <lab-redraw> run Python in the page. Before they are asked they are
// their buttons alone; python/NAME.js, which does the rest, and Python come with the first click.
(() => {
  "use strict";
  if (window.readerPython) return; // the print page holds every chapter's script

  const scripts = {};
  const load = (name) =>
    (scripts[name] ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = `python/${name}.js`;
      script.onload = done;
      script.onerror = () => failed(new Error(`python/${name}.js is not beside this page; make book puts it there.`));
      document.head.append(script);
    }));

  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const button = (text, onclick) => element("button", { type: "button", textContent: text, onclick });

  // kinds[NAME]: a class of python/NAME.js, made of an element; its methods are the buttons' names.
  window.readerPython = { load, element, button, kinds: {} };

  const WHOLE = `You can write each task here, below its text, and run its checks in this page: the same tests,
points and sentences as in a terminal, without a network. What you write stays in this browser until you reset it.
You can download it as starter.py for your checkout, and open that here again.
These are your own checks. A grader draws numbers that you do not see, and runs your file in a sandbox; a page has neither.`;

  const buttonsOf = {
    "lab-task": ({ lab, task }) =>
      task
        ? { open: `Write task ${task} here` }
        : { run: `Run all checks of ${lab}`, download: "Download starter.py", choose: "Open starter.py" },
    "place-model": () => ({ open: "Ask the planner here" }),
    "lab-redraw": () => ({ draw: "Draw it with my code" }),
  };

  class Asked extends HTMLElement {
    connectedCallback() {
      window.readerStorage.ready.then(() => this.status || this.begin());
    }

    begin() {
      const { lab, task } = Object.fromEntries([...this.attributes].map(({ name, value }) => [name, value]));
      const buttons = Object.entries(buttonsOf[this.localName]({ lab, task }));
      this.bar = element("div", { className: "bar" }, ...buttons.map(([name, text]) => button(text, () => this.ask(name))));
      this.status = element("p", { className: "status" });
      this.status.setAttribute("role", "status");
      this.classList.add("asked");
      this.addEventListener("keydown", (event) => event.stopPropagation()); // s searches, arrows turn the page
      const told = lab && !task && this.localName === "lab-task" ? WHOLE.split(/\n(?=These)/) : [];
      const kept = this.localName === "place-model" ? [...this.childNodes] : [];
      this.replaceChildren(...told.map((text) => element("p", { textContent: text })), ...kept, this.bar, this.status);
      if (task && window.readerStorage.get(`lab-task:${lab}:${task}`) !== null) this.ask("restore");
    }

    // One at a time, and what goes wrong is said.
    async ask(name) {
      if (this.busy) return;
      this.busy = true;
      this.setAttribute("aria-busy", "true");
      try {
        await load("page");
        await load(this.localName);
        this.kind ??= new window.readerPython.kinds[this.localName](this);
        await this.kind[name]();
      } catch (error) {
        this.say(error.message);
      }
      this.busy = false;
      this.removeAttribute("aria-busy");
    }

    say(text) {
      this.status.textContent = text;
    }
  }

  for (const name in buttonsOf) customElements.define(name, class extends Asked {});
})();
