// Python and console colours, through the two calls that mdBook makes. It stands in for highlight.js,
// which is 130 KB on every page, whether it has code or not.
window.hljs = (() => {
  "use strict";
  const words = (text) => `\\b(?:${text.replaceAll(" ", "|")})\\b`;
  const KEYWORDS = words(
    "and as assert async await break class continue def del elif else except finally for from global " +
      "if import in is lambda nonlocal not or pass raise return try while with yield",
  );
  const languages = {
    "language-python": [
      ["comment", "#.*"],
      ["string", `[rbfu]{0,2}(?:"""[^]*?"""|'''[^]*?'''|"(?:\\\\.|[^"\\\\\\n])*"|'(?:\\\\.|[^'\\\\\\n])*')`],
      ["title", "(?<=\\b(?:def|class)\\s)\\w+"],
      ["literal", words("None True False")],
      ["keyword", KEYWORDS],
      ["number", "\\b\\d[\\d_]*(?:\\.\\d+)?(?:e[+-]?\\d+)?\\b"],
    ],
    "language-console": [["meta", "^\\$ "]],
  };
  const highlightBlock = (code) => {
    const rules = Object.entries(languages).find(([name]) => code.classList.contains(name))?.[1];
    if (!rules) return;
    const pattern = new RegExp(rules.map(([, source]) => `(${source})`).join("|"), "gm");
    const text = code.textContent;
    const parts = [];
    let from = 0;
    for (const match of text.matchAll(pattern)) {
      const span = document.createElement("span");
      span.className = `hljs-${rules[match.slice(1).findIndex((group) => group !== undefined)][0]}`;
      span.textContent = match[0];
      parts.push(text.slice(from, match.index), span);
      from = match.index + match[0].length;
    }
    code.replaceChildren(...parts, text.slice(from));
  };
  return { configure() {}, highlightBlock };
})();
