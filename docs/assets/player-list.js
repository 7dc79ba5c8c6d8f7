// The step list, moved by its grip: onto the film and about on it, and back beside it. The reader's choice is kept.

// Scroll `pane`, and nothing around it, until `element` is in view there.
kernelPlayer.scrollTo = (pane, element) => {
  const [outer, inner] = [pane.getBoundingClientRect(), element.getBoundingClientRect()];
  const head = pane.querySelector(".head")?.offsetHeight ?? 0; // stays in view, over what it heads
  if (inner.top < outer.top + head || inner.bottom > outer.bottom) {
    pane.scrollTop += inner.top - outer.top - (outer.height - Math.min(inner.height, outer.height)) / 3;
  }
};

kernelPlayer.movable = (figure) => {
  const [list, stage, grip] = [".list", ".stage", ".grip"].map((name) => figure.querySelector(name));
  const { kept } = kernelPlayer;
  const STEP = 0.04; // of the film, for an arrow key

  // Put the list at `x`, `y`, parts of the film's width and height, or beside it: null.
  const put = (place) => {
    figure.classList.toggle("afloat", place !== null);
    grip.setAttribute("aria-pressed", place !== null);
    if (place) {
      const room = {
        x: 1 - list.offsetWidth / stage.offsetWidth,
        y: 1 - list.offsetHeight / stage.offsetHeight,
      };
      for (const axis of ["x", "y"]) place[axis] = Math.max(0, Math.min(room[axis], place[axis]));
      list.style.left = `${100 * place.x}%`;
      list.style.top = `${place.y * stage.offsetHeight}px`;
    } else {
      list.style.left = list.style.top = "";
    }
    const current = list.querySelector("[aria-current]");
    if (current) kernelPlayer.scrollTo(list, current);
    kept.set("list", JSON.stringify(place));
    return place;
  };

  let place = put(JSON.parse(kept.get("list") ?? "null"));

  grip.addEventListener("pointerdown", (down) => {
    const [from, film] = [list.getBoundingClientRect(), stage.getBoundingClientRect()];
    const [dx, dy] = [down.clientX - from.left, down.clientY - from.top];
    const move = (event) => {
      const over = event.clientX < film.right && event.clientY > film.top && event.clientY < film.bottom;
      const at = {
        x: (event.clientX - dx - film.left) / film.width,
        y: (event.clientY - dy - film.top) / film.height,
      };
      place = put(over ? at : null);
    };
    grip.setPointerCapture(down.pointerId);
    grip.addEventListener("pointermove", move);
    grip.addEventListener("lostpointercapture", () => grip.removeEventListener("pointermove", move), {
      once: true,
    });
  });

  grip.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter" || event.key === " ") place = put(place ? null : { x: 1, y: 0 });
    else if (way && place) place = put({ x: place.x + STEP * way[0], y: place.y + STEP * way[1] });
    else return;
    event.preventDefault();
  });
};
