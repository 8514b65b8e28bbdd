// <lab-redraw lab="lab-04" figure="pipeline.straggler()">, below a figure of the book: the same figure,
// drawn by what the reader wrote for the lab, right or wrong, and the book's again.
(() => {
  "use strict";
  const { load, run, kinds } = window.readerPython;

  kinds["lab-redraw"] = class {
    constructor(host) {
      this.host = host;
      this.shown = this.book = host.previousElementSibling;
      [this.button] = host.bar.children;
    }

    show(figure, text) {
      this.shown.replaceWith(figure);
      this.shown = figure;
      this.button.textContent = text;
    }

    async draw() {
      const { host } = this;
      if (this.shown !== this.book) {
        this.show(this.book, "Draw it with my code");
        return host.say("");
      }
      await load("lab-task");
      const lab = host.getAttribute("lab");
      const { starter, text } = await window.readerPython.starter(lab);
      const given = () => [lab, starter, text, host.getAttribute("figure")];
      const { html, message, endless } = await run("run_figure", given, (told) => host.say(told));
      if (!html) return host.say(endless ? "Your code did not come back; Python was ended." : message);
      const made = document.createElement("template");
      made.innerHTML = html;
      this.show(made.content.firstElementChild, "Show the book’s figure");
      host.say(`Drawn by your code of ${lab}.`);
    }
  };
})();
