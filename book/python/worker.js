// Python in a worker that a page starts from a Blob, also where the page was opened from a folder.
// {start: {pyodide, zip}} unpacks and starts it. {module, given} calls run(COURSE, ...given, tell) of
// a module of site/, where tell(what, text) posts {what: text} meanwhile. Either answers {done} or
// {broken: text}.
"use strict";

const HOME = "/home/pyodide";
const TYPES = { wasm: "application/wasm", zip: "application/zip", json: "application/json", mjs: "text/javascript" };
const typeOf = (name) => TYPES[name.split(".").pop()];
const tell = (what, text) => postMessage({ [what]: text });
let python;

function bytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
const unpack = (text) =>
  new Response(new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();

async function start({ pyodide, zip }) {
  // Pyodide wants a module worker, which does not start from a Blob in a folder's page; it looks
  // for one by calling importScripts. Its own modules are imported from Blobs all the same.
  self.importScripts = () => {
    throw new TypeError("a module's worker");
  };
  tell("say", "Unpacking Python.");
  const files = {}, urls = {};
  for (const name in pyodide) {
    files[name] = await unpack(pyodide[name]);
    urls[name] = URL.createObjectURL(new Blob([files[name]], { type: typeOf(name) }));
  }
  // It fetches its parts by name or as Blobs; nothing else is ever fetched.
  const fetchBlob = self.fetch;
  self.fetch = async (address) => {
    if (String(address.url ?? address).startsWith("blob:")) return fetchBlob(address);
    const name = String(address.url ?? address).split("/").pop().split("?")[0];
    if (!files[name]) throw new TypeError(`Python in the page has no ${name}`);
    return new Response(files[name], { headers: { "Content-Type": typeOf(name) } });
  };
  tell("say", "Starting Python.");
  const { loadPyodide } = await import(urls["pyodide.mjs"]);
  python = await loadPyodide({
    indexURL: "https://page.invalid/",
    createPyodideModule: (await import(urls["pyodide.asm.mjs"])).default,
    lockFileContents: new TextDecoder().decode(files["pyodide-lock.json"]),
    stdLibURL: urls["python_stdlib.zip"],
  });
  tell("say", "Unpacking the labs.");
  python.unpackArchive(bytes(zip), "zip", { extractDir: HOME });
  python.runPython(`import sys; sys.path.insert(0, '${HOME}/site')`);
}

self.onmessage = async ({ data: { start: parts, module, given } }) => {
  try {
    if (parts) postMessage({ done: await start(parts) });
    else postMessage({ done: python.pyimport(module).run(`${HOME}/course`, ...given.map((one) => python.toPy(one)), tell) });
  } catch (error) {
    postMessage({ broken: String(error.message ?? error) });
  }
};
