// Python in a page, for python/lab-task.js and the others: one worker, which does one thing at a time.
(() => {
  "use strict";
  let python = null; // the worker, once it is ready
  let queue = Promise.resolve();

  // What the worker answers. It tells meanwhile what it does, which `say` is given, and each check
  // that begins, which has its time; `signal` ends it.
  const answer = (worker, message, say, signal) =>
    new Promise((done, failed) => {
      let timer;
      signal?.addEventListener("abort", () => failed(signal.reason));
      worker.onmessage = ({ data }) => {
        clearTimeout(timer);
        if (data.say) say(data.say);
        else if (data.broken) failed(new Error(data.broken));
        else if (data.check) timer = setTimeout(() => failed({ endless: data.check }), window.readerPython.LIMIT_S * 1000);
        else done(data.done);
      };
      worker.onerror = (event) => failed(new Error(event.message));
      worker.postMessage(message);
    });

  async function started(say, signal) {
    const { load } = window.readerPython;
    say("Loading Python from this book’s folder.");
    await Promise.all([load("course"), load("pyodide")]);
    signal?.throwIfAborted();
    const { worker: text, zip } = window.LAB_COURSE;
    const worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
    try {
      await answer(worker, { start: { pyodide: window.LAB_PYODIDE, zip } }, say, signal);
    } catch (problem) {
      worker.terminate();
      throw problem;
    }
    return worker;
  }

  // run(...) of a module of this folder, in Python: what it returns, or {endless: a check}. given():
  // its arguments, asked for when its turn has come.
  const run = (module, given, say, signal) =>
    (queue = queue.catch(() => {}).then(async () => {
      signal?.throwIfAborted();
      python ??= await started(say, signal);
      try {
        return JSON.parse(await answer(python, { module, given: given() }, say, signal));
      } catch (problem) {
        python.terminate();
        python = null;
        if (!problem.endless) throw problem;
        return problem;
      }
    }));

  // After labkit.plugin.CHECK_S, 10, Python itself ends what loops in a reader's file.
  Object.assign(window.readerPython, { run, LIMIT_S: 15 });
})();
