// The page of `soma report --html`: what bounds all programs, and each in bars and a table.
#include <fmt/core.h>

#include "tools/soma/execution_parts.h"
#include "tools/soma/execution_view.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

constexpr double kBarsWidth = 900;
std::string bars(const ExecutionView& e) {
  constexpr double kNames = 60;
  constexpr double kRow = 26;
  std::string out;
  double y = 4;
  for (const EngineView& engine : e.engines) {
    out += fmt::format("<text x='{}' y='{:.0f}' text-anchor='end'>{}</text>\n", kNames - 8, y + 14,
                       escape(engine.name));
    double x = kNames;
    const auto bar = [&](double value, const char* colour, const char* title) {
      const double width = (kBarsWidth - kNames) * value / e.total;
      if (width <= 0) return;
      out += fmt::format(
          "<rect x='{:.2f}' y='{:.0f}' width='{:.2f}' height='18' fill='{}'><title>{}, {}: {}, "
          "{:.1f} %</title></rect>\n",
          x, y, width, colour, escape(engine.name), title, duration_text(value),
          percent(value, e.total));
      x += width;
    };
    bar(engine.busy, kBusyColour, "busy");
    for (const StallCause& cause : kStallCauses) {
      bar(stalled(engine, cause), cause.colour, cause.explanation);
    }
    bar(idle(engine, e.total), "#e8e8e8", "nothing to do");
    y += kRow;
  }
  return fmt::format("<svg viewBox='0 0 {} {:.0f}' font-size='13'>\n{}</svg>\n", kBarsWidth, y,
                     out);
}

std::string legend() {
  const auto entry = [](const char* colour, const char* text) {
    return fmt::format("<span style='border-left:1em solid {};padding:0 1em 0 .4em'>{}</span>\n",
                       colour, text);
  };
  std::string out = "<p>" + entry(kBusyColour, "busy");
  for (const StallCause& cause : kStallCauses) out += entry(cause.colour, cause.explanation);
  return out + entry("#e8e8e8", "nothing to do");
}

std::string table(const ExecutionView& e) {
  std::string out = "<table><tr><th>engine<th>instructions<th>busy";
  for (const StallCause& cause : kStallCauses) out += fmt::format("<th>{}", cause.title);
  out += "<th>idle<th>engines it waits for<th>bytes\n";
  for (const EngineView& engine : e.engines) {
    out += fmt::format("<tr><td>{}<td>{}<td>{:.1f} %", escape(engine.name), engine.instructions,
                       percent(engine.busy, e.total));
    for (const StallCause& cause : kStallCauses) {
      out += fmt::format("<td>{:.1f} %", percent(stalled(engine, cause), e.total));
    }
    out += fmt::format("<td>{:.1f} %<td>{}<td>{}\n", percent(idle(engine, e.total), e.total),
                       escape(shares_text(engine.waited_for, e.total)), escape(bytes_text(engine)));
  }
  return out + "</table>\n";
}

constexpr const char* kStyle =
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1200px;padding:0 1em}"
    "svg{width:100%;height:auto}table{border-collapse:collapse;font-size:12px}"
    "td,th{border:1px solid #ccc;padding:2px 8px;text-align:right}"
    ".lines td:first-child,.lines td:nth-child(3),.lines td:last-child{text-align:left}"
    ".timeline svg{cursor:grab;user-select:none}";

