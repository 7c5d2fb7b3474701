// SPDX-License-Identifier: Apache-2.0
// Switches (language, colours, axes, speed-up) and charts. Without it the page is whole but for the charts.
(function () {
  "use strict";
  const root = document.documentElement;
  const dark_system = matchMedia("(prefers-color-scheme: dark)");
  const print = matchMedia("print");
  const charts = [];

  // A file opened from the disk may have no storage.
  function recall(name) {
    try {
      return localStorage.getItem("dhyan." + name);
    } catch {
      return null;
    }
  }
  function remember(name, value) {
    try {
      localStorage.setItem("dhyan." + name, value);
    } catch {
      // the choice then lasts as long as the page
    }
  }

  const hindi = () => root.dataset.language === "hi";
  const dark = () => !print.matches && (root.dataset.theme ? root.dataset.theme === "dark" : dark_system.matches);

  const hint = document.getElementById("hint");
  function show_hint(handler, event, item, value) {
    hint.hidden = !value;
    if (!value) return;
    hint.textContent = value;
    const box = hint.getBoundingClientRect();
    const right = document.documentElement.clientWidth - 8;
    hint.style.left = Math.max(8, Math.min(event.clientX + 14, right - box.width)) + "px";
    hint.style.top = (event.clientY - box.height - 14 > 8 ? event.clientY - box.height - 14 : event.clientY + 22) + "px";
  }

  // Where a logarithmic axis may have its lines: more of them where it spans little.
  function round_values(digits) {
    const values = [];
    for (let power = -9; power <= 12; ++power) values.push(...digits.map((digit) => Number(`${digit}e${power}`)));
    return JSON.stringify(values);
  }
  const span = "log(domain('y')[1] / domain('y')[0])";
  const axis_values = {
    signal: `${span} > 7 ? ${round_values([1])} : ${span} > 3 ? ${round_values([1, 2, 5])} : ${round_values([1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8])}`,
  };

  function press(button, on) {
    button.setAttribute("aria-pressed", String(on));
  }

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.specification = JSON.parse(figure.querySelector("script").textContent);
      this.logarithmic = this.specification.usermeta.logarithmic;
      this.plot = figure.querySelector(".plot");
      this.tool("logarithmic", () => {
        this.logarithmic = !this.logarithmic;
        this.draw();
        return this.logarithmic;
      }, this.logarithmic);
      this.tool("speedup", () => {
        const on = figure.dataset.speedup !== "true";
        figure.dataset.speedup = String(on);
        this.update();
        return on;
      }, false);
      this.tool("save", () => void this.save());
      figure.querySelector(".tools").hidden = false;
      this.draw();
      new ResizeObserver(() => this.resize()).observe(this.plot);
    }

    tool(name, act, pressed) {
      const button = this.figure.querySelector(`[data-tool="${name}"]`);
      if (!button) return;
      if (pressed !== undefined) press(button, pressed);
      button.addEventListener("click", () => {
        const on = act();
        if (pressed !== undefined) press(button, on);
      });
    }

    view(options) {
      const specification = structuredClone(this.specification);
      if (this.logarithmic) {
        for (const scale of specification.scales) {
          if (scale.name === "x" || scale.name === "y") Object.assign(scale, { type: "log", nice: false, padding: 14 });
        }
        for (const axis of specification.axes) if (axis.scale === "y") axis.values = axis_values;
      }
      // No eval: the page's policy forbids it.
      const view = new vega.View(vega.parse(specification, null, { ast: true }), { expr: vega.expressionInterpreter, ...options });
      return view.signal("hindi", hindi()).signal("dark", dark()).signal("speedup", this.figure.dataset.speedup === "true");
    }

    draw() {
      if (this.drawn) this.drawn.finalize();
      this.drawn = this.view({ renderer: "svg", container: this.plot.firstElementChild, hover: true, tooltip: show_hint });
      this.width = this.plot.clientWidth;
      this.drawn.width(this.width).run();
    }

    update() {
      this.drawn.signal("hindi", hindi()).signal("dark", dark()).signal("speedup", this.figure.dataset.speedup === "true").run();
    }

    resize() {
      if (this.plot.clientWidth === 0 || this.plot.clientWidth === this.width || print.matches) return;
      this.width = this.plot.clientWidth;
      this.drawn.width(this.width).run();
    }

    async save() {
      const view = this.view({ renderer: "none" }).signal("titled", true).width(this.figure.classList.contains("heat") ? 460 : 720);
      const svg = await view.toSVG();
      view.finalize();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
      link.download = this.figure.id + ".svg";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }
  }

  const language = document.getElementById("language");
  const theme = document.getElementById("theme");

  function set_language(name) {
    root.dataset.language = name;
    root.lang = name;
    for (const plot of document.querySelectorAll(".plot")) plot.setAttribute("aria-label", plot.dataset[name]);
    for (const chart of charts) chart.update();
  }
  function show_theme() {
    press(theme, dark());
    for (const chart of charts) chart.update();
  }

  language.hidden = theme.hidden = false;
  language.addEventListener("click", () => {
    set_language(hindi() ? "en" : "hi");
    remember("language", root.dataset.language);
  });
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember("theme", root.dataset.theme);
    show_theme();
  });
  dark_system.addEventListener("change", show_theme);
  print.addEventListener("change", () => charts.forEach((chart) => chart.update()));

  const stored = recall("theme");
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  set_language((recall("language") || navigator.language).startsWith("hi") ? "hi" : "en");
  for (const figure of document.querySelectorAll("figure.chart")) charts.push(new Chart(figure));
  show_theme();

  // The step that is being read is marked in the list.
  const links = new Map();
  for (const link of document.querySelectorAll(".steps a")) links.set(link.hash.slice(1), link);
  const reading = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id).setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const id of links.keys()) reading.observe(document.getElementById(id));
})();
