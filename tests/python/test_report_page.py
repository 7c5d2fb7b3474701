# SPDX-License-Identifier: Apache-2.0
"""report.html as a reader meets it: opened from the disk in Chromium, at a desk and on a phone, in English and in Hindi."""
import copy
import json
import os
import pathlib
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest
from playwright.sync_api import sync_playwright

PROGRAM = os.environ["DHYAN_PROGRAM"]
HOSTILE = """</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2"> & 'it' {{title}} \u202e\u2028"""
DESK, PHONE = 1280, 390


def dhyan(*arguments):
    """Runs the command; its exit code, standard output and standard error."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


# ---- documents made by hand ----------------------------------------------------------------------------------------------


def words(en, hi=""):
    return {"en": en, "hi": hi}


def series(key, label, colour, marker, points, spread=True):
    return {"key": key, "label": label, "colour": colour, "marker": marker,
            "points": [{"x": x, "y": y, "low": 0.9 * y if spread else None, "high": 1.2 * y if spread else None} for x, y in points]}


def chart(key, kind, **more):
    made = {"type": "chart", "key": key, "kind": kind, "title": words("Latency", "समय"), "caption": words(""),
            "alternative": words("Naive is slower.", "सीधा तरीक़ा धीमा है।"), "x_title": words("Seq len", "लंबाई"),
            "y_title": words("ms per call", "प्रति कॉल ms"), "unit": "ms", "better": "lower", "logarithmic": False,
            "baseline": "", "series": [], "heat": {"rows": 0, "columns": 0, "values": []}}
    return made | more


def step(number, title, **more):
    made = {"number": number, "title": title, "explanation": words("Why.", "क्यों।"), "outcome": "done", "reason": words(""),
            "blocks": [], "notes": [], "checks": [], "timings": [], "seconds": 1.0}
    return made | more


def cell(text, value=None, hi=""):
    return {"text": text, "value": value, "hi": hi}


def table(key, columns, rows):
    return {"type": "table", "key": key, "title": words("Table", "तालिका"), "rows": rows,
            "columns": [{"key": f"c{i}", "title": words(c), "numeric": i > 0} for i, c in enumerate(columns)]}


def timing(label, setting, middle):
    return {"series": "naive_f32", "label": label, "setting": setting, "median_ms": middle, "p10_ms": 0.9 * middle,
            "p90_ms": 1.2 * middle, "device_us": None, "samples_ms": [middle * (0.9 + 0.03 * i) for i in range(10)]}


def document(name="A processor", hostile="", factor=1.0, complete=True):
    """Every kind of block and outcome. `hostile` stands behind each text that a machine or a user chose."""
    lines = [series("naive_f32", "naive f32" + hostile, "#d1242f", "circle", [(64, .4 * factor), (256, 6.1 * factor), (1024, 98.4 * factor)]),
             series("fused_f32", "fused f32", "#0969da", "square", [(64, .11 * factor), (256, 1.02 * factor), (1024, 14.2 * factor)])]
    bars = [series(s["key"], s["label"], s["colour"], s["marker"], [(0, s["points"][0]["y"])]) for s in lines]
    size = 5
    heat = {"rows": size, "columns": size,
            "values": [1 / (row + 1) if column <= row else None for row in range(size) for column in range(size)]}
    checks = [{"key": "close", "name": words("Close" + hostile, "निकट"), "value": cell("3.1e-07", 3.1e-7), "relation": "≤",
               "limit": cell("1e-3", 1e-3), "verdict": "passed"},
              {"key": "order", "name": words("Fused is faster", "fused तेज़ है"), "value": cell("6.9×", 6.9), "relation": "≥",
               "limit": cell("1×", 1.0), "verdict": "informative"}]
    wide = table("wide", [f"column {i}" for i in range(9)], [[cell(f"{i * 1234.5678:.4f}", i * 1234.5678) for i in range(9)]])
    verdict = {"text": words(""), "passed": 1, "failed": 0, "informative": 1, "not_run": 0}  # read by people only
    return {"schema_version": 1, "verdict": verdict, "created": "2026-11-30T20:15:00Z", "version": "0.1.0", "device": "cpu",
            "device_name": name + hostile, "complete": complete, "seconds": 2.75, "settings": {"repeats": "20", "query": hostile},
            "machine": {"version": "0.1.0", "compiler": "g++", "cpu": {"name": name + hostile, "features": ["avx2"]}, "threads": 2},
            "steps": [
                step(3, words("Naive attention", "सीधा अटेंशन"), checks=checks, notes=[words("A note" + hostile, "एक बात")],
                     blocks=[{"type": "paragraph", "text": words("A paragraph.", "एक अनुच्छेद।")},
                             {"type": "code", "text": "a < b && c > d;" + hostile},
                             table("small", ["item", "value" + hostile], [[cell("x" + hostile), cell("1.50", 1.5)]]), wide,
                             chart("weights", "heat", heat=heat, unit="", better="none")]),
                step(5, words("cuDNN", "cuDNN"), outcome="not_available", reason=words("It needs a GPU." + hostile, "GPU चाहिए।")),
                step(7, words("Timing", "समय"), timings=[timing("naive f32" + hostile, "T=64", .4 * factor)],
                     blocks=[chart("bars", "bars", series=bars, baseline="naive_f32"),
                             table("sweep", ["size", "naive", "fused"],
                                   [[cell(str(a["x"]), a["x"]), cell(f"{a['y']:.2f}", a["y"]), cell(f"{b['y']:.2f}", b["y"])]
                                    for a, b in zip(lines[0]["points"], lines[1]["points"])]),
                             chart("lines", "lines", series=lines, baseline="naive_f32")]),
                step(8, words("Variants", "रूप"), outcome="skipped", reason=words("Not asked for.", "माँगा नहीं गया।")),
                step(9, words("Module", "मॉड्यूल"), outcome="done" if complete else "interrupted")]}


def page_of(folder, *documents, names=None):
    """The page `dhyan report` makes of documents."""
    files = [folder / f"{name}.json" for name in names or [f"run{i}" for i in range(len(documents))]]
    for file, made in zip(files, documents):
        file.write_text(json.dumps(made), encoding="utf-8")
    out = folder / "page.html"
    code, printed, errors = dhyan("report", *files, "--out", out)
    assert code == 0, errors
    if "without Vega" in printed:
        not_here("libjs-vega is not installed; scripts/setup packages installs it")
    return out


def not_here(why):
    """What a machine lacks may be missing elsewhere, but not in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


