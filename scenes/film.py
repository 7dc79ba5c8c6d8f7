"""A film: a Manim scene that plays one block of a trace, and knows which frames show which step."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from manim import ManimColor, Scene, config
from manim.renderer.cairo_renderer import CairoRenderer

import kernels
from kernels.errors import KernelsError
from kernels.trace import Block, Trace
from scenes import plan as places
from scenes.actions import CountTraffic, RunBlock
from scenes.camera import FigureCamera, FilmWriter
from scenes.errors import SceneError
from scenes.figure import Figure
from scenes.orders import open_trace, window_of
from scenes.score import Score, Wording, words_for, working_for
from scenes.story import Event, Loaded, Picture, Stored, Story, Window, tell_all
from scenes.tempo import Timing, ticks, timings
from scenes.theme import Theme, theme_wanted
from scenes.workings import Part, Working

_MOVING = 0.5  # of the time of a part; the rest is for reading it


@dataclass(frozen=True)
class FilmStep:
    """One entry of a film's step list; the frames are counted from the encoded video."""

    id: str
    label: str
    caption: str
    first_frame: int
    frames: int
    section: str
    trace_step: int | None


@dataclass(frozen=True)
class Take:
    """One step as it was played, and its words; it is one segment of the film."""

    words: Wording
    section: str
    trace_step: int | None


def load_trace(named: str) -> Trace:
    """The trace in the file `named`, or the recording of that name.

    Raises KernelsError if it is neither, or cannot be read.
    """
    if Path(named).is_file() or os.sep in named or named.endswith(".trace"):
        return open_trace(named)
    return kernels.recorded(named)


def stories_for(
    score: Score, trace: Trace, block: Block | None = None, window: Window | None = None
) -> tuple[Story, ...]:
    """The stories that a score's film tells of `trace`, one block after another; SceneError if it cannot."""
    if trace.kernel != score.kernel:
        raise SceneError(
            f"this scene plays traces of {score.kernel!r}, and this is a trace of {trace.kernel!r}: "
            f"use the scene of {trace.kernel!r}, or record {score.kernel!r}"
        )
    return tell_all(trace, block, window)


