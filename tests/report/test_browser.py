"""The page in a real browser: no errors, sorting, hovering, copying, and nothing wider than a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from unskew.report.model_page import model_page
from unskew.report.page import write_page
from unskew.report.run_page import run_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-dev-shm-usage",
    ):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(hostile_model, made_up_run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    model, log = hostile_model
    made = {"model": model_page(model, log=log), "run": run_page(made_up_run)}
    for name, page in made.items():
        write_page(page, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in made}


def open_page(browser, path: Path, *, width: int = 1100, dark: bool = False, media: str = "") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
    browser.get(path.as_uri())
    from selenium.webdriver.support.ui import WebDriverWait

    drawn = "return document.querySelectorAll('[data-chart]').length === document.querySelectorAll('.chart svg').length"
    WebDriverWait(browser, 30).until(lambda driver: driver.execute_script(drawn))


@pytest.mark.parametrize("name", ["model", "run"])
def test_loads_without_errors_or_requests(browser, pages, name: str) -> None:
    browser.get_log("performance")
    open_page(browser, pages[name])
    assert browser.get_log("browser") == []
    import json

    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("name", ["model", "run"])
@pytest.mark.parametrize("width", [320, 375, 1100])
def test_nothing_overflows(browser, pages, name: str, width: int) -> None:
    open_page(browser, pages[name], width=width)
    wide = """
        const inside = (e) => e.closest('.scroll, .skip, .visually-hidden, #vg-tooltip-element, pre');
        return [...document.body.querySelectorAll('*')]
          .filter((e) => !inside(e) && e.getBoundingClientRect().right > window.innerWidth + 1)
          .map((e) => e.tagName + '.' + e.className);
    """
    assert browser.execute_script(wide) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    # Wide tables scroll inside their own box, and the box can be reached by keyboard.
    assert browser.execute_script("return [...document.querySelectorAll('.scroll')].every((e) => e.tabIndex === 0)")


def test_sorting(browser, pages) -> None:
    open_page(browser, pages["run"])
    column = """
        const table = [...document.querySelectorAll('table')].find((t) => t.tHead.textContent.includes('@10'));
        const at = [...table.tHead.rows[0].cells].findIndex((c) => c.textContent.trim() === arguments[0]);
        if (arguments[1]) table.tHead.rows[0].cells[at].querySelector('button').click();
        return [[...table.tBodies[0].rows].map((r) => r.cells[at].textContent.trim()),
                table.tHead.rows[0].cells[at].getAttribute('aria-sort')];
    """

    def click(name: str) -> tuple[list[str], str]:
        return tuple(browser.execute_script(column, name, True))

    def numbers(texts: list[str]) -> list[float]:
        return [float(text.split("±")[0].replace("*", "")) for text in texts]

    down, order = click("@10")
    assert order == "descending"
    assert numbers(down) == sorted(numbers(down), reverse=True)
    up, order = click("@10")
    assert order == "ascending"
    assert numbers(up) == sorted(numbers(up)) != numbers(down)
    names, order = click("method")
    assert order == "ascending"
    assert names == sorted(names)
    # What has no value stays at the end, whichever way the column is sorted.
    for _ in range(2):
        gaps, _order = click("gap closed @10")
        assert set(gaps[-2:]) == {"–"}
    assert "Sorted by gap closed" in browser.execute_script("return document.getElementById('said').textContent")


def test_keyboard_sorts_and_copies(browser, pages) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    open_page(browser, pages["run"])
    head = browser.find_element(By.CSS_SELECTOR, "table.sortable th.number")
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    button = browser.find_element(By.CSS_SELECTOR, "button.copy")
    button.send_keys(Keys.ENTER)
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 10).until(lambda _: button.text == "Copied")
    line = browser.find_element(By.CSS_SELECTOR, ".command code").get_attribute("textContent")
    assert line.startswith("unskew bench run ")
    assert "  " not in line


def test_hovering_shows_values(browser, pages) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    open_page(browser, pages["run"])
    bar = browser.find_element(By.CSS_SELECTOR, ".chart svg .mark-rect path[aria-roledescription='bar']")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", bar)
    ActionChains(browser).move_to_element(bar).perform()
    tooltip = WebDriverWait(browser, 10).until(
        lambda driver: driver.find_element(By.CSS_SELECTOR, "#vg-tooltip-element.visible")
    )
    assert "gap closed" in tooltip.text
    assert "95 % interval" in tooltip.text


def test_light_dark_and_paper(browser, pages) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    line = "return getComputedStyle(document.querySelector('.chart svg text')).fill"
    seen = {}
    for name, settings in (("light", {}), ("dark", {"dark": True}), ("paper", {"dark": True, "media": "print"})):
        open_page(browser, pages["model"], **settings)
        seen[name] = (browser.execute_script(ground), browser.execute_script(line))
    assert seen["light"] == seen["paper"]
    assert seen["dark"][0] == "rgb(20, 24, 29)"
    assert seen["dark"][1] != seen["light"][1]
