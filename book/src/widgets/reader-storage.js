// window.readerStorage: what a reader writes, in this browser's IndexedDB. Once `ready`, get, set and
// remove work at once, by a name. Not in localStorage: to a page that was opened from a folder
// Chromium now and then gives an empty one, which is thrown away (seen in 156, 3 of 100 times).
(() => {
  "use strict";
  if (window.readerStorage) return; // the print page holds every chapter's script

  const NAME = "distributed-inference-book";
  let kept = new Map();
  let writes = 0;
  let database;

  const failed = () => {
    storage.problem = "This browser keeps nothing for this page: what you write here is gone when you leave it.";
  };
  const store = (mode) => database.transaction(NAME, mode).objectStore(NAME);

  function write(change) {
    writes += 1;
    try {
      const { transaction } = change(store("readwrite"));
      transaction.onabort = failed;
      transaction.commit(); // now: the reader may leave after this key
    } catch {
      failed();
    }
  }

  // Another tab may have written since.
  const read = () =>
    new Promise((done, refused) => {
      const before = writes;
      const names = store("readonly").getAllKeys();
      const texts = names.source.getAll();
      texts.onerror = refused;
      texts.onsuccess = () => {
        if (before === writes) kept = new Map(names.result.map((name, at) => [name, texts.result[at]]));
        done();
      };
    }).catch(failed);

  const opened = new Promise((done, refused) => {
    const request = indexedDB.open(NAME);
    request.onupgradeneeded = () => request.result.createObjectStore(NAME);
    request.onerror = refused;
    request.onsuccess = () => done((database = request.result));
  });

  const storage = (window.readerStorage = {
    problem: "", // a sentence, where nothing can be kept
    ready: opened.then(read, failed),
    read,
    names: (start) => [...kept.keys()].filter((name) => name.startsWith(start)),
    get: (name) => kept.get(name) ?? null,
    set(name, text) {
      kept.set(name, text);
      write((texts) => texts.put(text, name));
    },
    remove(name) {
      kept.delete(name);
      write((texts) => texts.delete(name));
    },
  });
})();
