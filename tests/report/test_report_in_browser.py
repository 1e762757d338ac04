"""The report in a real browser: the system's Chromium, driven by Playwright, without a network."""

import shutil
from importlib.util import find_spec

import pytest
from hostile_tables import CLASSES, IDS

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
KEYS = ["result", "graph", "training", "quality", "frequencies", "reach", "maps", "nodes", "compare"]
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def browser():
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if find_spec("playwright") is None or executable is None:
        pytest.skip("needs the package playwright and Chromium: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser, page):
    """The open report, and everything that went wrong or was asked of a network."""
    opened = browser.new_page(viewport=WIDE, color_scheme="light")
    opened.problems = []
    opened.on("console", lambda m: m.type == "error" and opened.problems.append(m.text))
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.on("request", lambda r: r.url.startswith(("http", "ws")) and opened.problems.append(r.url))
    opened.goto(page.as_uri())
    return opened


@pytest.fixture(autouse=True)
def nothing_went_wrong(tab):
    yield
    assert tab.problems == []
    assert tab.evaluate("window.hacked") is None


def open_tab(tab, key):
    tab.click(f"#tab-{key}")
    tab.wait_for_selector(f"#panel-{key}.open")


def show_node(tab, name):
    explorer = tab.locator(".run.open .explorer")
    explorer.locator(".query").fill(name)
    explorer.locator(".query").press("Enter")
    return explorer.locator(".node")


def test_keys_walk_through_all_tabs_and_every_picture_is_drawn(tab):
    tab.focus("#tab-result")
    for key in KEYS:
        assert tab.evaluate("document.activeElement.id") == f"tab-{key}"
        assert tab.get_attribute(f"#tab-{key}", "aria-selected") == "true"
        plots = tab.locator(f"#panel-{key} .plot:visible")
        for number in range(plots.count()):
            assert plots.nth(number).locator(".main-svg").count() > 0
        tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.id") == "tab-result"


def test_hovering_says_what_a_bar_is(tab):
    open_tab(tab, "result")
    tab.locator(".run.open .bars .point path").first.hover(force=True)
    tab.wait_for_selector(".run.open .hoverlayer .hovertext")
    assert "most frequent class" in tab.locator(".hoverlayer").first.text_content()


def settled_range(tab, plot):
    """The horizontal range of a plot once it rests: a tab that has just opened is still laid out."""
    found = None
    for _ in range(50):
        before, found = found, plot.evaluate("p => p._fullLayout.xaxis.range.slice()")
        if found == before:
            return found
        tab.wait_for_timeout(300)
    raise AssertionError("the plot does not come to rest")


def test_zooming_changes_the_axes_of_charts_and_drawing(tab):
    for key, selector in (
        ("training", "#panel-training .run.open .plot"),
        ("graph", ".run.open .drawing .plot"),
    ):
        open_tab(tab, key)
        plot = tab.locator(selector).first
        before = settled_range(tab, plot)
        box = plot.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        tab.mouse.move(x, y)
        if key == "graph":
            tab.mouse.wheel(0, -400)
        else:
            tab.mouse.down()
            tab.mouse.move(x + 150, y + 60, steps=4)
            tab.mouse.up()
        tab.wait_for_timeout(300)
        after = settled_range(tab, plot)
        assert after[1] - after[0] < before[1] - before[0]


def test_the_drawing_is_coloured_by_what_is_chosen(tab):
    open_tab(tab, "graph")
    figure = tab.locator(".run.open .drawing")
    options = figure.locator(".colour option").all_text_contents()
    assert options == ["class", "prediction", "error", "confidence"]
    figure.locator(".colour").select_option("error")
    assert set(figure.locator(".legendtext").all_text_contents()) <= {"right", "wrong", "class unknown"}


def test_a_node_is_found_by_its_id_whatever_it_is(tab):
    tab.select_option("#run", "2")
    open_tab(tab, "nodes")
    for name in IDS:
        heading = show_node(tab, name).locator("h3")
        text = heading.text_content()
        assert text == name or (len(name) > 120 and text.startswith(name[:79]) and "…" in text)
        assert heading.get_attribute("dir") == "auto"
    view = show_node(tab, IDS[4])
    assert view.locator(".chip b").first.text_content() in CLASSES
    assert "Neighbours after transport" in view.text_content()
    neighbour = view.locator(".link").first
    name = neighbour.text_content()
    neighbour.click()
    assert tab.locator(".run.open .node h3").text_content() == name
    show_node(tab, "no such node")
    assert "No node has" in tab.locator(".run.open .found").text_content()
    tab.select_option("#run", "0")


def test_it_fits_a_telephone_and_a_desk(tab):
    for size in (NARROW, WIDE):
        tab.set_viewport_size(size)
        for key in KEYS:
            open_tab(tab, key)
            assert tab.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth"), (key, size)


def test_light_and_dark(tab):
    def background():
        return tab.evaluate("getComputedStyle(document.body).backgroundColor")

    light = background()
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_selector("html[data-theme=dark]")
    dark = background()
    tab.click("#theme")
    assert (background(), dark != light) == (light, True)
    tab.emulate_media(color_scheme="light")


def test_printing_shows_all_parts_on_paper(tab, tmp_path):
    open_tab(tab, "result")
    tab.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().count(b"/Type /Page\n") >= len(KEYS)
    assert tab.locator("[role=tabpanel].open").count() == 1
