"""What the caller says of a convolution's windows: strides, pads, dilations, groups."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _run
from ._arrays import bad

_AUTO_PADS = ("valid", "same_upper", "same_lower")


class Geometry(NamedTuple):
    """A value for each spatial axis; one in all of auto_pad and groups."""

    strides: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    auto_pad: str
    dilations: tuple[int, ...]
    output_padding: tuple[int, ...] | None
    groups: int

    @classmethod
    def given(
        cls,
        rank: int,
        strides: Any,
        padding: Any,
        output_padding: Any,
        dilations: Any,
        groups: Any,
    ) -> Geometry:
        """The caller's arguments, checked, for `rank` spatial axes."""
        return cls(
            _run.per_axis("strides", strides, rank),
            *_pads(padding, rank),
            _run.per_axis("dilations", dilations, rank),
            None
            if output_padding is None
            else _run.per_axis("output_padding", output_padding, rank),
            _run.integer("groups", groups),
        )

    def attributes(
        self, data_format: str, weights_format: str
    ) -> tuple[tuple[str, Any], ...]:
        """The attributes of the op."""
        found: list[tuple[str, Any]] = [
            ("strides", self.strides),
            ("pads_begin", self.begin),
            ("pads_end", self.end),
            ("auto_pad", self.auto_pad),
            ("dilations", self.dilations),
            ("groups", self.groups),
            ("data_format", data_format),
            ("weights_format", weights_format),
        ]
        if self.output_padding is not None:
            found.append(("output_padding", self.output_padding))
        return tuple(found)


def _pads(padding: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Pads before and behind each axis, and auto_pad."""
    zeros = (0,) * rank
    if isinstance(padding, str):
        if padding not in _AUTO_PADS:
            raise bad("padding", f"{padding!r}; {', '.join(_AUTO_PADS)} are allowed")
        return zeros, zeros, padding
    if hasattr(padding, "__index__"):
        each = (_run.integer("padding", padding),) * rank
        return each, each, "none"
    try:
        given = list(padding)
    except TypeError:
        raise TypeError(
            f"padding is {padding!r}; an integer, one for each spatial axis, pairs "
            "or a string is expected"
        ) from None
    if len(given) != rank:
        raise bad(
            "padding", f"{padding!r} has {len(given)} values for {rank} spatial axes"
        )
    begin, end = [], []
    for each in given:
        if hasattr(each, "__index__"):
            pair: tuple[int, ...] = (_run.integer("padding", each),) * 2
        else:
            pair = _run.integers("padding", each)
            if len(pair) != 2:
                raise bad("padding", f"{each!r}; (before, behind) is expected")
        begin.append(pair[0])
        end.append(pair[1])
    return tuple(begin), tuple(end), "none"
