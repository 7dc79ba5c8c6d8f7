// The player: film, step list, code, snapshot and traffic of one recording, always at the same step.

(() => {
  const stillness = matchMedia("(prefers-reduced-motion: reduce)");
  const themeOf = () => (document.body.dataset.mdColorScheme === "slate" ? "dark" : "light");

  // What a reader chose, kept for the next visit; nothing where the browser keeps nothing.
  kernelPlayer.kept = {
    get: (name) => {
      try {
        return localStorage.getItem(`kernel-player-${name}`);
      } catch {
        return null;
      }
    },
    set: (name, value) => {
      try {
        localStorage.setItem(`kernel-player-${name}`, value);
      } catch {}
    },
  };
  const { kept, scrollTo } = kernelPlayer;

  class Player {
    #figure;
    #steps;
    #film;
    #current = -1;
    #near = false;
    #snapshots = null;

    constructor(figure) {
      this.#figure = figure;
      this.#steps = [...figure.querySelectorAll("button[data-step]")].map((button) => ({
        button,
        id: button.dataset.step,
        first: Number(button.dataset.firstFrame),
        frames: Number(button.dataset.frames),
        section: button.dataset.section,
        block: button.dataset.block,
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
      for (const control of figure.querySelectorAll("button, select")) control.disabled = false;
      this.#setSpeed(kept.get("speed") ?? "1");
      this.#showCode("kernel");
      kernelPlayer.movable?.(figure);
      // From here on the address moves the film, so it must not scroll the page to an entry of the list.
      for (const { button } of this.#steps) button.parentElement.removeAttribute("id");
      const last = this.#steps.findIndex((step) => step.id === kept.get(figure.dataset.recording));
      this.#mark(Math.max(0, last));
      if (this.named >= 0) this.open(this.named);
    }

    // Load the film, and the snapshots unless they are large; called when the reader comes near.
    load() {
      const ready = this.#film.load(themeOf());
      // Where the reader was last time, unless a step is on its way already.
      if (!this.#near && this.#current > 0)
        ready.then(() => this.#film.show(this.#steps[this.#current].first));
      this.#near = true;
      if (!this.#figure.querySelector(".ask")) this.#loadSnapshots();
    }

    #loadSnapshots() {
      const { recording, films } = this.#figure.dataset;
      this.#snapshots ??= kernelPlayer.snapshots(recording, `${films}/snapshots.js`).then((data) => {
        this.#snapshots = data;
        this.#draw();
      });
    }

    // Follow the theme, if there is a film to follow it.
    followTheme() {
      if (this.#near) this.load();
      this.#draw();
    }

    // The step that the address names; -1 if it is none of this player.
    get named() {
      return this.#steps.findIndex((step) => location.hash === `#${this.#anchor(step)}`);
    }

    // Open at the step `index`, still.
    open(index) {
      this.#mark(index);
      this.load();
      this.#loadSnapshots();
      this.#film.show(this.#steps[index].first);
      this.#figure.scrollIntoView();
    }

    // Play the step `index` from its start to its end; where motion is unwelcome, show how it ends.
    pick(index) {
      const step = this.#steps[Math.max(0, Math.min(this.#steps.length - 1, index))];
      this.load();
      this.#loadSnapshots();
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
        loop: () => {
          this.#film.looping = !this.#film.looping;
          figure.querySelector('[data-do="loop"]').setAttribute("aria-pressed", this.#film.looping);
          if (this.#film.looping) this.pick(this.#current);
        },
        enlarge: () => {
          const large = figure.classList.toggle("large");
          figure.querySelector('[data-do="enlarge"]').setAttribute("aria-pressed", large);
          // Where the film is wider than its frame, that takes the focus, and arrow keys move the film.
          const stage = figure.querySelector(".stage");
          if (large) stage.tabIndex = 0;
          else stage.removeAttribute("tabindex");
        },
        numbers: () => this.#loadSnapshots(),
        help: () => {
          const help = figure.querySelector(".help");
          help.hidden = !help.hidden;
          figure.querySelector('[data-do="help"]').setAttribute("aria-expanded", !help.hidden);
        },
      };
      for (const button of figure.querySelectorAll('[data-do="loop"], [data-do="enlarge"]'))
        button.setAttribute("aria-pressed", false);
      for (const button of figure.querySelectorAll('[data-do="help"]'))
        button.setAttribute("aria-expanded", false);
      const keys = {
        " ": actions["play-on"],
        "?": actions.help,
        l: actions.loop,
        ArrowLeft: actions.previous,
        ArrowRight: actions.next,
        Home: () => this.pick(0),
        End: () => this.pick(this.#steps.length - 1),
      };
      figure.addEventListener("click", ({ target }) => {
        const button = target.closest("button");
        if (button?.dataset.step) this.pick(this.#steps.findIndex((step) => step.button === button));
        else if (button?.dataset.do) actions[button.dataset.do]();
        else if (button?.dataset.code) this.#showCode(button.dataset.code);
      });
      figure.querySelector("select").addEventListener("change", ({ target }) => this.#setSpeed(target.value));
      for (const type of ["pointerover", "focusin"]) {
        figure.addEventListener(type, ({ target }) => {
          const term = target.closest?.(".formulas [class*='term-'], .slot");
          this.#light(/term-\w+/.exec(term?.className)?.[0]);
        });
      }
      figure.addEventListener("pointerleave", () => this.#light());
      for (let step = 1; step < 10; step++) keys[step] = () => this.pick(step);
      // Before the video's own keys; what scrolls, chooses or is pressed keeps its own.
      figure.addEventListener(
        "keydown",
        (event) => {
          const action = keys[event.key];
          if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
          if (event.shiftKey && event.key !== "?") return;
          if (event.target.closest("pre, select, .grip") || event.target.matches(".stage")) return;
          if (event.key === " " && event.target.closest("button, summary")) return;
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

    #setSpeed(speed) {
      this.#film.speed = Number(speed);
      this.#figure.querySelector("select").value = speed;
      kept.set("speed", speed);
    }

    // Show the kernel's source, or the Python that launches it.
    #showCode(which) {
      const code = this.#figure.querySelector(".code");
      code.dataset.shown = which;
      for (const tab of code.querySelectorAll("[data-code]")) {
        tab.setAttribute("aria-pressed", tab.dataset.code === which);
      }
    }

    // Light what has the class `term`, in the formulas and among the slots; without one, nothing.
    #light(term) {
      for (const lit of this.#figure.querySelectorAll(".lit")) lit.classList.remove("lit");
      if (!term) return;
      for (const place of this.#figure.querySelectorAll(`.formulas .${term}, .slot.${term}`))
        place.classList.add("lit");
    }

    // Make `index` the step that list, code, snapshot and traffic show.
    #mark(index) {
      if (index === this.#current || index < 0) return;
      const step = this.#steps[index];
      if (this.#current >= 0) kept.set(this.#figure.dataset.recording, step.id);
      this.#current = index;
      for (const { button } of this.#steps) {
        button.toggleAttribute("aria-current", false);
        if (button === step.button) button.setAttribute("aria-current", "step");
      }
      this.#figure.querySelector(".caption").textContent = step.caption;
      this.#figure.querySelector(".block").textContent = step.block;
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
      for (const part of this.#figure.querySelectorAll('.formulas [class*="of-"]')) {
        part.classList.toggle("active", part.classList.contains(`of-${section}`));
      }
      const formulas = this.#figure.querySelector(".formulas");
      const lit = formulas?.querySelector(".active");
      if (lit) scrollTo(formulas, lit);
      if (formulas)
        formulas.querySelector(".which").textContent = lit
          ? "this step's are marked"
          : "this step computes nothing";
      const [from, to] = [marked[0]?.dataset.line, marked.at(-1)?.dataset.line];
      this.#figure.querySelector(".code .span").textContent =
        from === to ? (from ? `line ${from}` : "no line belongs to this step") : `lines ${from}–${to}`;
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
      kernelPlayer.drawStep(
        panel("snapshot"),
        panel("traffic"),
        panel("row"),
        this.#snapshots,
        ids,
        ids[this.#current],
      );
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
