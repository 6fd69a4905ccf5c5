"""Open the built site in a headless Chromium: follow the navigation, search, and look for errors in the console.

python -m tools.site.browse FOLDER      of built pages
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

# Pages of the reference that are opened, of some 200: what is wrong there comes from one template.
SAMPLED_PAGES = 25
# Words, each with a part of the address of a page that must be among the answers.
SEARCHES = {"cholesky": "linalg", "PayloadError": "errors", "interval": "intervals", "scan": "lax.scans"}
LOAD_SECONDS = 60


class QuietRequestHandler(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Writes nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serves a folder's files on a free port of this machine, and yields the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietRequestHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


@contextmanager
def open_browser(browser: str, driver: str) -> Iterator[webdriver.Chrome]:
    """Starts Chromium without a window, and ends it."""
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,1200"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    chrome.set_page_load_timeout(LOAD_SECONDS)
    try:
        yield chrome
    finally:
        chrome.quit()


def read_console(chrome: webdriver.Chrome) -> list[str]:
    """Returns the warnings and errors that pages have written since the last call."""
    entries: list[dict[str, Any]] = chrome.get_log("browser")
    return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]


def list_pages(chrome: webdriver.Chrome, address: str) -> list[str]:
    """Returns the addresses of the pages that the navigation of the first page links to."""
    chrome.get(f"{address}/index.html")
    links = [
        a.get_attribute("href") for a in chrome.find_elements(By.CSS_SELECTOR, ".sidebar-tree a.reference")
    ]
    return list(dict.fromkeys([link.partition("#")[0] for link in links if link]))


def check_page(chrome: webdriver.Chrome, page: str) -> list[str]:
    """Opens a page; returns what is wrong with it."""
    chrome.get(page)
    problems = [f"{page}: {message}" for message in read_console(chrome)]
    if not chrome.find_elements(By.CSS_SELECTOR, "article h1"):
        problems.append(f"{page}: has no heading")
    broken = chrome.execute_script(
        "return [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    )
    return problems + [f"{page}: the picture {source} does not load" for source in broken]


def check_search(chrome: webdriver.Chrome, address: str, words: str, expected: str) -> list[str]:
    """Searches as a reader does, in the box; returns what is wrong with the answer."""
    chrome.get(f"{address}/index.html")
    box = chrome.find_element(By.CSS_SELECTOR, "input.sidebar-search")
    box.send_keys(words)
    box.submit()
    hits = "#search-results ul.search li a"
    WebDriverWait(chrome, LOAD_SECONDS).until(
        lambda c: c.find_elements(By.CSS_SELECTOR, hits) or "did not match" in c.page_source
    )
    links = [a.get_attribute("href") or "" for a in chrome.find_elements(By.CSS_SELECTOR, hits)]
    problems = [f"search {words}: {message}" for message in read_console(chrome)]
    if not any([expected in link for link in links]):
        problems.append(f"search {words}: no page of {expected} among {links[:10]}")
    return problems


def check_site(folder: Path, browser: str, driver: str) -> tuple[int, list[str]]:
    """Returns how many pages were opened, and what is wrong."""
    with serve(folder) as address, open_browser(browser, driver) as chrome:
        pages = list_pages(chrome, address)
        problems = read_console(chrome)
        reference = sorted(folder.glob("reference/*.html"))
        sample = random.Random(0).sample(reference, min(SAMPLED_PAGES, len(reference)))
        pages += [f"{address}/reference/{path.name}" for path in sample]
        for page in pages:
            problems += check_page(chrome, page)
        for words, expected in SEARCHES.items():
            problems += check_search(chrome, address, words, expected)
    return len(pages), problems


def main() -> int:
    """Opens the site; the exit status is 1 if something is wrong, and 0 with a word if no Chromium is here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.resolve()
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    driver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
    if browser is None or driver is None:
        print(
            "the pages were not opened: chromium and chromedriver are not here (Debian: chromium, chromium-driver)"
        )
        return 0
    count, problems = check_site(folder, browser, driver)
    print(json.dumps({"pages": count, "searches": len(SEARCHES), "problems": problems}, indent=1))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