# ---- the browser ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium")
    if program is None:
        not_here("chromium is not installed; scripts/setup browser installs it")
    arguments = ["--disable-dev-shm-usage"] + (["--no-sandbox"] if os.geteuid() == 0 else [])  # containers have little of it
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=arguments)
        yield made
        made.close()


def wait_until(page, condition):
    """Asks again and again; Playwright's own way to wait asks inside the page, where the policy forbids it."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"it never came to this: {condition}")


@pytest.fixture
def reader(browser):
    """Opens pages, each in a fresh profile; at the end none may have complained or asked for anything."""
    opened = []

    def open_page(file, width=DESK, dark=False, language="en-US", **more):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light",
                                      locale=language, reduced_motion="reduce", **more)
        page = context.new_page()
        page.set_default_timeout(15000)
        seen = {"errors": [], "requests": []}
        page.on("console", lambda message: seen["errors"].append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: seen["errors"].append(str(error)))
        page.on("request", lambda request: seen["requests"].append(request.url))
        opened.append((context, page, seen, file.as_uri()))
        page.goto(file.as_uri())
        return page

    yield open_page
    for context, page, seen, address in opened:
        hacked = page.evaluate("window.hacked")
        context.close()
        assert seen["errors"] == []
        assert {url for url in seen["requests"] if not url.startswith("blob:")} == {address}
        assert hacked is None


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The page of a real run."""
    folder = tmp_path_factory.mktemp("lab") / "report"
    code, _, errors = dhyan("lab", "--quick", "--out", folder)
    assert code == 0, errors
    again = folder / "again.html"
    code, printed, errors = dhyan("report", folder / "results.json", "--out", again)
    assert code == 0, errors
    assert again.read_bytes() == (folder / "report.html").read_bytes()
    if "without Vega" in printed:
        not_here("libjs-vega is not installed; scripts/setup packages installs it")
    return folder / "report.html"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("sample"), document())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("hostile"), document(hostile=HOSTILE))


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Two machines; the second stopped early and has a note of its own."""
    other = document("Another", factor=.5, complete=False)
    other["steps"][0]["notes"].append(words("Only here", "केवल यहाँ"))
    return page_of(tmp_path_factory.mktemp("several"), document(), other, names=["one", "two"])


def values_of(figure):
    """What the specification of a chart holds."""
    specification = json.loads(figure.locator("script").text_content())
    values = specification["data"][0]["values"]
    return [v for v in values if v != -1]


MARKS = {"lines": ".mark-symbol.role-mark", "bars": ".mark-rect.role-mark", "heat": ".mark-rect.role-mark"}


def drawn_marks(figure):
    """The boxes of the marks one can see, in the window, in the order of the data."""
    kind = next(k for k in MARKS if k in figure.get_attribute("class").split())
    boxes = figure.locator(f".plot {MARKS[kind]} > path").evaluate_all(
        "(marks) => marks.map((m) => m.getBoundingClientRect()).map((b) => [b.x, b.y, b.width, b.height])")
    return [box for box in boxes if box[2] > 0]


def chart_text(figure):
    return figure.locator(".plot svg text").all_text_contents()


def colour(page, selector, property="backgroundColor"):
    return page.locator(selector).first.evaluate(f"(e) => getComputedStyle(e).{property}")


# ---- one run -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which, width, dark", [("lab", DESK, False), ("lab", PHONE, True), ("sample", DESK, True), ("sample", PHONE, False)])
def test_every_chart_is_drawn_with_all_its_marks(reader, request, which, width, dark):
    page = reader(request.getfixturevalue(which), width, dark)
    figures = page.locator("figure.chart").all()
    results = json.loads(next(request.getfixturevalue(which).parent.glob("*.json")).read_text(encoding="utf-8"))
    assert len(figures) == sum(block["type"] == "chart" for step in results["steps"] for block in step["blocks"]) > 2
    for figure in figures:
        values = values_of(figure)
        # Lines have a wide transparent mark for the pointer behind each one that is seen.
        expected = len(values) * (2 if "lines" in figure.get_attribute("class") else 1)
        assert len(drawn_marks(figure)) == expected > 0
        plot = figure.locator(".plot")
        assert plot.get_attribute("role") == "img" and len(plot.get_attribute("aria-label")) > 10


def test_a_page_is_small_and_names_the_machine_and_the_verdict(reader, lab):
    assert lab.stat().st_size < 700_000
    page = reader(lab)
    results = json.loads((lab.parent / "results.json").read_text(encoding="utf-8"))
    top = page.locator("section").first.inner_text()
    for shown in (results["verdict"]["text"]["en"], results["device_name"], "dhyan\t" + results["version"], "quick"):
        assert shown in top
    assert [int(n) for n in page.locator("section h2 .number").all_text_contents()] == [s["number"] for s in results["steps"]]


def test_ticks_stand_at_the_measured_values(reader, sample):
    page = reader(sample)
    labels = page.locator("#chart-lines .role-axis-label").first.locator("text").all_text_contents()
    assert labels == ["64", "256", "1,024"]


def test_nothing_is_drawn_outside_its_chart(reader, sample):
    """p10 to p90 of a ratio reach below the ratio itself."""
    page = reader(sample)
    figure = page.locator("#chart-lines")
    for tool in ("speedup", "logarithmic", "speedup"):
        figure.locator(f"[data-tool={tool}]").click()
        frame, bottom = figure.locator("svg .background").first.bounding_box(), 0
        for rule in figure.locator("svg .mark-rule.role-mark line").all():
            box = rule.bounding_box()
            assert box["y"] >= frame["y"] - 3 and box["y"] + box["height"] <= frame["y"] + frame["height"] + 3
            bottom = max(bottom, box["y"] + box["height"])
        assert bottom > 0


def test_charts_of_few_or_odd_values_are_whole(reader, tmp_path):
    """As an interrupted run leaves them: no series, no points, one point; zeros; tiny and huge."""
    one = lambda key, *points, spread=True: series(key, key, "#123456", "circle", points, spread)
    charts = [chart("none", "lines", logarithmic=True), chart("no_points", "lines", series=[one("a")], baseline="a"),
              chart("no_bars", "bars"), chart("no_cells", "heat", heat={"rows": 1, "columns": 1, "values": [None]}),
              chart("point", "lines", series=[one("a", (7, 1e-9)), one("b")], baseline="a", logarithmic=True),
              chart("zero", "lines", series=[one("a", (0, 0), (1048576, 3e9))], baseline="a", logarithmic=True),
              chart("zero_bars", "bars", series=[one("a", (0, 0)), one("b", (0, 5))], baseline="a"),
              chart("bytes", "lines", unit="bytes", series=[one("a", (1, 100), (2, 1e6), (3, 5e9), spread=False)])]
    made = document()
    made["steps"][2]["blocks"] = charts
    page = reader(page_of(tmp_path, made))
    assert page.locator("#step-7 .about", has_text="No value for this chart").count() == 4
    figures = page.locator("#step-7 figure").all()
    assert [len(drawn_marks(figure)) for figure in figures] == [2, 4, 2, 6]
    assert page.locator("#chart-zero [data-tool=logarithmic]").count() == 0
    assert "1,048,576" in chart_text(page.locator("#chart-zero")) and any("GiB" in text for text in chart_text(figures[3]))
    for button in page.locator("[data-tool=speedup], [data-tool=logarithmic]").all():
        button.click()
    for figure in figures:
        box = figure.locator("svg").bounding_box()
        assert 30 < box["height"] < 700 and box["width"] > 300


def test_hostile_names_are_only_text(reader, hostile):
    page = reader(hostile)
    assert page.locator("img, iframe, object").count() == 0
    assert page.locator("script").count() == 2 + 3  # ours, and one specification a chart
    assert HOSTILE.split("\u202e")[0] in page.title()
    for selector in (".facts", "pre", "#step-3 thead", "#step-3 tbody", "#step-3 .notes", "#step-5 .notice", "#step-7 .timings"):
        assert "<script>window.hacked = 1</script>" in " ".join(page.locator(selector).all_text_contents())
    assert any("</script>" in text for text in chart_text(page.locator("#chart-bars")))


def test_the_policy_stops_scripts_and_requests(browser, sample):
    page = browser.new_page()
    page.goto(sample.as_uri())
    assert page.evaluate("""async () => {
      const script = document.createElement("script");
      script.textContent = "window.ran = true";
      document.body.append(script);
      const sent = await fetch("http://127.0.0.1:9/").then(() => true, (error) => String(error).includes("Content Security") || error.name);
      return [window.ran === undefined, sent !== true];
    }""") == [True, True]
    policy = page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content")
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    page.context.close()


def test_switches_to_hindi_and_back(reader, sample):
    page = reader(sample)
    heading = page.locator("#step-3 h2")
    assert "Naive attention" in heading.inner_text() and page.locator("html").get_attribute("lang") == "en"
    page.locator("#language").click()
    assert "सीधा अटेंशन" in heading.inner_text() and "Naive" not in heading.inner_text()
    assert page.locator("html").get_attribute("lang") == "hi"
    assert "लंबाई" in chart_text(page.locator("#chart-lines"))
    assert page.locator("#chart-lines .plot").get_attribute("aria-label") == "सीधा तरीक़ा धीमा है।"
    page.reload()
    assert "सीधा अटेंशन" in heading.inner_text()  # it remembers
    page.locator("#language").click()
    assert "Naive attention" in heading.inner_text() and "Seq len" in chart_text(page.locator("#chart-lines"))


CONTRAST = """() => {
  const luminance = (rgb) => {
    const linear = rgb.map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const background = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const parts = numbers(getComputedStyle(e).backgroundColor);
      if (parts.length === 3 || parts[3] === 1) return parts.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const poor = [];
  let count = 0;
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || element.tagName === "SCRIPT" || !element.getClientRects().length) continue;
    const svg = element instanceof SVGElement;
    const ink = luminance(numbers(getComputedStyle(element)[svg ? "fill" : "color"]).slice(0, 3));
    const ground = luminance(background(svg ? element.closest(".plot") : element));
    const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    ++count;
    if (ratio < 4.5) poor.push(element.tagName + " " + element.textContent.slice(0, 30) + " " + ratio.toFixed(2));
  }
  return [count, poor];
}"""


@pytest.mark.parametrize("which, dark", [("lab", False), ("lab", True), ("several", False), ("several", True)])
def test_all_text_has_contrast(reader, request, which, dark):
    page = reader(request.getfixturevalue(which), dark=dark)
    for details in page.locator("summary").all():
        details.click()
    count, poor = page.evaluate(CONTRAST)
    assert count > 100 and poor == []


def test_dark_theme_follows_the_system_and_the_switch(reader, sample):
    page = reader(sample, dark=True)
    tick = "#chart-lines .plot svg .role-axis-label text"
    dark_page, dark_text = colour(page, "body"), colour(page, tick, "fill")
    assert page.locator("#theme").get_attribute("aria-pressed") == "true"
    page.locator("#theme").click()
    light_page, light_text = colour(page, "body"), colour(page, tick, "fill")
    assert page.locator("#theme").get_attribute("aria-pressed") == "false"
    assert dark_page != light_page and dark_text != light_text
    other = reader(sample)
    assert (colour(other, "body"), colour(other, tick, "fill")) == (light_page, light_text)
    other.emulate_media(color_scheme="dark")
    wait_until(other, "document.getElementById('theme').ariaPressed === 'true'")
    assert (colour(other, "body"), colour(other, tick, "fill")) == (dark_page, dark_text)


def heights(figure):
    """Vertical middles of the marks of lines, as drawn."""
    top = figure.bounding_box()["y"]
    return [y + height / 2 - top for _, y, _, height in drawn_marks(figure)]


def test_log_switch_moves_marks_and_keeps_them(reader, sample):
    page = reader(sample)
    figure = page.locator("#chart-lines")
    button = figure.locator("[data-tool=logarithmic]")
    assert button.get_attribute("aria-pressed") == "false"
    before = heights(figure)
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    after = heights(figure)
    assert len(after) == len(before) and after != before
    # 0.4, 6.1 and 98.4 are nearly evenly spaced logarithms.
    low, middle, high = after[:3]
    assert (low - middle) / (middle - high) == pytest.approx(0.98, abs=0.05)
    button.click()
    assert heights(figure) == pytest.approx(before)
    assert page.locator("#chart-bars [data-tool=logarithmic]").count() == 0


def test_speed_up_switch_shows_ratios_to_naive(reader, sample):
    page = reader(sample)
    bars, lines = page.locator("#chart-bars"), page.locator("#chart-lines")
    assert "naive f32  0.40 ms" in chart_text(bars) and "Lower is better." in bars.locator("figcaption").inner_text()
    bars.locator("[data-tool=speedup]").click()
    assert "naive f32  1.00×" in chart_text(bars) and any(text.endswith("3.64×") for text in chart_text(bars))
    assert "Higher is better." in bars.locator("figcaption").inner_text()
    lines.locator("[data-tool=speedup]").click()
    assert "Speed-up over naive f32" in chart_text(lines)
    level = heights(lines)[:3]
    assert max(level) - min(level) < 0.5  # naive over naive


@pytest.mark.parametrize("key, shown", [("lines", "naive f32\nSeq len 1,024\n98.4 ms\np10–p90: 88.6 ms – 118.1 ms"),
                                        ("bars", "naive f32\n0.40 ms\np10–p90: 0.36 ms – 0.48 ms"),
                                        ("weights", "ms per call 0\nSeq len 0\n1")])
def test_pointing_at_a_mark_shows_its_value(reader, sample, key, shown):
    page = reader(sample)
    figure = page.locator(f"#chart-{key}")
    figure.scroll_into_view_if_needed()
    x, y, width, height = drawn_marks(figure)[2 if key == "lines" else 0]
    page.mouse.move(x + width / 2, y + height / 2)
    assert page.locator("#hint").inner_text() == shown
    page.mouse.move(1, 1)
    assert page.locator("#hint").is_hidden()


@pytest.mark.parametrize("key", ["lines", "bars", "weights"])
def test_saves_a_chart_as_a_picture_of_its_own(reader, sample, key):
    page = reader(sample, PHONE)
    with page.expect_download() as download:
        page.locator(f"#chart-{key} [data-tool=save]").click()
    assert download.value.suggested_filename == f"chart-{key}.svg"
    picture = xml.parse(download.value.path()).getroot()
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "Latency" in texts  # the title, which on the page stands outside
    values = values_of(page.locator(f"#chart-{key}"))
    marks = [path for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("fill") not in (None, "none")]
    assert len(marks) >= len(values)


@pytest.mark.parametrize("which", ["lab", "sample", "hostile", "several"])
@pytest.mark.parametrize("language", ["en-US", "hi-IN"])
def test_nothing_is_wider_than_a_phone(reader, request, which, language):
    page = reader(request.getfixturevalue(which), PHONE, language=language)
    assert page.locator("html").get_attribute("lang") == language[:2]
    for details in page.locator("summary").all():
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    for plot in page.locator(".plot svg").all():
        assert plot.bounding_box()["x"] >= 0 and plot.bounding_box()["x"] + plot.bounding_box()["width"] <= PHONE
    # The wide table scrolls in its own box.
    if which == "sample":
        assert page.locator("#step-3 .scroll").nth(1).evaluate("(e) => e.scrollWidth > e.clientWidth")


def test_long_names_and_the_smallest_numbers_fit_a_phone(reader, tmp_path):
    made = document()
    for block in made["steps"][2]["blocks"]:
        if block["type"] == "chart":
            block["series"][0]["label"] = "S" * 300
            block["series"][1]["points"][0].update(y=5e-324, low=None, high=None)
    page = reader(page_of(tmp_path, made), PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_charts_follow_the_width(reader, sample):
    page = reader(sample)
    wide = page.locator("#chart-lines svg").bounding_box()["width"]
    page.set_viewport_size({"width": PHONE, "height": 800})
    wait_until(page, "document.querySelector('#chart-lines svg').getBoundingClientRect().width < 390")
    assert wide > 600 and page.evaluate("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize("which", ["lab", "several"])
def test_structure_is_what_a_screen_reader_needs(reader, request, which):
    page = reader(request.getfixturevalue(which))
    levels = [int(e.evaluate("(e) => e.tagName[1]")) for e in page.locator("main :is(h1, h2, h3, h4)").all()]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:]))
    for table in page.locator("table").all():
        assert table.locator("caption").text_content().strip()
        assert table.locator("th:not([scope])").count() == 0 and table.locator("tbody th[scope=row]").count() > 0
    for link in page.locator(".steps a").all():
        assert page.locator(link.get_attribute("href")).count() == 1
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    assert page.locator("html").get_attribute("lang") == "en" and page.title()


def test_works_from_the_keyboard(reader, sample):
    page = reader(sample)
    page.keyboard.press("Tab")
    assert page.locator(".skip").evaluate("(e) => e === document.activeElement && e.getBoundingClientRect().left >= 0")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    for tool, pressed in (("#language", None), ("#theme", "true"), ("#chart-lines [data-tool=logarithmic]", "true")):
        button = page.locator(tool)
        button.focus()
        page.keyboard.press("Space")
        assert button.get_attribute("aria-pressed") == pressed
        assert button.evaluate("(e) => e.matches(':focus-visible') && getComputedStyle(e).outlineStyle") == "solid"
    assert page.locator("html").get_attribute("lang") == "hi"


def test_prints_light_and_whole(reader, sample):
    page = reader(sample, dark=True)
    page.emulate_media(media="print")
    assert colour(page, "body") == "rgb(255, 255, 255)"
    wait_until(page, "getComputedStyle(document.querySelector('#chart-lines .role-axis-label text')).fill === 'rgb(89, 99, 110)'")
    for hidden in ("#theme", ".tools", ".steps", "summary"):
        assert page.locator(hidden).first.is_hidden()
    assert page.locator("#chart-lines svg").is_visible()
    assert page.pdf(format="A4").count(b"/Type /Page\n") >= 1
    page.emulate_media(media="screen")
    assert colour(page, "body") != "rgb(255, 255, 255)"


def test_is_whole_without_scripts_but_for_charts(reader, sample):
    page = reader(sample, java_script_enabled=False)
    text = page.locator("main").inner_text()
    assert "98.40" in text and "Naive attention" in text and "सीधा" not in text and "need JavaScript" in text
    assert page.locator(".switches button").first.is_hidden() and page.locator(".tools").first.is_hidden()


def test_says_what_did_not_run_and_why(reader, sample, several):
    page = reader(sample)
    assert "It needs a GPU." in page.locator("#step-5 .notice").inner_text()
    assert "Not asked for." in page.locator("#step-8 .notice").inner_text()
    assert page.locator("section").first.locator(".notice").count() == 0
    page = reader(several)
    notice = page.locator("section").first.locator(".notice")
    assert notice.count() == 1 and "two" in notice.inner_text() and "Not complete" in notice.inner_text()


def test_raw_timings_open_on_demand(reader, sample):
    page = reader(sample)
    table = page.locator("#step-7 details table")
    assert table.is_hidden()
    page.locator("#step-7 summary").click()
    assert table.is_visible() and "0.36" in table.inner_text()
    assert table.locator(".spread path").get_attribute("d").count("M") == 10


# ---- several runs --------------------------------------------------------------------------------------------------------


def test_several_runs_share_charts_and_tables(reader, several):
    page = reader(several)
    lines = page.locator("#chart-lines")
    assert len(values_of(lines)) == 12 and len(drawn_marks(lines)) == 24
    labels = [text for text in chart_text(lines) if "·" in text]
    assert labels == ["naive f32 · one", "fused f32 · one", "naive f32 · two", "fused f32 · two"]
    bars = page.locator("#chart-bars")
    assert [text.split("  ")[0] for text in chart_text(bars) if "·" in text] == [
        "naive f32 · one", "naive f32 · two", "fused f32 · one", "fused f32 · two"]
    bars.locator("[data-tool=speedup]").click()
    assert sum(text.endswith("1.00×") for text in chart_text(bars)) == 2  # each over its own naive
    assert page.locator("#chart-weights").count() == 1 and page.locator(".heat").count() == 1  # the same in both
    sweep = page.locator("#step-7 table").first
    assert [row.locator("th").inner_text() for row in sweep.locator("tbody tr").all()] == ["one"] * 3 + ["two"] * 3
    assert page.locator(".facts thead th").all_inner_texts() == ["one", "two"]
    assert page.locator(".verdict").count() == 2
    assert page.locator("#step-3 p", has_text="A paragraph.").count() == 1
    assert page.locator("#step-3 .notes li").all_inner_texts() == ["A note", "two · Only here"]


def test_titles_that_differ_between_runs_stand_together(reader, tmp_path):
    first, second = document(), document("Another")
    first["steps"][0]["title"], second["steps"][0]["title"] = words("Inputs on cpu", "cpu पर"), words("Inputs on cuda:0", "cuda:0 पर")
    page = reader(page_of(tmp_path, first, second))
    assert page.locator("#step-3 h2 [lang=en]").inner_text() == "Inputs on cpu / Inputs on cuda:0"
    assert page.locator("#step-3 h2 [lang=hi]").text_content() == "cpu पर / cuda:0 पर"
    assert page.locator("#step-7 h2 [lang=en]").inner_text() == "Timing"


def test_names_tell_runs_apart(tmp_path):
    def names(*files):
        out = tmp_path / "names.html"
        assert dhyan("report", *files, "--out", out)[0] == 0
        text = out.read_text(encoding="utf-8")
        return [name.split("</th>")[0] for name in text.split("<thead><tr><td></td>")[1].split("</tr>")[0].split('<th scope="col">')[1:]]

    for folder, device in (("a", "CPU"), ("b", "GPU"), ("c", "CPU")):
        (tmp_path / folder).mkdir()
        for name in ("results", folder):
            (tmp_path / folder / f"{name}.json").write_text(json.dumps(document(device)), encoding="utf-8")
    assert names(tmp_path / "a/a.json", tmp_path / "b/results.json") == ["CPU", "GPU"]
    assert names(tmp_path / "a/a.json", tmp_path / "b/b.json") == ["a", "b"]
    assert names(tmp_path / "a/a.json", tmp_path / "c/results.json") == ["a", "c"]
    assert names(tmp_path / "a/results.json", tmp_path / "b/results.json") == ["CPU", "GPU"]
    assert names(tmp_path / "a/results.json", tmp_path / "c/results.json") == ["a", "c"]
    assert names(tmp_path / "a/results.json", tmp_path / "a/results.json") == ["a (1)", "a (2)"]


# ---- the command ---------------------------------------------------------------------------------------------------------


def test_a_refusal_is_one_sentence_and_harms_nothing(tmp_path):
    good = tmp_path / "good.json"
    good.write_text(json.dumps(document()), encoding="utf-8")
    newer = copy.deepcopy(document())
    newer["schema_version"] = 99
    (tmp_path / "newer.json").write_text(json.dumps(newer), encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    out = tmp_path / "report.html"
    out.write_text("an older report")
    (tmp_path / "folder").mkdir()
    for arguments, code, says in [((tmp_path / "absent.json", "--out", out), 2, "absent.json"),
                                  ((tmp_path / "broken.json", "--out", out), 2, "broken.json"),
                                  ((good, tmp_path / "newer.json", "--out", out), 2, "99"),
                                  (("--out", out), 2, "results"),
                                  ((good, "--out", tmp_path / "folder"), 2, "folder"),
                                  ((good, "--out", tmp_path / "no/such/report.html"), 3, "report.html")]:
        status, printed, errors = dhyan("report", *arguments)
        assert (status, printed) == (code, "") and errors.count("\n") == 1 and says in errors, (arguments, errors)
        assert out.read_text() == "an older report"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.json", "folder", "good.json", "newer.json", "report.html"]
    assert dhyan("report", good, "--out", out)[0] == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert dhyan("report", good, "--out", "/dev/full")[0] == 2


@pytest.mark.parametrize("which, width, language, dark", [
    ("lab", DESK, "en-US", False), ("lab", DESK, "hi-IN", False), ("lab", DESK, "en-US", True), ("lab", PHONE, "en-US", False),
    ("lab", PHONE, "hi-IN", True), ("several", DESK, "en-US", False), ("several", PHONE, "hi-IN", False)])
def test_screenshots_are_kept(reader, request, tmp_path, which, width, language, dark):
    """What a person should look at; the folder comes from the build."""
    folder = pathlib.Path(os.environ.get("DHYAN_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    shot = folder / f"{which}-{width}-{language[:2]}{'-dark' if dark else ''}.png"
    reader(request.getfixturevalue(which), width, dark, language).screenshot(path=shot, full_page=True)
    assert shot.stat().st_size > 20000
