"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  let run = 0;

  // ---------------------------------------------------------------- theme
  const SERIES = {
    light: ["#1b6ca8", "#d1495b", "#2f9e77", "#e09f3e", "#7b5ea7", "#4a5560", "#56b4d3", "#a0522d", "#c779a8", "#8a9a3b"],
    dark: ["#63b3ed", "#f28b82", "#6fd0a5", "#f2c063", "#b79ce6", "#b4bfca", "#8fdcf2", "#d99a6c", "#e8a9cd", "#c3d46e"],
  };
  const BASE = {
    light: { ink: "#1b2430", muted: "#9aa5b1", grid: "#e6eaee", good: "#2f9e77", bad: "#d1495b", low: "#f3f7fa", greya: "#9aa5b155", card: "#ffffff", text: "#3b4652" },
    dark: { ink: "#e7ebef", muted: "#7d8a97", grid: "#2c353f", good: "#6fd0a5", bad: "#f28b82", low: "#1f2831", greya: "#9aa5b133", card: "#1a2027", text: "#b9c3cd" },
  };
  const wished = window.matchMedia("(prefers-color-scheme: dark)");
  let theme = wished.matches ? "dark" : "light";
  const colour = (name) => {
    if (typeof name !== "string" || name[0] !== "$") return name;
    const key = name.slice(1);
    if (key in BASE[theme]) return BASE[theme][key];
    const series = SERIES[theme][parseInt(key, 10) % 10];
    return key.endsWith("a") ? series + "44" : series;
  };
  // colours by name become those of the theme; text is never touched
  const paint = (value, isColour = false) => {
    if (Array.isArray(value)) return value.map((item) => paint(item, isColour));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item, /color/.test(key) && !/bar/.test(key))]));
    }
    return isColour ? colour(value) : value;
  };
  const axis = (own) => ({
    automargin: true, gridcolor: "$grid", zerolinecolor: "$grid", linecolor: "$grid", tickcolor: "$grid", ...own,
    title: { standoff: 10, ...(own && own.title), font: { size: 12.5 } },
  });
  const layoutOf = (own, height) => paint({
    margin: { l: 56, r: 14, t: 8, b: 46 }, height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif', size: 12.5, color: "$text" },
    hoverlabel: { bgcolor: "$card", bordercolor: "$muted", font: { color: "$ink" } },
    legend: { orientation: "h", traceorder: "normal", itemsizing: "constant", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } }, bargap: 0.3, hovermode: "closest",
    ...own, xaxis: axis(own.xaxis), yaxis: axis(own.yaxis),
  });
  const CONFIG = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], toImageButtonOptions: { scale: 2 } };

  // ---------------------------------------------------------------- charts
  const drawn = new Map(); // element -> how to draw it again
  const draw = (element) => {
    const chart = DATA.charts[Number(element.dataset.chart)];
    Plotly.react(element, paint(chart.data), layoutOf(chart.layout, chart.height), CONFIG);
    drawn.set(element, () => draw(element));
  };
  const isShown = (element) => element.getClientRects().length > 0;
  const drawVisible = () => {
    // what was drawn in a window of another width
    for (const plot of all(".js-plotly-plot")) if (isShown(plot) && Math.abs(plot._fullLayout.width - plot.clientWidth) > 1) Plotly.Plots.resize(plot);
    for (const element of all(".plot[data-chart]")) if (!drawn.has(element) && isShown(element)) draw(element);
    for (const element of all(".drawing")) if (!drawn.has(element) && isShown(element)) openDrawing(element);
    for (const element of all(".explorer")) if (!element.dataset.ready && isShown(element)) openExplorer(element);
  };

  // ---------------------------------------------------------------- drawing of the graph
  const hasWebGL = (() => { try { return !!document.createElement("canvas").getContext("webgl"); } catch { return false; } })();
  const escapeText = (text) => String(text).replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  const short = (text, length = 40) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  const className = (nodes, k) => (k === null || k < 0 ? "unknown" : short(nodes.classes[k]));
  const summary = (nodes, i) => {
    const lines = [`<b>${escapeText(short(nodes.ids[i]))}</b>`];
    if (nodes.prediction) {
      const isClass = !!nodes.classes;
      lines.push(`predicted ${escapeText(isClass ? className(nodes, nodes.prediction[i]) : nodes.prediction[i])}` + (isClass ? ` (${Math.round(100 * nodes.confidence[i])} %)` : ""));
      lines.push(`true: ${escapeText(isClass ? className(nodes, nodes.truth[i]) : nodes.truth[i] ?? "unknown")}`, escapeText(nodes.parts[nodes.part[i]]));
    }
    return [...lines, `${nodes.degree[i]} neighbours`].join("<br>");
  };
  const colourings = (nodes) => {
    if (!nodes.prediction) return { neighbours: { number: (i) => Math.log10(1 + nodes.degree[i]), title: "log₁₀(1 + neighbours)" } };
    if (!nodes.classes) return {
      "true value": { number: (i) => nodes.truth[i], title: "true" }, prediction: { number: (i) => nodes.prediction[i], title: "predicted" },
      error: { number: (i) => (nodes.truth[i] === null ? null : Math.abs(nodes.prediction[i] - nodes.truth[i])), title: "error" },
    };
    const verdict = (i) => (nodes.truth[i] < 0 ? 2 : nodes.truth[i] === nodes.prediction[i] ? 0 : 1);
    return {
      class: { group: (i) => nodes.truth[i], name: (k) => className(nodes, k), colour: (k) => (k < 0 ? "$grid" : `$${k % 10}`) },
      prediction: { group: (i) => nodes.prediction[i], name: (k) => className(nodes, k), colour: (k) => `$${k % 10}` },
      error: { group: verdict, name: (k) => ["right", "wrong", "class unknown"][k], colour: (k) => ["$muted", "$bad", "$grid"][k] },
      confidence: { number: (i) => 100 * nodes.confidence[i], title: "confidence in %" },
    };
  };
  const openDrawing = (element) => {
    const nodes = DATA.nodes[Number(element.dataset.run)];
    const plot = element.querySelector(".plot"), select = element.querySelector(".colour");
    const choices = colourings(nodes);
    if (!select.options.length) {
      for (const name of Object.keys(choices)) select.add(new Option(name, name));
      select.addEventListener("change", () => drawGraph());
    }
    const place = nodes.drawn, type = hasWebGL && place.nodes.length > 1500 ? "scattergl" : "scatter";
    const ex = [], ey = [];
    for (let e = 0; e < place.edges.length; e += 2) {
      ex.push(place.x[place.edges[e]], place.x[place.edges[e + 1]], null);
      ey.push(place.y[place.edges[e]], place.y[place.edges[e + 1]], null);
    }
    const size = Math.max(5, Math.min(12, 220 / Math.sqrt(place.nodes.length + 1)));
    const points = (chosen, more) => ({
      type, mode: "markers", x: chosen.map((j) => place.x[j]), y: chosen.map((j) => place.y[j]), customdata: chosen.map((j) => place.nodes[j]),
      text: chosen.map((j) => summary(nodes, place.nodes[j])), hovertemplate: "%{text}<extra></extra>", ...more,
    });
    const drawGraph = () => {
      const choice = choices[select.value], traces = [{
        type, mode: "lines", x: ex, y: ey, hoverinfo: "skip", showlegend: false, line: { color: theme === "dark" ? "#8fa0b133" : "#5d6a7733", width: 0.7 },
      }];
      if (choice.number) {
        const everything = place.nodes.map((_, j) => j);
        traces.push(points(everything, { showlegend: false, marker: {
          size, color: everything.map((j) => choice.number(place.nodes[j])), colorscale: "Viridis", colorbar: { title: { text: choice.title }, thickness: 12, outlinewidth: 0 },
        } }));
      } else {
        const groups = new Map();
        place.nodes.forEach((i, j) => { const k = choice.group(i); groups.has(k) ? groups.get(k).push(j) : groups.set(k, [j]); });
        for (const k of [...groups.keys()].sort((a, b) => a - b)) {
          traces.push(points(groups.get(k), { name: escapeText(choice.name(k)), marker: { size, color: choice.colour(k), line: { width: 0 } } }));
        }
      }
      const hidden = { visible: false };
      Plotly.react(plot, paint(traces), { ...layoutOf({ dragmode: "pan", showlegend: true }, 560), xaxis: { ...hidden }, yaxis: { ...hidden, scaleanchor: "x" }, margin: { l: 0, r: 0, t: 30, b: 0 }, uirevision: "kept" }, { ...CONFIG, scrollZoom: true });
      if (!plot.dataset.clicks) {
        plot.dataset.clicks = "1";
        plot.on("plotly_click", (event) => { const i = event.points[0].customdata; if (Number.isInteger(i)) { openTab("nodes"); showNode(i); } });
      }
    };
    drawGraph();
    drawn.set(element, drawGraph);
  };

  // ---------------------------------------------------------------- node explorer
  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) { element.textContent = text; element.dir = "auto"; }
    if (name) element.className = name;
    return element;
  };
  const explorers = new Map();
  const showNode = (i) => explorers.get(run) && explorers.get(run)(i);
  const table = (head, rows) => {
    const frame = make("div", undefined, "scroll"), body = make("table"), top = make("tr");
    for (const [column, name] of head.entries()) { const cell = make("th", name); cell.scope = "col"; if (typeof (rows[0] || [])[column] === "string" && /^[−+\d]/.test(rows[0][column])) cell.className = "number"; top.append(cell); }
    const header = make("thead"), lines = make("tbody");
    header.append(top);
    for (const row of rows) {
      const line = make("tr");
      for (const item of row) {
        const cell = make("td");
        if (item instanceof Node) { cell.append(item); if (item.classList.contains("bar")) cell.className = "bars"; }
        else { cell.textContent = item; cell.dir = "auto"; if (/^[−+\d]/.test(item)) cell.className = "number"; }
        line.append(cell);
      }
      lines.append(line);
    }
    body.append(header, lines);
    frame.append(body);
    return frame;
  };
  const bar = (value, most) => {
    const element = make("span", undefined, value < 0 ? "bar minus" : "bar");
    element.style.width = `${Math.max(2, (90 * Math.abs(value)) / (most || 1))}px`;
    return element;
  };
  const signed = (value) => (value < 0 ? "−" : "+") + Number(Math.abs(value).toPrecision(3));
  const plain = (value) => (value < 0 ? "−" : "") + String(Math.abs(value));
  const part = (title, sentence, ...content) => {
    const element = make("div");
    element.append(make("h4", title), make("p", sentence), ...content);
    return element;
  };
  const openExplorer = (element) => {
    element.dataset.ready = "1";
    const mine = Number(element.dataset.run), nodes = DATA.nodes[mine];
    const query = element.querySelector(".query"), list = element.querySelector(".suggestions"), found = element.querySelector(".found"), view = element.querySelector(".node");
    const lower = nodes.ids.map((id) => id.toLowerCase());
    const detail = new Map(nodes.drawn.nodes.map((i, j) => [i, j]));
    const isWrong = (i) => nodes.classes && nodes.truth[i] >= 0 && nodes.truth[i] !== nodes.prediction[i];
    const explained = Object.keys(nodes.explained || {}).map(Number).sort((a, b) => Boolean(isWrong(b)) - Boolean(isWrong(a)) || a - b);
    const link = (i) => { const button = make("button", nodes.ids[i], "link"); button.type = "button"; button.addEventListener("click", () => show(i)); return button; };
    const suggest = (items, words) => {
      list.replaceChildren(...items.map((i) => {
        const entry = make("li"), button = make("button", nodes.ids[i], isWrong(i) ? "wrong" : "");
        button.type = "button"; button.title = isWrong(i) ? "predicted wrongly" : "";
        button.addEventListener("click", () => show(i));
        entry.append(button);
        return entry;
      }));
      found.textContent = words;
    };
    const search = (text) => {
      const wanted = text.trim().toLowerCase().replace(/\s+/g, " ");
      if (!wanted) return explained.slice(0, 24);
      const exact = [], begins = [], holds = [];
      // long ids are stored shortened: begin and end
      const cut = wanted.length > 120 ? wanted.slice(0, 79) : wanted;
      for (let i = 0; i < lower.length; i++) {
        if (lower[i] === wanted) exact.push(i);
        else if (lower[i].startsWith(cut)) begins.push(i);
        else if (lower[i].includes(cut)) holds.push(i);
      }
      return [...exact, ...begins, ...holds];
    };
    const offer = () => {
      const items = search(query.value);
      if (!query.value.trim()) suggest(items, items.length ? "Nodes whose prediction is explained in detail; a red frame means wrong." : "");
      else suggest(items.slice(0, 24), items.length ? `${items.length.toLocaleString("en")} node${items.length > 1 ? "s" : ""} match` : `No node has '${short(query.value.trim())}' in its id.`);
      return items;
    };
    const show = (i) => {
      query.value = nodes.ids[i];
      view.replaceChildren(make("h3", nodes.ids[i]), chips(i), parts(i));
      list.replaceChildren();
      found.textContent = `Node ${short(nodes.ids[i])} is shown.`;
      const ego = view.querySelector(".ego");
      if (ego) { const picture = () => ego.isConnected && drawEgo(ego, i); picture(); drawn.set(view, picture); }
    };
    const chips = (i) => {
      const box = make("div", undefined, "chips");
      const chip = (title, value, kind) => { const element = make("div", undefined, `chip ${kind || ""}`); element.append(make("span", title), make("b", value)); element.title = value; box.append(element); };
      if (nodes.prediction && nodes.classes) {
        const known = nodes.truth[i] >= 0;
        chip("prediction", nodes.classes[nodes.prediction[i]], known ? (isWrong(i) ? "bad" : "good") : "");
        chip("confidence", `${(100 * nodes.confidence[i]).toFixed(1)} %`);
        chip("true class", known ? nodes.classes[nodes.truth[i]] : "unknown");
        if (nodes.homophily[i] !== null) chip("neighbours of its class", `${Math.round(100 * nodes.homophily[i])} %`);
      } else if (nodes.prediction) {
        chip("prediction", String(nodes.prediction[i]));
        chip("true value", nodes.truth[i] === null ? "unknown" : String(nodes.truth[i]));
      }
      if (nodes.prediction) chip("part", nodes.parts[nodes.part[i]]);
      chip("neighbours", String(nodes.degree[i]));
      return box;
    };
    const neighboursOf = (j) => [...nodes.neighbours.rows[j]].sort((a, b) => (b[1] || 0) - (a[1] || 0));
    const parts = (i) => {
      const box = make("div", undefined, "parts"), j = detail.get(i);
      box.append(reasons(i));
      if (j === undefined) { box.append(part("Features and neighbours", "They are embedded for a sample of the nodes only, and this one is not among them.")); return box; }
      const row = neighboursOf(j), middle = make("div", undefined, "column");
      if (row.length) {
        const ego = make("div", undefined, "ego plot");
        ego.setAttribute("role", "img");
        ego.setAttribute("aria-label", "The node among its neighbours");
        middle.append(part("Around it", "Colours are predictions, thick lines carry more of what the node receives.", ego));
      }
      middle.append(neighbourPart(i, row));
      box.append(middle, featurePart(j));
      return box;
    };
    const reasons = (i) => {
      const why = (nodes.explained || {})[i];
      if (!why) return part("What moved the prediction", explained.length ? "This node is not among those that were explained in detail; clear the search to see these." : "It is explained for models with sheaf layers, and for fits to tables.");
      const most = Math.max(Math.abs(why.own), Math.abs(why.others), 1e-12);
      const content = [table(["", "effect", ""], [["its own features", signed(why.own), bar(why.own, most)], ["other nodes", signed(why.others), bar(why.others, most)]])];
      const width = (rows, place) => Math.max(...rows.map((row) => Math.abs(row[place])), 1e-12);
      if (why.features && why.features.length) content.push(table(["its feature", "value", "effect", ""], why.features.map(([name, value, effect]) => [make("span", name), plain(value), signed(effect), bar(effect, width(why.features, 2))])));
      if (why.nodes.length) content.push(table(["other node", "effect", ""], why.nodes.map(([k, effect]) => [link(k), signed(effect), bar(effect, width(why.nodes, 1))])));
      const rest = why.left_out ? ` ${Math.round(100 * why.left_out)} % of the ensemble reads links and labels; its features are left out.` : "";
      return part("What moved the prediction", "Effects are first-order, gradient times value: + speaks for the prediction, − against it." + rest, ...content);
    };
    const neighbourPart = (i, row) => {
      if (!row.length) return part("Neighbours", "It has none here: it is predicted from its own features.");
      const more = nodes.degree[i] > row.length ? ` The ${row.length} that count most of ${nodes.degree[i]} are shown.` : "";
      const predicted = (k) => make("span", nodes.classes ? nodes.classes[nodes.prediction[k]] : nodes.prediction ? String(nodes.prediction[k]) : "–");
      if (!nodes.neighbours.has_transport) return part("Neighbours", "Who they are, and what the model predicts for them." + more, table(["node", "predicted"], row.map(([k]) => [link(k), predicted(k)])));
      const rows = row.map(([k, share, before, after]) => [link(k), predicted(k), `${Math.round(100 * share)} %`, signed(before), signed(after)]);
      return part("Neighbours after transport", "Agreement is 1 where a neighbour's state points the same way as that of the node, −1 where it points the other way: before the learned map, and after it." + more, table(["node", "predicted", "received", "before", "after"], rows));
    };
    const featurePart = (j) => {
      const flat = nodes.features.rows[j] || [], rows = [];
      for (let k = 0; k < flat.length; k += 3) rows.push([make("span", nodes.features.names[flat[k]]), plain(flat[k + 1]), signed(flat[k + 2]), bar(flat[k + 2], Math.max(Math.abs(flat[2]), 1e-9))]);
      if (!rows.length) return part("Features", "The graph has no features.");
      return part("Features", "Those that are most unusual, in standard deviations from the mean of all nodes.", table(["feature", "value", "unusual by", ""], rows));
    };
    const drawEgo = (box, i) => {
      const row = neighboursOf(detail.get(i)), shade = (k) => (nodes.classes ? `$${nodes.prediction[k] % 10}` : "$0");
      const at = row.map((_, n) => { const angle = (2 * Math.PI * n) / row.length - Math.PI / 2; return [Math.cos(angle), Math.sin(angle)]; });
      const lines = row.map((entry, n) => ({ type: "scatter", mode: "lines", x: [0, at[n][0]], y: [0, at[n][1]], hoverinfo: "skip", line: { color: "$muted", width: entry.length > 1 ? 1 + 9 * entry[1] : 1.5 } }));
      const points = { type: "scatter", mode: "markers+text", x: [0, ...at.map((p) => p[0])], y: [0, ...at.map((p) => p[1])], customdata: [i, ...row.map((entry) => entry[0])],
        text: ["", ...row.map((entry) => escapeText(short(nodes.ids[entry[0]], 10)))], textposition: ["middle center", ...at.map((p) => (p[1] < -0.3 ? "bottom center" : p[1] > 0.3 ? "top center" : p[0] < 0 ? "middle left" : "middle right"))],
        hovertext: [i, ...row.map((entry) => entry[0])].map((k) => summary(nodes, k)), hovertemplate: "%{hovertext}<extra></extra>",
        marker: { opacity: 1, size: [24, ...row.map(() => 15)], color: [shade(i), ...row.map((entry) => shade(entry[0]))], line: { width: 1.5, color: "$card" } } };
      const hidden = { visible: false, range: [-1.55, 1.55], fixedrange: true };
      Plotly.react(box, paint([...lines, points]), { ...layoutOf({ showlegend: false }, 270), xaxis: hidden, yaxis: { ...hidden, scaleanchor: "x", range: [-1.3, 1.3] }, margin: { l: 0, r: 0, t: 0, b: 0 } }, { ...CONFIG, displayModeBar: false });
      if (!box.dataset.clicks) { box.dataset.clicks = "1"; box.on("plotly_click", (event) => { const k = event.points[0].customdata; if (Number.isInteger(k) && k !== i) show(k); }); }
    };
    query.addEventListener("input", offer);
    element.querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); const items = offer(); if (items.length) show(items[0]); });
    element.querySelector(".any").addEventListener("click", () => show(nodes.drawn.nodes[Math.floor(Math.random() * nodes.drawn.nodes.length)]));
    explorers.set(mine, show);
    offer();
    if (nodes.ids.length) { show(explained.length ? explained[0] : nodes.drawn.nodes[0]); query.value = ""; offer(); }
  };

  // ---------------------------------------------------------------- tabs, runs, theme, print
  const tabs = all("[role=tab]");
  const openTab = (key) => {
    for (const tab of tabs) {
      const isOpen = tab.id === `tab-${key}`;
      tab.setAttribute("aria-selected", String(isOpen));
      tab.tabIndex = isOpen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).classList.toggle("open", isOpen);
      if (isOpen) tab.parentNode.scrollLeft = tab.offsetLeft - (tab.parentNode.clientWidth - tab.clientWidth) / 2;
    }
    drawVisible();
    try { history.replaceState(null, "", `#${key}`); } catch { /* a file in a sandbox has no history */ }
  };
  tabs.forEach((tab, number) => {
    tab.addEventListener("click", () => openTab(tab.id.slice(4)));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -number, End: tabs.length - 1 - number }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const next = tabs[(number + step + tabs.length) % tabs.length];
      openTab(next.id.slice(4));
      next.focus();
    });
  });
  const openRun = (number) => {
    run = number;
    for (const element of all(".run")) element.classList.toggle("open", Number(element.dataset.run) === run);
    drawVisible();
  };
  const setTheme = (name) => {
    theme = name;
    root.dataset.theme = name;
    const button = document.getElementById("theme");
    button.setAttribute("aria-pressed", String(name === "dark"));
    button.textContent = name === "dark" ? "Light" : "Dark";
    for (const again of drawn.values()) again();
  };
  document.getElementById("theme").addEventListener("click", () => setTheme(theme === "dark" ? "light" : "dark"));
  document.getElementById("print").addEventListener("click", () => window.print());
  wished.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  const choice = document.getElementById("run");
  if (choice) choice.addEventListener("change", () => openRun(Number(choice.value)));

  let before = null;
  window.addEventListener("beforeprint", () => {
    before = theme;
    setTheme("light");
    for (const element of all("[role=tabpanel], .run")) element.classList.add("open");
    drawVisible();
    for (const element of drawn.keys()) for (const plot of element.matches(".plot") ? [element] : all(".plot", element)) Plotly.Plots.resize(plot);
  });
  window.addEventListener("afterprint", () => {
    setTheme(before || theme);
    openRun(run);
    openTab((tabs.find((tab) => tab.getAttribute("aria-selected") === "true") || tabs[0]).id.slice(4));
  });

  setTheme(theme);
  openRun(0);
  const asked = location.hash.slice(1);
  openTab(tabs.some((tab) => tab.id === `tab-${asked}`) ? asked : tabs[0].id.slice(4));
})();
