"""Contrast of text in a page, by WCAG 2.1 (success criterion 1.4.3)."""

from __future__ import annotations

from typing import Any, Final

RATIO: Final = 4.5
# All visible texts with less contrast than that: [text, ratio, colour, background].
_FAINT: Final = """ratio => {
  const UNSEEN = "script, style, title, noscript, option";
  const parse = text => {
    const n = text.match(/[\\d.]+/g).map(Number);
    return { rgb: n.slice(0, 3), a: n.length > 3 ? n[3] : 1 };
  };
  const over = (top, under) => top.rgb.map((c, i) => c * top.a + under[i] * (1 - top.a));
  const light = rgb => {
    const [r, g, b] = rgb.map(c => c / 255)
      .map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const below = element => {
    if (!element) return [255, 255, 255];
    const style = getComputedStyle(element);
    return over(parse(style.backgroundColor), below(element.parentElement));
  };
  const opacity = element =>
    element ? getComputedStyle(element).opacity * opacity(element.parentElement) : 1;
  const faint = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.textContent.trim() || element.closest(UNSEEN)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    if (!range.getClientRects().length) continue;
    const style = getComputedStyle(element), ground = below(element);
    const ink = parse(element.closest("svg") ? style.fill : style.color);
    ink.a *= opacity(element);
    const a = light(over(ink, ground)), b = light(ground);
    const found = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const about = [node.textContent.trim().slice(0, 40), found.toFixed(2)];
    if (found < ratio) faint.push([...about, style.color, ground.join()]);
  }
  return faint;
}"""


def faint(page: Any) -> list[list[str]]:
    """Visible texts of a page with a contrast of less than 4.5:1, each with how little it is."""
    found: list[list[str]] = page.evaluate(_FAINT, RATIO)
    return found
