"""Bar charts as inline SVG: no script, no outside resource, colours from the page's own style."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

Bars = Sequence[tuple[str, float]]
"""Label and value of each bar, in order."""

WIDTH, HEIGHT = 860, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 10, 14, 34
_TICKS = 5
_LABELS = 12
_WIDEST = 96


def bar_chart(bars: Bars, title: str, spell: Callable[[float], str]) -> str:
    """Upright bars over a common zero line, negative ones below it; `spell` writes the numbers."""
    step = _nice_step(bars)
    low = math.floor(min(0.0, *(value for _, value in bars), 0.0) / step) * step
    high = max(math.ceil(max(0.0, *(value for _, value in bars), 0.0) / step) * step, low + step)
    scale = _Scale(low, high, (WIDTH - _LEFT - _RIGHT) / len(bars))
    ticks = [low + step * index for index in range(round((high - low) / step) + 1)]
    body = "".join((*(_tick(tick, scale, spell) for tick in ticks), *_columns(bars, scale, spell)))
    name = escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}"><title>{name}</title>{body}</svg>'


class _Scale:
    def __init__(self, low: float, high: float, slot: float) -> None:
        self.low, self.high, self.slot = low, high, slot

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    def x(self, index: int) -> float:
        return _LEFT + index * self.slot


def _nice_step(bars: Bars) -> float:
    """A step of 1, 2 or 5 times a power of ten that gives about five lines."""
    values = [value for _, value in bars]
    rough = max(max(0.0, *values, 0.0) - min(0.0, *values, 0.0), 1e-9) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)


def _tick(value: float, scale: _Scale, spell: Callable[[float], str]) -> str:
    y, kind = scale.y(value), "zero" if abs(value) < 1e-12 else "grid"
    line = f'<line class="{kind}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(spell(value))}</text>'


def _columns(bars: Bars, scale: _Scale, spell: Callable[[float], str]) -> list[str]:
    every = math.ceil(len(bars) / _LABELS)
    return [
        _column(index, label, value, scale, spell) + (_label(index, label, scale) if index % every == 0 else "")
        for index, (label, value) in enumerate(bars)
    ]


def _column(index: int, label: str, value: float, scale: _Scale, spell: Callable[[float], str]) -> str:
    top, foot = sorted((scale.y(value), scale.y(0)))
    gap = max(scale.slot * 0.15, (scale.slot - _WIDEST) / 2)
    place = f'x="{scale.x(index) + gap:.1f}" y="{top:.1f}" width="{scale.slot - 2 * gap:.1f}" height="{foot - top:.1f}"'
    return f'<rect class="bar" {place} rx="2"><title>{escape(label)}: {escape(spell(value))}</title></rect>'


def _label(index: int, label: str, scale: _Scale) -> str:
    x = scale.x(index) + scale.slot / 2
    return f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{escape(label[:18])}</text>'
