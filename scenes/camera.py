"""How frames are drawn and written quickly: images only where they lie, still frames converted once."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from manim import Camera
from manim.mobject.types.image_mobject import AbstractImageMobject
from manim.scene.scene_file_writer import SceneFileWriter
from manim.scene.video_segment_encoder import VideoSegmentEncoder
from manim.typing import RGBAPixelArray, StrPath
from PIL import Image


class FigureCamera(Camera):
    """Manim's camera, but an upright image is composed only over the pixels it covers, not the whole frame."""

    def display_image_mobject(
        self, image_mobject: AbstractImageMobject, pixel_array: npt.NDArray[Any]
    ) -> None:
        """Draw one image; turned or skewed ones the way Manim does."""
        corners = self.points_to_subpixel_coords(image_mobject, image_mobject.points)
        (left, top), (right, top_right), (left_bottom, bottom), _ = corners
        if top != top_right or left != left_bottom:
            super().display_image_mobject(image_mobject, pixel_array)
            return
        x0, x1, y0, y1 = (round(float(edge)) for edge in (left, right, top, bottom))
        if x1 <= x0 or y1 <= y0:
            return
        image = Image.fromarray(image_mobject.get_pixel_array()).resize(
            (x1 - x0, y1 - y0), image_mobject.resampling_algorithm
        )
        height, width = pixel_array.shape[:2]
        clip_x, clip_y = slice(max(x0, 0), min(x1, width)), slice(max(y0, 0), min(y1, height))
        over = np.asarray(image)[clip_y.start - y0 : clip_y.stop - y0, clip_x.start - x0 : clip_x.stop - x0]
        under = pixel_array[clip_y, clip_x]
        opacity = over[..., 3:].astype(np.uint16)
        under[..., :3] = (over[..., :3] * opacity + under[..., :3] * (255 - opacity) + 127) // 255
        under[..., 3] = np.maximum(under[..., 3], over[..., 3])


class _StillEncoder(VideoSegmentEncoder):
    """An encoder that converts a frame shown many times to the video's pixel format only once."""

    def write_frame(self, pixels: RGBAPixelArray, *, repeat: int = 1) -> None:
        """Encode a frame as often as asked."""
        if repeat == 1:
            super().write_frame(pixels)
            return
        self._validate_frame(pixels, repeat)
        rate = self.spec.frame_rate
        try:
            rgba = np.asarray(pixels, np.uint8)
            frame = av.VideoFrame.from_ndarray(rgba, format="rgba").reformat(format=self.spec.pixel_format)
            for _ in range(repeat):
                frame.pts = self._next_pts
                frame.time_base = Fraction(rate.denominator, rate.numerator)
                self._next_pts += 1
                for packet in self._stream.encode(frame):  # type: ignore[union-attr, arg-type]
                    self._container.mux(packet)
        except BaseException as error:
            raise self._operation_error("encode", error) from error


class FilmWriter(SceneFileWriter):
    """Manim's writer, but with one segment for each take, which may be many plays, instead of one for each play.

    So a film has a keyframe where a step begins and few others. Segments are always written afresh.
    """

    segment_frames: tuple[int, ...] = ()

    def add_partial_movie_file(self, hash_animation: str | None) -> None:
        """Note the segment of a play: only the first of a take has one."""
        super().add_partial_movie_file(None if self._current_encode_job else hash_animation)

    def is_already_cached(self, hash_invocation: str) -> bool:
        """No: a play's name says nothing about the others of its take."""
        return False

    def begin_animation(
        self, allow_write: bool = False, *, animation_index: int, file_path: StrPath | None = None
    ) -> None:
        """Go on with the take, or begin it."""
        if self._current_encode_job is None:
            super().begin_animation(allow_write, animation_index=animation_index, file_path=file_path)

    def end_animation(self, allow_write: bool = False) -> None:
        """Go on with the take: :meth:`end_take` ends it."""

    def end_take(self) -> None:
        """End the segment; the next play begins another."""
        if self._current_encode_job is not None:
            super().end_animation(allow_write=True)

    def finish(self) -> None:
        """Encode what is left and join the segments to the film."""
        self.end_take()
        super().finish()

    def combine_to_movie(self) -> None:
        """Join the segments to the film, and count the frames in each."""
        self.segment_frames = tuple(frame_count(Path(path)) for path in self.partial_movie_files if path)
        super().combine_to_movie()

    def _create_segment_encoder(self, target: Path) -> VideoSegmentEncoder:
        assert self.video_encoder is not None
        return _StillEncoder(target=target, spec=self.video_encoder)


def frame_count(path: Path) -> int:
    """How many frames an encoded video holds, counted packet by packet."""
    with av.open(str(path)) as container:
        return sum(packet.size > 0 for packet in container.demux(video=0))
