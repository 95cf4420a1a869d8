// A shell game: the reader swaps cups, and the table marks the tested number of moves up to theirs.
const SWAPS = [[1, 2], [1, 3], [2, 3]];

/** The cup of the ball that starts under a cup, after moves that swap two cups each. @param {number[][]} moves @param {number} start */
const follow = (moves, start) => moves.reduce((cup, [i, j]) => (cup === i ? j : cup === j ? i : cup), start);

/** The place of the largest of some rising numbers that is not above n; -1: all are. @param {number[]} numbers @param {number} n */
const findTested = (numbers, n) => numbers.filter((number) => number <= n).length - 1;

/** Moves, drawn at random. @param {number} n @param {() => number} draw */
const drawSwaps = (n, draw) => Array.from({ length: n }, () => SWAPS[Math.floor(SWAPS.length * draw())]);

{
  const cups = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#cups li")]);
  const heads = [...document.querySelectorAll("#shares thead th")].slice(1);
  const numbers = heads.map((th) => Number(th.textContent));
  const rows = /** @type {HTMLTableRowElement[]} */ ([...document.querySelectorAll("#shares tr")]);
  /** @type {number[][]} */
  let moves = [];
  let isShown = true;

  const show = () => {
    const cup = follow(moves, 1), place = findTested(numbers, moves.length);
    cups.forEach((li, i) => { li.textContent = isShown && i === cup - 1 ? "●" : "∩"; });
    for (const row of rows) [...row.cells].forEach((cell, i) => { cell.classList.toggle("now", i > 0 && i === place + 1); });
    const asked = isShown ? `The ball is under cup ${cup}.` : "Under which cup is the ball?";
    const tested = place < 0 ? "" : ` In the table: ${numbers[place]} moves.`;
    const last = moves.length ? ` The last swapped cups ${moves[moves.length - 1].join(" and ")}.` : "";
    document.getElementById("told").textContent = `${moves.length} moves.${last} ${asked}${tested}`;
  };
  /** @type {Record<string, () => void>} */
  const actions = {
    many: () => { moves.push(...drawSwaps(8, Math.random)); isShown = false; },
    show: () => { isShown = true; },
    again: () => { moves = []; isShown = true; },
  };
  for (const [i, j] of SWAPS) actions[`swap-${i}-${j}`] = () => { moves.push([i, j]); isShown = false; };
  for (const [id, act] of Object.entries(actions)) document.getElementById(id).addEventListener("click", () => { act(); show(); });
  document.getElementById("game").hidden = false;
  show();
}
