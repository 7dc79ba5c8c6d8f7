// The film of a player: finds an address that can be seeked, plays a range of frames, follows the theme.

globalThis.kernelPlayer = {};

// An address whose video can be seeked. Chromium cannot seek one from a server that answers no Range request (nor can it
// be told beforehand); then the answer is the whole film, and a blob of it can be seeked.
kernelPlayer.seekable = async (address) => {
  if (location.protocol === "file:") return address;
  const answer = await fetch(address, { headers: { Range: "bytes=0-0" } });
  if (answer.status === 206) return address;
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return URL.createObjectURL(await answer.blob());
};

kernelPlayer.Film = class {
  #video;
  #folder;
  #fps;
  #addresses = new Map();
  #ready = null;
  #theme = null;
  #start = 0; // the first frame of a played range
  #end = null; // the frame it stops before; null: plays on
  #waiting = 0;

  // `onFrame` is told the frame shown, whenever it may have changed.
  constructor(video, folder, fps, onFrame) {
    this.#video = video;
    this.#folder = folder;
    this.#fps = fps;
    const tick = () => {
      if (this.#waiting || video.seeking) return;
      this.#stopAtEnd();
      onFrame(Math.floor(video.currentTime * fps + 1e-3));
    };
    const loop = () => {
      if (video.paused) return;
      tick();
      requestAnimationFrame(loop);
    };
    video.addEventListener("play", () => requestAnimationFrame(loop));
    video.addEventListener("timeupdate", tick);
    video.addEventListener("pause", () => {
      if (!this.#waiting) this.#end = null;
    });
  }

  // Captions and chapters, from `[{ first, frames, label, caption }]`. Track elements fail on file://, so they are built.
  addTracks(steps) {
    const add = (kind, label, text) => {
      const track = this.#video.addTextTrack(kind, label, "en");
      for (const step of steps) {
        const [from, to] = [step.first / this.#fps, (step.first + step.frames) / this.#fps];
        track.addCue(new VTTCue(from, to, text(step)));
      }
      track.mode = "hidden";
    };
    add("captions", "Captions", (step) => step.caption);
    add("chapters", "Steps", (step) => step.label);
  }

  // Load the film of `theme`; the place, and whether it plays, stay.
  load(theme) {
    if (theme !== this.#theme) {
      this.#theme = theme;
      this.#ready = this.#load(theme);
    }
    return this.#ready;
  }

  // Show the frame `frame`, paused.
  show(frame) {
    return this.#at(frame, null, false);
  }

  // Play `frames` frames from `first`, then stop at the last of them.
  play(first, frames) {
    return this.#at(first, first + frames, true);
  }

  // Whether a played range begins again at its end.
  looping = false;

  // How fast it plays; a film loaded later plays as fast.
  set speed(speed) {
    this.#video.defaultPlaybackRate = this.#video.playbackRate = speed;
  }

  // Play on from where it is, or pause.
  toggle() {
    if (!this.#video.paused) return this.#video.pause();
    return this.#whileWaiting(async () => {
      await this.#settled();
      this.#end = null;
      await this.#video.play();
    });
  }

  async #at(frame, end, playing) {
    await this.#whileWaiting(async () => {
      await this.#settled();
      if (!playing) this.#video.pause();
      this.#start = frame;
      this.#end = end;
      this.#video.currentTime = (frame + 0.5) / this.#fps;
      if (playing) await this.#video.play();
    });
  }

  // Until the film asked for last is loaded.
  async #settled() {
    for (let ready = null; ready !== this.#ready; ) {
      ready = this.#ready;
      await ready;
    }
  }

  async #load(theme) {
    const video = this.#video;
    if (!this.#addresses.has(theme)) {
      this.#addresses.set(theme, kernelPlayer.seekable(`${this.#folder}/${theme}.mp4`));
    }
    const address = await this.#addresses.get(theme);
    if (theme !== this.#theme) return;
    await this.#whileWaiting(async () => {
      const [time, playing] = [video.currentTime, !video.paused];
      await new Promise((resolve, reject) => {
        video.addEventListener("loadedmetadata", resolve, { once: true });
        video.addEventListener("error", () => reject(video.error), { once: true });
        video.preload = "metadata";
        video.poster = `${this.#folder}/poster-${theme}.webp`;
        video.src = address;
      });
      video.currentTime = time || 0.5 / this.#fps;
      if (playing) await video.play();
    });
  }

  async #whileWaiting(work) {
    this.#waiting += 1;
    try {
      await work();
    } catch (error) {
      if (error?.name !== "AbortError") throw error; // a pause or another load came before the film played
    } finally {
      this.#waiting -= 1;
    }
  }

  #stopAtEnd() {
    const last = (this.#end - 0.5) / this.#fps;
    if (this.#end === null || this.#video.paused || this.#video.currentTime < last) return;
    if (this.looping) {
      this.#video.currentTime = (this.#start + 0.5) / this.#fps;
    } else {
      this.#video.pause();
      this.#video.currentTime = last;
    }
  }
};