def block_named(text: str) -> Block:
    """The block written as ``3`` or ``3,0,0``; SceneError if it is not written so."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(part.strip().isdigit() for part in parts):
        raise SceneError(f"BLOCK={text} is not a block: write it as 3 or 3,0,0")
    x, y, z = [*map(int, parts), 0, 0][:3]
    return x, y, z


class Film(Scene):
    """Plays blocks of a trace, one after another, as its score says.

    Without arguments the trace, theme and block are those of the environment: TRACE (a file or a recording's name),
    THEME (light or dark), BLOCK, STEPS (such as 0:200). `played` is told after each step how many of how many are
    played.
    """

    score: ClassVar[Score]

    def __init__(
        self,
        trace: Trace | None = None,
        theme: Theme | None = None,
        window: Window | None = None,
        played: Callable[[int, int], None] = lambda done, of: None,
        **options: Any,
    ) -> None:
        self._given = trace, theme, window
        self._played = played
        self.takes: list[Take] = []
        options.setdefault("renderer", CairoRenderer(file_writer_class=FilmWriter, camera_class=FigureCamera))
        super().__init__(**options)

    def render(self, preview: bool = False) -> bool:
        """Make the film and its step list; bad input is one line on stderr and exit status 2."""
        try:
            rerun = bool(super().render(preview))
            if self.session_spec.output.is_video and not rerun:
                text = step_list_json(float(config.frame_rate), self.step_list)
                self.writer.movie_file_path.with_name("steps.json").write_text(text, encoding="utf-8")
            return rerun
        except KernelsError as error:
            print(error, file=sys.stderr)
            raise SystemExit(2) from None

    def setup(self) -> None:
        """Read what is to be played."""
        trace, theme, window = self._given
        block = None
        if trace is None:
            trace = load_trace(os.environ.get("TRACE", self.score.kernel.replace("_", "-")))
            block = block_named(os.environ["BLOCK"]) if os.environ.get("BLOCK") else None
            window = window_of(os.environ["STEPS"]) if os.environ.get("STEPS") else None
        self.theme = theme or theme_wanted()
        self.stories = stories_for(self.score, trace, block, window)
        self.workings = {
            (s, n): working
            for s, story in enumerate(self.stories)
            for n, picture in enumerate(story.pictures)
            if (working := working_for(self.score, story.pictures[n - 1], picture))
        }
        self.timings = timings(self.stories, self.workings)
        assert isinstance(self.camera, FigureCamera)
        self.camera.background_color = ManimColor(self.theme.paper)

    def construct(self) -> None:
        """Play each block: its opening, then every step."""
        of, before = sum(len(story.pictures) for story in self.stories), None
        for s, (story, timings_) in enumerate(zip(self.stories, self.timings, strict=True)):
            self.story = story
            self.figure = Figure(story, self.score, self.theme, self.stories)
            self.clear()
            self.add(*self.figure.mobjects)
            for n, (picture, timing) in enumerate(zip(story.pictures, timings_, strict=True)):
                if picture.skipped:
                    words, section = words_for(self.score, story, picture), self._section(picture)
                    self._skip(picture, timing, words)
                elif picture.step is None:
                    words, section = self._opening(timing, before), self._section(picture)
                else:
                    words, section = words_for(self.score, story, picture), self._section(picture)
                    self._step(story.pictures[n - 1], picture, timing, words, self.workings.get((s, n)))
                trace_step = picture.step.index if picture.step else None
                self.takes.append(Take(words, section, trace_step))
                self.writer.end_take()
                self._played(len(self.takes), of)
            before = story

    def show_step(self, number: int) -> None:
        """Put on the canvas, at once, how things are when step `number` is over."""
        numbers = [(s, n) for s, story in enumerate(self.stories) for n in range(len(story.pictures))]
        s, n = numbers[number]
        self.story = self.stories[s]
        picture = self.story.pictures[n]
        self.figure = Figure(self.story, self.score, self.theme, self.stories)
        self.figure.show(picture)
        opening = picture.step is None and picture.skipped is None
        words = self._opening_words() if opening else words_for(self.score, self.story, picture)
        self.figure.caption.say(words.caption)
        if working := self.workings.get((s, n)):
            self.figure.worked.say(working.summary)
        self.add(*self.figure.mobjects)
        if picture.skipped:
            self.add(self.figure.crosses(picture.skipped))

    @property
    def step_count(self) -> int:
        """How many entries the step list has."""
        return sum(len(story.pictures) for story in self.stories)

    @property
    def writer(self) -> FilmWriter:
        """What encodes the film."""
        writer = self.renderer.file_writer
        assert isinstance(writer, FilmWriter)
        return writer

    @property
    def step_list(self) -> list[FilmStep]:
        """The steps with their frames, once the film is encoded; they follow one another from frame 0."""
        steps, first = [], 0
        for n, (take, frames) in enumerate(zip(self.takes, self.writer.segment_frames, strict=True)):
            words = take.words
            steps.append(
                FilmStep(
                    f"s{n:02}", words.label, words.sentence, first, frames, take.section, take.trace_step
                )
            )
            first += frames
        return steps

    def _opening_words(self) -> Wording:
        block = self.figure.grid.index(self.story.block) + 1
        which = f"block {block} of {math.prod(self.figure.launch.grid)}"
        launches = self.story.trace.layout.launches
        if len(launches) > 1:
            which += f" of {self.figure.launch.function.replace('_', ' ')}"
        title = self.story.trace.title
        if any(self.story.pictures[0].slots.values()):
            sentence = f"{title}: {which} is at work; what it did so far is left out."
            return Wording(f"block {block} goes on", f"{which.capitalize()} goes on", sentence)
        if self.story is self.stories[0]:
            sentence = f"{title}: {which} starts. Its inputs lie in HBM, its slots in SRAM are empty."
        elif self.story.launch != self.stories[self.stories.index(self.story) - 1].launch:
            sentence = f"The first launch is over. {which.capitalize()} starts; its slots in SRAM are empty."
        else:
            sentence = f"{which.capitalize()} starts with empty slots. On the GPU it runs beside the others."
        return Wording(f"block {block} starts", f"{which.capitalize()} starts: its SRAM is empty", sentence)

    def _opening(self, timing: Timing, before: Story | None) -> Wording:
        figure = self.figure
        words = self._opening_words()
        figure.caption.say(words.caption)
        index = figure.grid.index(self.story.block)
        slides = before is not None and before.launch == self.story.launch
        last = figure.grid.index(before.block) if before is not None and slides else None
        act = RunBlock(figure.grid, figure.zoom, places.SRAM, index, last, run_time=timing.phases[0])
        if last is None:
            act.show_moment(0)
        else:
            figure.grid.fill(last)
            figure.zoom.join(figure.grid.square(last), places.SRAM)
        self.add(figure.caption)
        self.wait(timing.say)
        self._front(figure.zoom, figure.grid)
        self.play(act)
        self.wait(timing.look)
        return words

    def _skip(self, picture: Picture, timing: Timing, words: Wording) -> None:
        assert picture.skipped is not None
        self.figure.caption.say(words.caption)
        self.figure.worked.say(())
        crosses = self.figure.crosses(picture.skipped)
        self._front(self.figure.caption, self.figure.worked, crosses)
        self.wait(timing.say + timing.look)
        self.remove(crosses)

    def _section(self, picture: Picture) -> str:
        """The part of the film a step is in: its block, where the film plays several, and its loop values."""
        loops = picture.step.loop if picture.step else {}
        parts = [f"{name} = {value}" for name, value in loops.items()]
        if len(self.stories) == 1:
            return ", ".join(parts) or "opening" if picture.step is None else ", ".join(parts)
        block = f"block {self.figure.grid.index(self.story.block) + 1}"
        if len(self.story.trace.layout.launches) > 1:
            block = f"{self.figure.launch.function.replace('_', ' ')}, {block}"
        return ", ".join([block, *parts])

    def _step(
        self, before: Picture, picture: Picture, timing: Timing, words: Wording, working: Working | None
    ) -> None:
        figure = self.figure
        assert picture.step is not None
        figure.caption.say(words.caption)
        figure.worked.say(())
        figure.loops.at(picture.step.loop)
        self._front(figure.loops, figure.caption, figure.worked)
        self.wait(timing.say)
        counted = False
        by_phase = working.by_phase(picture.phases) if working and timing.in_parts else None
        for n, (phase, seconds) in enumerate(zip(picture.phases, timing.phases, strict=True)):
            if by_phase and working:
                for part in by_phase[n]:
                    self._part(part, working.row, phase, picture, seconds / len(by_phase[n]))
                continue
            acts, passing = figure.acts(phase, seconds)
            crossing = isinstance(phase[0], Loaded | Stored) and not counted
            if crossing:
                counted = True
                acts.append(CountTraffic(figure.traffic, before.traffic, picture.traffic, run_time=seconds))
                self._front(figure.traffic.bars)
            self._front(*passing)
            self.play(*acts)
            gone, new = figure.settle(phase, picture)
            self.remove(*passing, *gone)
            self.add(*new)
        if not counted:
            figure.traffic.count(picture.traffic)
        if working:
            figure.caption.say(words.caption)
            figure.worked.say(working.summary)
            self._front(figure.caption, figure.worked)
        self.wait(timing.look)

    def _part(self, part: Part, row: int, phase: tuple[Event, ...], picture: Picture, seconds: float) -> None:
        """One part of a step: its formula, the numbers of a row, and the change it comes to."""
        figure = self.figure
        figure.caption.say(part.formula)
        figure.worked.say(part.numbers)
        outlines = figure.outlines(part, row)
        self._front(figure.caption, figure.worked, outlines)
        own = tuple(event for event in phase if event.slot == part.changes)
        if not own:
            self.wait(seconds)
        else:
            moving = ticks(seconds * _MOVING)
            acts, passing = figure.acts(own, moving)
            self._front(*passing, outlines)
            self.play(*acts)
            gone, new = figure.settle(own, picture)
            self.remove(*passing, *gone)
            self.add(*new)
            self._front(outlines)
            self.wait(seconds - moving)
        self.remove(outlines)

    def _front(self, *mobjects: Any) -> None:
        """Draw these last, so that all the others need to be drawn only once."""
        self.remove(*mobjects)
        self.add(*mobjects)


def step_list_json(fps: float, steps: list[FilmStep]) -> str:
    """The text of ``steps.json``."""
    content = {
        "fps": int(fps) if fps == int(fps) else fps,
        "frames": sum(step.frames for step in steps),
        "steps": [asdict(step) for step in steps],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
