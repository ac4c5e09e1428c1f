"""A page read back: its elements, its texts, what it refers to."""

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Element(NamedTuple):
    """An element, the elements it lies in, and the text directly in it."""

    tag: str
    attributes: dict[str, str]
    within: tuple[str, ...]
    texts: list[str]


class Page(HTMLParser):
    """The elements of a page, in order; raises ValueError where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        if self._open:
            raise ValueError(f"never closed: {[each.tag for each in self._open]}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        within = tuple(each.tag for each in self._open)
        element = Element(tag, {name: value or "" for name, value in attrs}, within, [])
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        last = self._open.pop()
        if last.tag != tag:
            raise ValueError(f"<{last.tag}> is closed by </{tag}>")

    def handle_data(self, data: str) -> None:
        for each in self._open:
            each.texts.append(data)

    def all_of(self, tag: str, **attributes: str) -> Iterator[Element]:
        """Yield the elements with this tag whose attributes have, among others, these words."""
        for each in self.elements:
            has = (
                value in each.attributes.get(name.rstrip("_"), "").split()
                for name, value in attributes.items()
            )
            if each.tag == tag and all(has):
                yield each

    def text_of(self, tag: str, **attributes: str) -> str:
        """Return the text in the first such element."""
        return text(next(self.all_of(tag, **attributes)))


def text(element: Element) -> str:
    """Return the text in an element, on one line."""
    return " ".join(" ".join(element.texts).split())
