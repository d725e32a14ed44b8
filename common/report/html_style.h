// The style sheet of the report's page.
#pragma once

#include <string_view>

namespace gq::report {

inline constexpr std::string_view kReportStyle = R"css(
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #ffffff; --soft: #f3f5f7; --line: #d0d7de;
  --muted: #57606a; --accent: #0b5cad; --good: #116329; --bad: #a40e26; --warn: #7a4b00;
  --int8: #2f81c1; --bf16: #c96a12; --fp16: #8250b3; --float: #6e7781; --other: #1a7f64; }
@media (prefers-color-scheme: dark) { :root { --fg: #e6edf3; --bg: #0d1117; --soft: #161b22;
  --line: #30363d; --muted: #9aa4af; --accent: #6cb0f5; --good: #57d174; --bad: #ff8e86;
  --warn: #e3b341; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--fg); background: var(--bg);
  max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1rem 0 .25rem; overflow-wrap: anywhere; }
header { border-left: .5rem solid var(--muted); padding: .75rem 1rem; background: var(--soft); }
header.met { border-color: var(--good); } header.missed { border-color: var(--bad); }
.verdict { font-size: 1.3rem; font-weight: 600; margin: 0; }
.met .verdict { color: var(--good); } .missed .verdict { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin-bottom: .75rem; } th[scope="row"] { width: 15rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .92em; }
.absent, .note { color: var(--muted); } .simulated, .warning { color: var(--warn); }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 11px; fill: var(--fg); font-family: inherit; }
.grid { stroke: var(--line); stroke-width: .5; } .mark { stroke: var(--bad); stroke-width: 1.5; }
.bar { fill: var(--int8); } .bad { fill: var(--bad); }
.dot { fill: var(--accent); fill-opacity: .6; }
.curve { fill: none; stroke: var(--accent); stroke-width: 1.5; }
.p-int8 { fill: var(--int8); } .p-bf16 { fill: var(--bf16); } .p-fp16 { fill: var(--fp16); }
.p-float { fill: var(--float); } .p-other { fill: var(--other); }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; }
.legend svg { width: 12px; display: inline-block; vertical-align: middle; }
summary { cursor: pointer; font-weight: 600; } details { margin: .5rem 0; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
a { color: var(--accent); }
)css";

}  // namespace gq::report
