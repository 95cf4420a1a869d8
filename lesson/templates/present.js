// ?present: one section a screen, in large letters. Arrow keys, PageUp, PageDown and the buttons turn
// the pages. If the address is that of a step of the plan, the bar has its question, and they lead
// from its last screen to the next step and from its first back to the end of the one before; with
// Shift, they stay in the page. A screen can have several turns: what has `data-at` is there at one
// of them, and what has `data-from`, as the answers of the plan, from one of them on.
if (new URLSearchParams(location.search).has("present")) {
  const root = document.documentElement, here = location.pathname.split("/").at(-1);
  const isFirst = (node) => node.matches("h1, h2, figure, .opening + script + p, .ruler, .block, .step") || node.querySelector("h2");
  /** @type {HTMLElement[][]} */
  const groups = [];
  for (const node of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("main > :not(.findings), .findings > *"))) {
    if (isFirst(node) || !groups.length) groups.push([]);
    groups.at(-1).push(node);
  }
  const groupOf = (node) => groups.findIndex((nodes) => nodes.some((one) => one.contains(node)));
  /** @param {HTMLElement} node */
  const turnOf = ({ dataset: { at, from } }) => Number(at ?? from);
  const timed = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-at], [data-from]")]);
  const turnAt = (node) => { const own = node.closest("[data-at], [data-from]"); return own ? turnOf(own) : 0; };

  const steps = /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll("#steps a")]).map((link) => {
    const [page, id] = link.getAttribute("href").split(/\?present#/);
    return { link, target: page === here ? document.getElementById(id) : null };
  });
  for (const { link: { dataset: { answer } }, target } of steps.filter((step) => step.target)) {
    for (const node of answer ? /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(answer)) : []) {
      if (groupOf(node) === groupOf(target)) node.dataset.from = String(turnAt(target) + 1);
    }
  }
  const screens = groups.flatMap((nodes, group) => Array.from(
    { length: 1 + Math.max(0, ...timed().filter((node) => groupOf(node) === group).map(turnOf)) }, (_, turn) => ({ nodes, group, turn })));
  const screenOf = (node) => screens.findIndex(({ group, turn }) => group === groupOf(node) && turn === turnAt(node));

  const make = (name, values, ...children) => {
    const node = Object.assign(document.createElement(name), values);
    node.append(...children);
    return node;
  };
  const at = make("span", { role: "status" }), asked = make("p", {}), next = make("a", {}), leave = make("a", { href: location.pathname }, "leave");
  const hint = make("small", {}, "↑ ↓ choose");
  const button = (text, label, step) => {
    const node = make("button", { ariaLabel: label, title: "with Shift, within this page" }, text);
    node.addEventListener("click", ({ shiftKey }) => turn(step, shiftKey));
    return node;
  };
  const bar = make("nav", { className: "turner", ariaLabel: "screens" }, asked, hint, button("←", "previous screen", -1), at, button("→", "next screen", 1),
    next, make("a", { href: "teach.html#plan" }, "plan"), leave);
  const END = "!"; // of an address: the last screen of a step
  const readId = () => location.hash.slice(1).replace(END, "");
  let place = 0;

  /** The step that the address names, and the places of its first and its last screen. */
  const findStep = () => {
    const i = steps.findIndex(({ target }) => target?.id === readId()), step = steps[i], first = step ? screenOf(step.target) : 0;
    return { step, before: steps[i - 1], after: step && steps[i + 1], first, last: first + Number(step?.link.dataset.screens) - 1 };
  };
  const addressOf = (step) => step.link.getAttribute("href");

  /** The screens that have something on them now: a control can hide all that one has. */
  const listLive = () => {
    root.classList.remove("present");
    const live = screens.flatMap(({ nodes }, i) => (nodes.some((node) => node.checkVisibility()) ? [i] : []));
    root.classList.add("present");
    return live;
  };
  const listRadios = () => /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll("[type=radio]")]).filter((node) => node.checkVisibility());
  const show = (to) => {
    place = to;
    const { nodes, group, turn } = screens[place], live = listLive(), { step, after, last } = findStep();
    groups.forEach((its, i) => its.forEach((node) => node.classList.toggle("offstage", i !== group)));
    for (const node of timed()) node.classList.toggle("untimely", node.dataset.at ? Number(node.dataset.at) !== turn : turnOf(node) > turn);
    root.classList.toggle("asking", nodes.every((node) => node.matches("h2, .untimely")));
    for (const node of nodes) if (node.dataset.guest) node.append(document.getElementById(node.dataset.guest));
    for (const { target } of steps) if (target?.matches("[type=radio]") && screenOf(target) === place) target.click();
    hint.hidden = !listRadios().length;
    at.textContent = `${live.indexOf(place) + 1} of ${live.length}`;
    asked.textContent = step ? step.link.title : "";
    next.hidden = !after;
    next.classList.toggle("due", place >= last);
    if (after) Object.assign(next, { href: addressOf(after), textContent: `${after.link.textContent} ⇥`, title: "the next step of the plan" });
    scrollTo(0, 0);
  };
  const turn = (step, isInPage = false) => {
    const { before, after, first, last } = findStep(), live = listLive(), to = step > 0 ? live.find((i) => i > place) : live.findLast((i) => i < place);
    const other = step > 0 ? place >= last && after : place <= first && before;
    if (other && !isInPage) location.assign(addressOf(other) + (step > 0 ? "" : END));
    else if (to !== undefined) show(to);
  };
  const follow = () => {
    const target = document.getElementById(readId()), found = target ? screenOf(target) : -1;
    if (found >= 0) show(location.hash.endsWith(END) ? findStep().last : found);
    target?.scrollIntoView();
  };

  const directions = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }, choices = { ArrowDown: 1, ArrowUp: -1 };
  addEventListener("keydown", (event) => {
    const isPlain = !(event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented);
    const node = /** @type {Element} */ (event.target), isText = node.closest("textarea, input[type=search]") && event.key.startsWith("Arrow");
    const radios = listRadios(), radio = radios[radios.findIndex(({ checked }) => checked) + choices[event.key]];
    if (event.key in directions && isPlain && !isText) {
      event.preventDefault();
      turn(directions[event.key], event.shiftKey);
    } else if (radio && isPlain && !node.closest("input, select, textarea, [tabindex]")) { // which have keys of their own
      event.preventDefault();
      radio.focus();
      radio.click();
    }
  });
  const keep = ({ target }) => { // links to other pages of the lesson present them, too
    const link = target.closest?.("a[href]"), [, page, , place = ""] = /^([\w-]+\.html)?(\?[^#]*)?(#.*)?$/.exec(link?.getAttribute("href")) ?? [];
    if (page) link.setAttribute("href", `${page}${location.search}${place}`);
    if (place && [undefined, here].includes(page)) setTimeout(follow); // also if the address stays the same
  };
  for (const type of ["click", "auxclick", "contextmenu"]) document.addEventListener(type, keep, true);
  addEventListener("hashchange", follow);
  document.body.append(bar);
  show(0);
  follow();
}
