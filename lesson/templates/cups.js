// A shell game: each click swaps two cups, which the page names, and hides the ball.
import { element, query } from "./page.js";

{
  const cups = [...document.querySelectorAll("#cups li")], told = query("#told");
  let ball = 0, n = 0;
  const show = (isShown) => cups.forEach((cup, i) => { cup.textContent = isShown && i === ball ? "●" : "∩"; });
  query("#swap").addEventListener("click", () => {
    const still = Math.floor(3 * Math.random()), [one, other] = [0, 1, 2].filter((i) => i !== still);
    if (ball !== still) ball = ball === one ? other : one;
    show(false);
    for (const cup of cups) cup.classList.toggle("now", cup !== cups[still]);
    told.replaceChildren(element("span", {}, `Swap ${++n}: cups ${one + 1} and ${other + 1}. Where is the ball?`));
  });
  query("#show").addEventListener("click", () => {
    show(true);
    told.textContent = `After ${n} swaps, it is under cup ${ball + 1}.`;
  });
  query("#game").hidden = false;
}