// Moves and stretches the bars of a timeline; each knows its time. Texts are put on bars that are
// wide enough.
constexpr const char* kScript = R"(<script>
for (const svg of document.querySelectorAll('.timeline svg')) {
  const left = +svg.dataset.left, width = +svg.dataset.width, all = +svg.dataset.total;
  const bars = [...svg.querySelectorAll('.bars rect')];
  const texts = svg.querySelector('.texts'), ticks = svg.querySelector('.ticks');
  const bottom = +svg.dataset.bottom, top = +svg.dataset.top;
  const make = (parent, name, attributes, text) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    e.textContent = text || '';
    parent.append(e);
  };
  let from = 0, to = all;
  const draw = () => {
    const scale = width / (to - from);
    texts.replaceChildren();
    for (const bar of bars) {
      const begin = Math.max(+bar.dataset.b, from), end = Math.min(+bar.dataset.e, to);
      const seen = end > begin, wide = Math.max((end - begin) * scale, 0.4);
      bar.style.display = seen ? '' : 'none';
      if (!seen) continue;
      const x = left + (begin - from) * scale;
      bar.setAttribute('x', x);
      bar.setAttribute('width', wide);
      const label = bar.dataset.l || '';
      if (label && label.length * 5.3 + 4 < wide)
        make(texts, 'text', {x: x + wide / 2, y: +bar.getAttribute('y') + 13,
                             'text-anchor': 'middle', 'font-size': 9, fill: '#fff'}, label);
    }
    ticks.replaceChildren();
    let step = Math.pow(10, Math.floor(Math.log10(to - from)));
    while ((to - from) / step < 8) step /= 2;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = left + (t - from) * scale;
      make(ticks, 'path', {d: `M${x} ${top}V${bottom}`, stroke: '#ddd'});
      make(ticks, 'text', {x, y: top - 5, 'text-anchor': 'middle'},
           +(t / 1e6).toPrecision(6) + ' us');
    }
  };
  const limit = (a, b) => {
    const span = Math.min(Math.max(b - a, 1000), all);
    from = Math.min(Math.max(a, 0), all - span);
    to = from + span;
    draw();
  };
  const at = e => {
    const box = svg.getBoundingClientRect();
    const x = (e.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    return from + (x - left) / width * (to - from);
  };
  svg.addEventListener('wheel', e => {
    e.preventDefault();
    const t = at(e), k = e.deltaY < 0 ? 0.8 : 1.25;
    limit(t - (t - from) * k, t + (to - t) * k);
  }, {passive: false});
  let grip = null;
  svg.addEventListener('pointerdown', e => { grip = at(e); });
  svg.addEventListener('pointermove', e => {
    if (grip === null) return;
    const move = grip - at(e);
    limit(from + move, to + move);
  });
  window.addEventListener('pointerup', () => { grip = null; });
  svg.addEventListener('dblclick', () => limit(0, all));
}
</script>
)";

}  // namespace

std::string executions_page(const std::string& title,
                            const std::vector<ExecutionView>& executions) {
  std::string out = fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><title>{0}</title><style>{1}</style>\n"
      "<h1>{0}</h1>\n<p>Simulated times are approximate.\n",
      escape(title), kStyle);
  if (executions.empty()) return out + "<p>No program was executed on a NeuronCore.\n";
  const std::string roofline = roofline_svg(executions);
  if (!roofline.empty()) out += "<h2>Roofline</h2>\n" + roofline;
  for (const ExecutionView& e : executions) {
    out += fmt::format("<h2>{}</h2>\n<p>{}.\n", escape(title_of(e)), escape(times_of(e)));
    for (const std::string& line : rates_of(e)) out += "<br>" + escape(line) + ".\n";
    out += "<p>Critical path: " + escape(critical_text(e)) + ".\n" + bars(e) + legend() + table(e);
    if (e.timeline) {
      out += "<h3>Timeline of the first execution</h3>\n<p>" + escape(timeline_notes(*e.timeline)) +
             " Turn the wheel over it to zoom, drag to move, double-click for all; the pointer "
             "on a bar tells more.\n<div class='timeline'>\n" +
             timeline_svg(e, {0, e.timeline->total}) + "</div>\n";
    }
    if (!e.lines.empty()) {
      out += "<h3>Lines of source</h3>\n<p>Those that keep an engine busy longest" +
             std::string(e.more_lines == 0 ? "" : "; rare ones were left out") + ".\n" +
             lines_table(e);
    }
  }
  return out + kScript;
}

}  // namespace soma
