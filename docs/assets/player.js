// The player: film, step list, code, snapshot and traffic of one recording, always at the same step.

(() => {
  const stillness = matchMedia("(prefers-reduced-motion: reduce)");
  const themeOf = () => (document.body.dataset.mdColorScheme === "slate" ? "dark" : "light");

  const scrollTo = (pane, element) => {
    const [outer, inner] = [pane.getBoundingClientRect(), element.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) {
      pane.scrollTop += inner.top - outer.top - (outer.height - Math.min(inner.height, outer.height)) / 3;
    }
  };

  class Player {
    #figure;
    #steps;
    #film;
    #current = -1;
    #snapshots = null;

    constructor(figure) {
      this.#figure = figure;
      this.#steps = [...figure.querySelectorAll("button[data-step]")].map((button) => ({
        button,
        id: button.dataset.step,
        first: Number(button.dataset.firstFrame),
        frames: Number(button.dataset.frames),
        section: button.dataset.section,
        loop: button.dataset.loop,
        label: button.textContent,
        caption: button.dataset.caption,
      }));
      const video = figure.querySelector("video");
      const { films, fps } = figure.dataset;
      this.#film = new kernelPlayer.Film(video, films, Number(fps), (frame) =>
        this.#mark(this.#stepAt(frame)),
      );
      this.#film.addTracks(this.#steps);
      this.#listen(video);
      figure.classList.add("live");
      for (const button of figure.querySelectorAll("button")) button.disabled = false;
      // From here on the address moves the film, so it must not scroll the page to an entry of the list.
      for (const { button } of this.#steps) button.parentElement.removeAttribute("id");
      this.#mark(0);
      if (this.named >= 0) this.open(this.named);
    }

    // Load film and snapshots; called when the reader comes near.
    load() {
      this.#film.load(themeOf());
      const { recording, films } = this.#figure.dataset;
      this.#snapshots ??= kernelPlayer.snapshots(recording, `${films}/snapshots.js`).then((data) => {
        this.#snapshots = data;
        this.#draw();
      });
    }

    // Follow the theme, if there is a film to follow it.
    followTheme() {
      if (this.#snapshots) this.load();
      this.#draw();
    }

    // The step that the address names; -1 if it is none of this player.
    get named() {
      return this.#steps.findIndex((step) => location.hash === `#${this.#anchor(step)}`);
    }

    // Open at the step `index`, still.
    open(index) {
      this.load();
      this.#mark(index);
      this.#film.show(this.#steps[index].first);
      this.#figure.scrollIntoView();
    }

    // Play the step `index` from its start to its end; where motion is unwelcome, show how it ends.
    pick(index) {
      const step = this.#steps[Math.max(0, Math.min(this.#steps.length - 1, index))];
      this.load();
      this.#mark(this.#steps.indexOf(step));
      history.replaceState(null, "", `#${this.#anchor(step)}`);
      if (stillness.matches) this.#film.show(step.first + step.frames - 1);
      else this.#film.play(step.first, step.frames);
    }

    #anchor(step) {
      return `${this.#figure.dataset.recording}-${step.id}`;
    }

    #stepAt(frame) {
      return this.#steps.findLastIndex((step) => step.first <= frame);
    }

    #listen(video) {
      const figure = this.#figure;
      const actions = {
        previous: () => this.pick(this.#current - 1),
        replay: () => this.pick(this.#current),
        next: () => this.pick(this.#current + 1),
        "play-on": () => {
          this.load();
          this.#film.toggle();
        },
      };
      const keys = {
        ArrowLeft: actions.previous,
        ArrowRight: actions.next,
        Home: () => this.pick(0),
        End: () => this.pick(this.#steps.length - 1),
      };
      figure.addEventListener("click", ({ target }) => {
        const button = target.closest("button");
        if (button?.dataset.step) this.pick(this.#steps.findIndex((step) => step.button === button));
        else if (button) actions[button.dataset.do]();
      });
      // Before the video's own keys; the code keeps its own, to scroll.
      figure.addEventListener(
        "keydown",
        (event) => {
          const action = keys[event.key];
          if (!action || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
          if (event.target.closest("pre")) return;
          event.preventDefault();
          action();
        },
        { capture: true },
      );
      const playOn = figure.querySelector('[data-do="play-on"]');
      for (const type of ["play", "pause"]) {
        video.addEventListener(type, () => {
          playOn.textContent = video.paused ? "▶" : "⏸";
          playOn.title = video.paused ? "Play on from here" : "Pause";
          playOn.setAttribute("aria-label", playOn.title);
        });
      }
    }

    // Make `index` the step that list, code, snapshot and traffic show.
    #mark(index) {
      if (index === this.#current || index < 0) return;
      this.#current = index;
      const step = this.#steps[index];
      for (const { button } of this.#steps) {
        button.toggleAttribute("aria-current", false);
        if (button === step.button) button.setAttribute("aria-current", "step");
      }
      this.#figure.querySelector(".caption").textContent = step.caption;
      for (const loop of this.#figure.querySelectorAll(".loop")) loop.textContent = step.loop;
      scrollTo(this.#figure.querySelector(".list"), step.button);
      this.#markLines(step.section);
      this.#draw();
    }

    #markLines(section) {
      const marked = [];
      for (const line of this.#figure.querySelectorAll(".code [data-line]")) {
        line.removeAttribute("aria-current");
        if (section && line.dataset.sections.split(" ").includes(section)) {
          line.setAttribute("aria-current", "step");
          marked.push(line);
        }
      }
      const span = this.#figure.querySelector(".code .span");
      span.textContent = marked.length ? `lines ${marked[0].dataset.line}–${marked.at(-1).dataset.line}` : "";
      if (marked.length) {
        const pane = this.#figure.querySelector(".code pre");
        scrollTo(pane, marked.at(-1));
        scrollTo(pane, marked[0]);
      }
    }

    #draw() {
      if (!this.#snapshots?.steps) return;
      const panel = (name) => this.#figure.querySelector(`.${name}`);
      const ids = this.#steps.map((step) => step.id);
      kernelPlayer.drawStep(panel("snapshot"), panel("traffic"), this.#snapshots, ids, ids[this.#current]);
    }
  }

  const players = new Map();
  const near = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) if (isIntersecting) players.get(target).load();
    },
    { rootMargin: "50% 0px" },
  );
  for (const figure of document.querySelectorAll("figure.kernel-player")) {
    players.set(figure, new Player(figure));
    near.observe(figure);
  }
  new MutationObserver(() => {
    for (const player of players.values()) player.followTheme();
  }).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
  addEventListener("hashchange", () => {
    for (const [figure, player] of players) {
      if (player.named < 0) continue;
      figure.scrollIntoView();
      player.pick(player.named);
    }
  });
})();
