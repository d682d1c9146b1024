"use strict";
// The script of all pages: draws their figures from the points that the page holds, and sorts their tables.

// Safe for colour-blind readers (Okabe and Ito, 2008); the same order of rungs has the same colours in every figure.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#999999"];
const DASHES = ["solid", "dash", "dot", "dashdot"];
const NET = "#009e73", TARE = "#f0a202", GROSS = "#7d8ba1";
// An axis whose values differ by more than this factor is logarithmic.
const LOGARITHMIC = 12;
const NARROW = 600;

const holder = document.getElementById("figures");
const figures = holder ? JSON.parse(holder.textContent) : [];
const rungs = [...new Set(figures.filter(figure => !figure.kind).flatMap(figure => figure.points.map(point => point.rung)))];
const redraws = [];

// A value with its unit, as the tables write it: 1.58 ms, 354 MiB, 58 %.
function shown(value, unit) {
  if (value === null || value === undefined) return "-";
  if (value === 0) return "0";
  if (unit === "share") return `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
  if (unit === "x") return `${precise(value)}x`;
  if (unit === "1/s") return `${scaled(value, 1000, ["", "k", "M", "G", "T"])}/s`;
  if (unit === "B") return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
  for (const [size, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) if (value >= size) return `${precise(value / size)} ${name}`;
  return `${precise(value * 1e9)} ns`;
}

const precise = value => String(Number(value.toPrecision(3)));

function scaled(value, base, names) {
  let step = 0;
  while (value >= base && step < names.length - 1) { value /= base; step += 1; }
  return precise(value) + names[step];
}

function pointText(point, measure) {
  const [middle, low, high] = point.values[measure.name];
  const text = shown(middle, measure.unit);
  return low === null ? text : `${text} (${shown(low, measure.unit)} to ${shown(high, measure.unit)})`;
}

function errorBars(points, measure) {
  const estimates = points.map(point => point.values[measure.name]);
  if (estimates.every(([, low]) => low === null)) return undefined;
  return {
    type: "data", symmetric: false, thickness: 1, width: 4,
    array: estimates.map(([middle, , high]) => high === null ? 0 : high - middle),
    arrayminus: estimates.map(([middle, low]) => low === null ? 0 : middle - Math.max(low, 0)),
  };
}

const colourOf = rung => COLOURS[rungs.indexOf(rung) % COLOURS.length];
const dashOf = rung => DASHES[Math.floor(rungs.indexOf(rung) / COLOURS.length) % DASHES.length];
const spreads = values => Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > LOGARITHMIC;

// Ticks of an axis of values: as many round numbers as Plotly likes, in our own units.
function valueAxis(values, unit, title, logarithmic) {
  const most = Math.max(...values), axis = { title: { text: title }, type: logarithmic ? "log" : "linear", automargin: true };
  if (logarithmic) {
    const low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(most)), ticks = [];
    for (let power = low; power <= high; power += 1) for (const digit of high - low > 3 ? [1] : [1, 2, 5]) ticks.push(digit * 10 ** power);
    return { ...axis, tickvals: ticks, ticktext: ticks.map(value => shown(value, unit)) };
  }
  // Bytes in powers of two.
  const base = unit === "B" ? 2 ** Math.floor(Math.log2(most || 1)) / 4 : 10 ** Math.floor(Math.log10(most || 1));
  const step = [0.1, 0.2, 0.5, 1, 2, 5].map(size => size * base).find(size => most / size <= 6) || base;
  const ticks = Array.from({ length: Math.floor(most / step * 1.3) + 2 }, (_, number) => number * step);
  return { ...axis, rangemode: "tozero", tickvals: ticks, ticktext: ticks.map(value => shown(value, unit)) };
}

function barTraces(points, measure, label) {
  const names = points.map(label);
  const hover = points.map(point => `${label(point)}: ${pointText(point, measure)}`);
  const trace = (part, name, colour, extra) => ({
    type: "bar", orientation: "h", y: names, x: part, name, hovertext: hover, hoverinfo: "text",
    marker: { color: colour }, ...extra,
  });
  const middles = points.map(point => point.values[measure.name][0]);
  const error = errorBars(points, measure);
  // Ratios grow from 1, to the right where something is faster and to the left where it is slower.
  if (measure.unit === "x") {
    const colour = middles.map(middle => middle < 1 ? TARE : NET);
    return [trace(middles.map(middle => middle - 1), measure.title, colour, { base: 1, error_x: error, showlegend: false })];
  }
  if (measure.name !== "time" || !points.some(point => point.values.net))
    return [trace(middles, measure.title, measure.name === "time" ? GROSS : COLOURS[0], { error_x: error, showlegend: false })];
  const nets = points.map(point => point.values.net ? point.values.net[0] : null);
  return [
    trace(nets, "net: the device computes", NET),
    trace(middles.map((middle, i) => nets[i] === null ? null : middle - nets[i]), "tare: the stack around it", TARE),
    trace(middles.map((middle, i) => nets[i] === null ? middle : null), "gross: net is not known", GROSS, { visible: nets.includes(null) }),
    // The interval of the whole, drawn on bars of no width of their own.
    { type: "scatter", mode: "markers", x: middles, y: names, error_x: error, marker: { size: 1, color: "rgba(0,0,0,0)" },
      hovertext: hover, hoverinfo: "text", showlegend: false, rungs: true },
  ];
}

function bars(figure, state) {
  const points = figure.points.filter(point => point.values[state.measure.name] && (figure.suite || state.place(point)));
  const ordered = figure.suite ? points : [...points].reverse();
  const values = ordered.map(point => point.values[state.measure.name][0]);
  const axis = valueAxis(values, state.measure.unit, state.measure.title, figure.suite && spreads(values));
  const layout = {
    barmode: "stack", height: 130 + ordered.length * (figure.suite ? 18 : 34),
    xaxis: axis, yaxis: { automargin: true, type: "category", dtick: 1, tickfont: { size: figure.suite ? 10 : 12 } },
  };
  if (figure.suite) layout.shapes = [{ type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, line: { width: 1, color: ink() } }];
  return [barTraces(ordered, state.measure, point => figure.suite ? point.at.workload : point.rung), layout];
}

function curves(figure, state) {
  const axis = state.axis, points = figure.points.filter(point => point.values[state.measure.name] && state.slice(point));
  const traces = rungs.map(rung => {
    const own = points.filter(point => point.rung === rung).sort((a, b) => a.at[axis] - b.at[axis]);
    return {
      type: "scatter", mode: "lines+markers", name: rung, x: own.map(point => point.at[axis]),
      y: own.map(point => point.values[state.measure.name][0]), error_y: errorBars(own, state.measure),
      hovertext: own.map(point => `${rung}, ${axis} ${point.at[axis]}: ${pointText(point, state.measure)}`), hoverinfo: "text",
      line: { color: colourOf(rung), dash: dashOf(rung) },
    };
  }).filter(trace => trace.x.length);
  const places = [...new Set(points.map(point => point.at[axis]))].sort((a, b) => a - b);
  const values = points.map(point => point.values[state.measure.name][0]);
  const layout = {
    height: 420, hovermode: "closest",
    xaxis: { title: { text: axis }, type: spreads(places) ? "log" : "linear", tickvals: places, ticktext: places.map(String) },
    yaxis: valueAxis(values, state.measure.unit, state.measure.title, spreads(values)),
  };
  return [traces, layout];
}

function map(figure, state) {
  const [first, second] = figure.axes;
  const points = figure.points.filter(point => point.values[state.measure.name] && point.rung === state.rung && state.rest(point));
  const places = axis => [...new Set(figure.points.map(point => point.at[axis]))].sort((a, b) => a - b);
  const cell = (x, y) => points.find(point => point.at[first] === x && point.at[second] === y);
  const over = pick => places(second).map(y => places(first).map(x => cell(x, y) ? pick(cell(x, y)) : null));
  const value = point => point.values[state.measure.name][0];
  const logarithmic = spreads(points.map(value));
  return [[{
    type: "heatmap", x: places(first).map(String), y: places(second).map(String), colorscale: "Cividis", xgap: 2, ygap: 2, showscale: false,
    z: over(point => logarithmic ? Math.log(value(point)) : value(point)), text: over(point => shown(value(point), state.measure.unit)),
    texttemplate: "%{text}", hovertext: over(point => pointText(point, state.measure)), hoverinfo: "text", hoverongaps: false,
  }], {
    height: 160 + 44 * places(second).length,
    xaxis: { title: { text: first }, type: "category" }, yaxis: { title: { text: second }, type: "category", automargin: true },
  }];
}

const ink = () => getComputedStyle(document.body).color;

function drawInto(element, traces, layout) {
  const style = getComputedStyle(document.documentElement), grid = style.getPropertyValue("--grid").trim();
  for (const name of ["xaxis", "yaxis"]) layout[name] = { gridcolor: grid, zerolinecolor: grid, ...layout[name] };
  for (const trace of traces) for (const name of ["error_x", "error_y"]) if (trace[name]) trace[name].color = trace.line ? trace.line.color : ink();
  const narrow = element.clientWidth < NARROW;
  Plotly.react(element, traces, {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink(), size: narrow ? 11 : 12 },
    margin: { l: 40, r: 16, t: 30, b: 50 }, legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" }, dragmode: narrow ? false : "zoom",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: style.getPropertyValue("--faint").trim(), activecolor: ink() },
    ...layout,
  }, { responsive: true, displaylogo: false, displayModeBar: narrow ? false : "hover", modeBarButtons: [["toImage", "zoomIn2d", "zoomOut2d", "resetScale2d"]] });
}

// A select with its label. `entries` has what a choice stands for by its text; with one entry there is nothing to choose.
function chooser(controls, title, entries, change) {
  const label = document.createElement("label"), select = document.createElement("select");
  label.append(`${title} `, select);
  for (const text of entries.keys()) select.add(new Option(text));
  select.addEventListener("change", change);
  if (entries.size > 1) controls.append(label);
  return { value: () => entries.get(select.value), show: visible => { label.hidden = !visible; } };
}

const byText = (items, text) => new Map(items.map(item => [text(item), item]));

// The distinct places of the points over some axes, as tests of a point by their texts.
function places(figure, axes) {
  const texts = point => axes.map(axis => `${axis} ${point.at[axis]}`).join(", ");
  return new Map([...new Set(figure.points.map(texts))].map(text => [text, point => texts(point) === text]));
}

function setUp(figure) {
  const element = document.getElementById(figure.id), controls = element.querySelector(".controls"), chart = element.querySelector(".chart");
  figure.suite = figure.axes[0] === "workload";
  const views = new Map();
  const numbers = figure.suite ? [] : figure.axes;
  if (numbers.length) views.set("curves", curves);
  if (numbers.length > 1) views.set("map", map);
  views.set("bars", bars);
  const draw = () => {
    const view = choice.view.value();
    choice.axis.show(view === curves);
    choice.rung.show(view === map);
    choice.place.show(view === bars);
    choice.rest.show(view === map);
    for (const [axis, slice] of slices) slice.show(view === curves && axis === choice.axis.value());
    const state = {
      measure: choice.measure.value(), axis: choice.axis.value(), rung: choice.rung.value(), place: choice.place.value(), rest: choice.rest.value(),
      slice: slices.has(choice.axis.value()) ? slices.get(choice.axis.value()).value() : () => true,
    };
    const [traces, layout] = view(figure, state);
    drawInto(chart, traces, layout);
  };
  const choice = {
    measure: chooser(controls, "show", byText(figure.measures, measure => measure.title), draw),
    view: chooser(controls, "as", views, draw),
    axis: chooser(controls, "along", byText(numbers, axis => axis), draw),
    rung: chooser(controls, "rung", byText(rungs.filter(rung => figure.points.some(point => point.rung === rung)), rung => rung), draw),
    place: chooser(controls, "at", places(figure, numbers), draw),
    rest: chooser(controls, "at", places(figure, numbers.slice(2)), draw),
  };
  const slices = new Map(numbers.map(axis => [axis, chooser(controls, "at", places(figure, numbers.filter(other => other !== axis)), draw)]));
  chart.replaceChildren();
  draw();
  redraws.push(draw);
}

// A metric over time: its points with their intervals, and the places where it changed. A point leads to its record.
function drawHistory(figure, chart) {
  const points = figure.points, values = points.map(point => point.value), known = points.some(point => point.low !== null);
  const hover = points.map(point => `${point.at.slice(0, 16).replace("T", " ")} · ${point.label}: ${shown(point.value, figure.unit)}`
    + (point.low === null ? "" : ` (${shown(point.low, figure.unit)} to ${shown(point.high, figure.unit)})`));
  const trace = {
    type: "scatter", mode: points.length > 1 ? "lines+markers" : "markers", x: points.map(point => point.at), y: values, hovertext: hover, hoverinfo: "text",
    line: { color: COLOURS[0], width: 1 }, marker: { size: points.length > 200 ? 4 : 7, color: COLOURS[0] }, showlegend: false,
    error_y: known ? {
      type: "data", symmetric: false, thickness: 1, width: 2, array: points.map(point => point.high === null ? 0 : point.high - point.value),
      arrayminus: points.map(point => point.low === null ? 0 : point.value - Math.max(point.low, 0)),
    } : undefined,
  };
  const low = Math.min(...values), high = Math.max(...values), room = (high - low) * 0.15 || high * 0.1;
  const axis = valueAxis(values, figure.unit, figure.title, false);
  const layout = {
    height: 380, hovermode: "closest", xaxis: { type: "date" },
    yaxis: high - low > 0.3 * high ? axis : { title: { text: figure.title }, automargin: true, range: [low - room, high + room], ...closeTicks(low - room, high + room, figure.unit) },
    shapes: figure.changes.map(change => ({
      type: "rect", x0: change.from, x1: change.until, yref: "paper", y0: 0, y1: 1, line: { width: 0 }, opacity: 0.18, fillcolor: change.worse ? "#d55e00" : "#009e73",
    })),
    annotations: figure.changes.map(change => ({ x: change.until, yref: "paper", y: 1, text: change.text, showarrow: false, xanchor: "left", yanchor: "top", font: { size: 11 } })),
  };
  drawInto(chart, [trace], layout);
  chart.removeAllListeners("plotly_click");
  chart.on("plotly_click", event => {
    const point = points[event.points[0].pointNumber];
    if (point.path) location.href = point.path;
  });
}

// One step: a track for each stream and each level of a thread, and one for why the device waited.
function drawTimeline(figure, chart) {
  const tracks = figure.tracks.map(track => track.name), unit = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([size]) => figure.length >= size) || [1, "ns"];
  const time = value => `${precise(value / unit[0])} ${unit[1]}`;
  const traces = Object.keys(figure.groups).map(group => {
    const spans = figure.tracks.flatMap(track => track.spans.filter(span => span[3] === group).map(span => [track.name, ...span]));
    return {
      type: "bar", orientation: "h", name: group, y: spans.map(span => span[0]), base: spans.map(span => span[1] / unit[0]), x: spans.map(span => span[2] / unit[0]),
      hovertext: spans.map(span => `${figure.names[span[3]].slice(0, 120)}<br>${time(span[2])} at ${time(span[1])}`), hoverinfo: "text",
      marker: { color: figure.groups[group], line: { width: 0 } },
    };
  });
  const layout = {
    height: 140 + 26 * tracks.length, barmode: "overlay", bargap: 0.15, hovermode: "closest", dragmode: "zoom", margin: { l: 20, r: 16, t: 60, b: 50 },
    xaxis: { title: { text: `${unit[1]} of the step` }, range: [0, figure.length / unit[0]] },
    yaxis: { type: "category", categoryorder: "array", categoryarray: [...tracks].reverse(), automargin: true, fixedrange: true },
  };
  drawInto(chart, traces, layout);
}

// Ticks between two values that lie close together, with digits enough to tell them apart.
function closeTicks(low, high, unit) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map(size => size * power).find(size => size >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  if (unit !== "s" && unit !== "B") return { tickvals: ticks };
  const [size, name] = unit === "s" ? [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(([size]) => high >= size) || [1e-9, "ns"]
    : [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]].find(([size]) => high >= size);
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size)));
  return { tickvals: ticks, ticktext: ticks.map(tick => `${(tick / size).toFixed(digits)} ${name}`) };
}

// Every sample of a record, round by round, as it was taken.
function drawSamples(figure, chart) {
  const traces = figure.series.map((series, i) => ({
    type: "scatter", mode: "markers", name: series.name, x: series.at, y: series.values,
    marker: { size: 3, color: COLOURS[i % COLOURS.length] }, hoverinfo: "y+name",
  }));
  const values = figure.series.flatMap(series => series.values);
  const layout = { height: 380, xaxis: { title: { text: "seconds since the round began to sample" } }, yaxis: valueAxis(values, "s", "time of a step", spreads(values)) };
  drawInto(chart, traces, layout);
}

// A figure of training over epochs: for each rung the mean over its runs, in a band from the least to the most.
function drawTraining(figure, chart) {
  const controls = document.getElementById(figure.id).querySelector(".controls");
  const draw = () => {
    const measure = chosen.value();
    const traces = figure.rungs.flatMap((rung, i) => {
      const points = rung.points.filter(point => point[measure.name]), x = points.map(point => point.epoch), colour = COLOURS[i % COLOURS.length];
      const of = part => points.map(point => point[measure.name][part]);
      const edge = { type: "scatter", mode: "lines", x, line: { width: 0, color: colour }, hoverinfo: "skip", showlegend: false, legendgroup: rung.name };
      return [
        { ...edge, y: of(1) }, { ...edge, y: of(2), fill: "tonexty", fillcolor: colour + "33" },
        {
          type: "scatter", mode: x.length > 40 ? "lines" : "lines+markers", name: rung.name, legendgroup: rung.name, x, y: of(0),
          line: { color: colour, dash: DASHES[Math.floor(i / COLOURS.length) % DASHES.length] }, marker: { size: 5 }, hoverinfo: "text",
          hovertext: points.map(point => {
            const [mean, low, high] = point[measure.name].map(value => measure.share ? `${(100 * value).toFixed(2)} %` : precise(value));
            return `${rung.name}, epoch ${point.epoch}: ${mean} (${low} to ${high})`;
          }),
        },
      ];
    });
    const values = figure.rungs.flatMap(rung => rung.points.flatMap(point => point[measure.name] || []));
    const logarithmic = !measure.share && spreads(values);
    const layout = {
      height: 420, hovermode: "closest", xaxis: { title: { text: "epoch" } },
      yaxis: { title: { text: measure.title }, automargin: true, type: logarithmic ? "log" : "linear", tickformat: measure.share ? ".3~p" : undefined },
    };
    drawInto(chart, traces, layout);
  };
  controls.replaceChildren();
  const chosen = chooser(controls, "show", byText(figure.measures, measure => measure.title), draw);
  draw();
}

// A cell as what it is sorted by: a number in its base unit, or its text. Figures come before texts.
const UNITS = {
  ns: 1e-9, "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, "%": 0.01, x: 1,
  K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, B: 1,
};
function sortKey(text) {
  const parts = text.trim().match(/^[<~]?([+-]?\d[\d.,]*(?:e[+-]?\d+)?)(?:\s*±\s*>?[\d.]+)?\s*([a-zµ%]*)/i);
  if (!parts || (parts[2] && !(parts[2] in UNITS))) return text.trim().toLowerCase();
  return Number(parts[1].replaceAll(",", "")) * (UNITS[parts[2]] || 1);
}

function compareKeys(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}

function sortBy(head) {
  const table = head.closest("table"), column = [...head.parentNode.children].indexOf(head);
  const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const rows = [...table.rows].slice(1);
  const key = row => "value" in row.cells[column].dataset ? Number(row.cells[column].dataset.value) : sortKey(row.cells[column].textContent);
  rows.sort((a, b) => direction * compareKeys(key(a), key(b)));
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
  head.parentNode.after(...rows);
}

for (const head of document.querySelectorAll("th")) {
  if (!head.textContent.trim()) continue;
  head.classList.add("sortable");
  head.tabIndex = 0;
  head.addEventListener("click", () => sortBy(head));
  head.addEventListener("keydown", event => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sortBy(head); }
  });
}

const OTHERS = { history: drawHistory, samples: drawSamples, timeline: drawTimeline, training: drawTraining };
for (const figure of figures) {
  if (!figure.kind) { setUp(figure); continue; }
  const chart = document.getElementById(figure.id).querySelector(".chart");
  const draw = () => OTHERS[figure.kind](figure, chart);
  chart.replaceChildren();
  draw();
  redraws.push(draw);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach(draw => draw()));
