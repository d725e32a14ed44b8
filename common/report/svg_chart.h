// Charts as inline SVG: no script, every text escaped, each with a name for screen readers. Colours
// are CSS classes of the page (html_style.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gq::report {

struct Bar {
  std::string label;
  double value = 0;
};

struct Point {
  double x = 0;
  double y = 0;
};

// One cell of a strip.
struct Cell {
  std::string css_class;  // fill
  std::string title;      // shown on hover
};

// Horizontal bars from 0, longest label to the left; values that are not finite are drawn as a full
// bar.
std::string BarChart(std::string_view name, std::string_view unit, const std::vector<Bar>& bars);

// Points with axes that start at the data; with `diagonal` the line y = x. Points that are not
// finite are left out.
std::string ScatterChart(std::string_view name, std::string_view x_axis, std::string_view y_axis,
                         const std::vector<Point>& points, bool diagonal);

// The same with the points joined in their order.
std::string LineChart(std::string_view name, std::string_view x_axis, std::string_view y_axis,
                      const std::vector<Point>& points);

// Counts of equal bins over [low, high]; `marks` are values to draw a line at, such as a clipping
// range.
std::string HistogramChart(std::string_view name, std::string_view x_axis, double low, double high,
                           const std::vector<double>& counts, const std::vector<double>& marks);

// Cells in rows, in reading order.
std::string StripChart(std::string_view name, const std::vector<Cell>& cells);

}  // namespace gq::report
