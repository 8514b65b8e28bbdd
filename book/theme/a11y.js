// Mends what axe-core finds in a stock mdBook 0.5 page, from outside: no template is overridden.
(() => {
  "use strict";
  // A <label> with aria-expanded, no role, out of the keyboard's reach: rust-lang/mdBook #2345, #2615.
  const toggle = document.getElementById("mdbook-sidebar-toggle");
  if (toggle) {
    const box = document.getElementById(toggle.getAttribute("for"));
    toggle.removeAttribute("for");
    toggle.setAttribute("role", "button");
    toggle.tabIndex = 0;
    toggle.addEventListener("click", () => box.click());
    toggle.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        toggle.click();
      }
    });
  }
  document.getElementById("mdbook-menu-bar")?.setAttribute("role", "banner");

  // What scrolls sideways must be reachable by keyboard, and its arrows must not turn the page.
  const names = [
    ["main pre > code", "code"],
    ["main .math-block", "equation"],
    ["main .table-wrapper", "table"],
  ];
  const reach = () => {
    for (const [selector, name] of names) {
      for (const element of document.querySelectorAll(selector)) {
        const scrolls = element.scrollWidth > element.clientWidth + 1;
        element.toggleAttribute("data-scrolls", scrolls);
        if (scrolls) {
          element.tabIndex = 0;
          element.setAttribute("role", "group");
          element.setAttribute("aria-label", `${name}, scrolls sideways`);
        }
      }
    }
  };
  reach();
  addEventListener("resize", reach);
  addEventListener("load", reach);
  document.fonts?.ready.then(reach);
  const keepsArrows = "[data-scrolls], input, select";
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key.startsWith("Arrow") && event.target.matches?.(keepsArrows)) {
        event.stopPropagation();
      }
    },
    true,
  );

  // Folded answers are printed open.
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("main details:not([open])")) folded.open = true;
  });
})();
