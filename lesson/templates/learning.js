// One slider for the films of all models; without JavaScript, every moment is in the page.
{
  const slider = /** @type {HTMLInputElement} */ (document.getElementById("moment"));
  const films = [...document.querySelectorAll(".film ol")].map((list) => /** @type {HTMLElement[]} */ ([...list.children]));
  const show = () => {
    for (const moments of films) {
      const chosen = Math.min(Number(slider.value), moments.length - 1);
      moments.forEach((moment, i) => { moment.hidden = i !== chosen; });
    }
    document.getElementById("now")?.setAttribute("transform", `translate(${196 * (Number(slider.value) / Number(slider.max) - 1)})`);
    slider.ariaValueText = films.map(([...moments]) => moments.find((moment) => !moment.hidden))[0].querySelector(".share").textContent;
  };
  document.getElementById("films").classList.add("played");
  document.getElementById("slider").hidden = false;
  slider.addEventListener("input", show);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) { // once, until someone takes the slider
    slider.value = "0";
    const timer = setInterval(() => {
      slider.value = String(Number(slider.value) + 1);
      if (slider.value === slider.max) clearInterval(timer);
      show();
    }, 600);
    for (const type of ["pointerdown", "keydown"]) slider.addEventListener(type, () => clearInterval(timer));
  }
  show();
}
