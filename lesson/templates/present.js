"use strict";
// ?present: one section a screen, in large letters. Arrow keys and the buttons turn the pages.
{
  const isFirst = (node) => node.matches("h1, h2, figure, .ruler, .block, .step") || node.querySelector("h2");
  if (new URLSearchParams(location.search).has("present")) {
    const screens = [];
    for (const node of document.querySelectorAll("main > :not(.findings), .findings > *")) {
      if (isFirst(node) || !screens.length) screens.push([]);
      screens.at(-1).push(node);
    }
    let place = 0;
    const button = (text, label, step) => {
      const node = document.createElement("button");
      node.append(text);
      node.ariaLabel = label;
      node.addEventListener("click", () => show(place + step));
      return node;
    };
    const at = document.createElement("span"), bar = document.createElement("nav");
    bar.className = "turner";
    bar.ariaLabel = "screens";
    at.role = "status";
    const leave = document.createElement("a");
    leave.href = location.pathname;
    leave.append("leave");
    bar.append(button("←", "previous screen", -1), at, button("→", "next screen", 1), leave);
    const show = (to) => {
      place = Math.min(Math.max(to, 0), screens.length - 1);
      screens.forEach((nodes, i) => nodes.forEach((node) => node.classList.toggle("offstage", i !== place)));
      at.textContent = `${place + 1} of ${screens.length}`;
      scrollTo(0, 0);
    };
    const steps = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 };
    addEventListener("keydown", (event) => {
      const isPlain = !(event.altKey || event.ctrlKey || event.metaKey || event.shiftKey);
      if (event.key in steps && isPlain && !/** @type {Element} */ (event.target).closest("input, select, textarea")) {
        event.preventDefault();
        show(place + steps[event.key]);
      }
    });
    addEventListener("hashchange", () => {
      const target = document.getElementById(location.hash.slice(1));
      const found = target ? screens.findIndex((nodes) => nodes.some((node) => node.contains(target))) : -1;
      if (found >= 0) show(found);
      target?.scrollIntoView();
    });
    for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[href]"))) {
      const [, page, rest] = /^([\w-]+\.html)(.*)$/.exec(link.getAttribute("href")) ?? [];
      if (page) link.href = `${page}?present${rest}`;
    }
    document.documentElement.classList.add("present");
    document.body.append(bar);
    show(0);
    if (location.hash) dispatchEvent(new Event("hashchange"));
  }
}
