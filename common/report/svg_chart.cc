#include "common/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/text.h"
#include "common/report/escape.h"
#include "common/report/json_view.h"

namespace gq::report {
namespace {

using base::StrAppend;
using base::StrCat;

constexpr double kWidth = 720;
constexpr double kHeight = 320;
constexpr double kLeft = 84;
constexpr double kRight = 16;
constexpr double kTop = 12;
constexpr double kBottom = 44;
constexpr double kBarHeight = 18;
constexpr double kBarGap = 4;
constexpr double kLabelWidth = 260;
constexpr double kValueWidth = 90;
constexpr size_t kLabelCharacters = 38;

std::string Number(double value) { return FormatNumber(value, 1); }

std::string Open(std::string_view name, double width, double height) {
  const std::string escaped = EscapeHtml(name);
  return StrCat("<svg role=\"img\" aria-label=\"", escaped, "\" viewBox=\"0 0 ", Number(width), " ",
                Number(height), "\" width=\"", Number(width), "\"><title>", escaped, "</title>\n");
}

std::string TextElement(double x, double y, std::string_view anchor, std::string_view text) {
  return StrCat("<text x=\"", Number(x), "\" y=\"", Number(y), "\" text-anchor=\"", anchor, "\">",
                EscapeHtml(text), "</text>\n");
}

std::string LineElement(double x1, double y1, double x2, double y2, std::string_view css) {
  return StrCat("<line class=\"", css, "\" x1=\"", Number(x1), "\" y1=\"", Number(y1), "\" x2=\"",
                Number(x2), "\" y2=\"", Number(y2), "\"/>\n");
}

// The end of a label says more than its beginning.
std::string ShortLabel(const std::string& label) {
  if (label.size() <= kLabelCharacters) return label;
  size_t begin = label.size() - kLabelCharacters + 1;
  while (begin < label.size() && (static_cast<unsigned char>(label[begin]) & 0xc0) == 0x80) ++begin;
  return "\xE2\x80\xA6" + label.substr(begin);
}

// A range of values laid over a range of pixels.
class Axis {
 public:
  Axis(double low, double high, double from, double to) : low_(low), from_(from), to_(to) {
    span_ = high > low ? high - low : 1;
  }
  double At(double value) const { return from_ + (value - low_) / span_ * (to_ - from_); }

  // Round values inside the range, three to eight of them.
  std::vector<double> Ticks() const {
    double step = std::pow(10, std::floor(std::log10(span_ / 2)));
    for (const double factor : {2.0, 2.5, 2.0}) {
      if (span_ / step > 8) step *= factor;
    }
    std::vector<double> ticks;
    for (double i = std::ceil(low_ / step); i * step <= low_ + span_ * (1 + 1e-9); ++i) {
      ticks.push_back(i * step + 0.0);  // never -0
    }
    return ticks;
  }

 private:
  double low_;
  double span_;
  double from_;
  double to_;
};

std::string Frame(const Axis& x, const Axis& y, std::string_view x_axis, std::string_view y_axis) {
  std::string text;
  for (const double tick : x.Ticks()) {
    text += LineElement(x.At(tick), kTop, x.At(tick), kHeight - kBottom, "grid");
    text += TextElement(x.At(tick), kHeight - kBottom + 16, "middle", FormatGeneral(tick));
  }
  for (const double tick : y.Ticks()) {
    text += LineElement(kLeft, y.At(tick), kWidth - kRight, y.At(tick), "grid");
    text += TextElement(kLeft - 6, y.At(tick) + 4, "end", FormatGeneral(tick));
  }
  text += TextElement((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", x_axis);
  StrAppend(&text, "<text transform=\"translate(14 ", Number((kTop + kHeight - kBottom) / 2),
            ") rotate(-90)\" text-anchor=\"middle\">", EscapeHtml(y_axis), "</text>\n");
  return text;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::vector<Point> FinitePoints(const std::vector<Point>& points) {
  std::vector<Point> finite;
  for (const Point& point : points) {
    if (std::isfinite(point.x) && std::isfinite(point.y)) finite.push_back(point);
  }
  return finite;
}

Axis XAxis(const Range& range) { return {range.low, range.high, kLeft, kWidth - kRight}; }
Axis YAxis(const Range& range) { return {range.low, range.high, kHeight - kBottom, kTop}; }

}  // namespace

std::string BarChart(std::string_view name, std::string_view unit, const std::vector<Bar>& bars) {
  double longest = 0;
  for (const Bar& bar : bars) {
    if (std::isfinite(bar.value)) longest = std::max(longest, std::abs(bar.value));
  }
  if (longest == 0) longest = 1;
  const double height = (kBarHeight + kBarGap) * static_cast<double>(bars.size());
  const double room = kWidth - kLabelWidth - kValueWidth;
  std::string text = Open(name, kWidth, height);
  double y = 0;
  for (const Bar& bar : bars) {
    const double share = std::isfinite(bar.value) ? std::abs(bar.value) / longest : 1;
    const std::string value = StrCat(FormatNumber(bar.value), " ", unit);
    StrAppend(&text, "<g><title>", EscapeHtml(StrCat(bar.label, ": ", value)), "</title>\n");
    text += TextElement(kLabelWidth - 8, y + kBarHeight - 5, "end", ShortLabel(bar.label));
    StrAppend(&text, "<rect class=\"", bar.value < 0 ? "bad" : "bar", "\" x=\"",
              Number(kLabelWidth), "\" y=\"", Number(y), "\" width=\"",
              Number(std::max(1.0, share * room)), "\" height=\"", Number(kBarHeight), "\"/>\n");
    text += TextElement(kLabelWidth + share * room + 6, y + kBarHeight - 5, "start", value);
    text += "</g>\n";
    y += kBarHeight + kBarGap;
  }
  return text + "</svg>\n";
}

std::string ScatterChart(std::string_view name, std::string_view x_axis, std::string_view y_axis,
                         const std::vector<Point>& points, bool diagonal) {
  const std::vector<Point> finite = FinitePoints(points);
  Range xs, ys;
  for (const Point& point : finite) {
    xs.Add(point.x);
    ys.Add(point.y);
    if (diagonal) {
      xs.Add(point.y);
      ys.Add(point.x);
    }
  }
  const Axis x = XAxis(xs);
  const Axis y = YAxis(ys);
  std::string text = Open(name, kWidth, kHeight) + Frame(x, y, x_axis, y_axis);
  if (diagonal)
    text += LineElement(x.At(xs.low), y.At(xs.low), x.At(xs.high), y.At(xs.high), "mark");
  for (const Point& point : finite) {
    StrAppend(&text, "<circle class=\"dot\" cx=\"", Number(x.At(point.x)), "\" cy=\"",
              Number(y.At(point.y)), "\" r=\"2\"/>\n");
  }
  return text + "</svg>\n";
}

std::string LineChart(std::string_view name, std::string_view x_axis, std::string_view y_axis,
                      const std::vector<Point>& points) {
  const std::vector<Point> finite = FinitePoints(points);
  Range xs, ys;
  for (const Point& point : finite) {
    xs.Add(point.x);
    ys.Add(point.y);
  }
  const Axis x = XAxis(xs);
  const Axis y = YAxis(ys);
  std::string text = Open(name, kWidth, kHeight) + Frame(x, y, x_axis, y_axis);
  text += "<polyline class=\"curve\" points=\"";
  for (const Point& point : finite) {
    StrAppend(&text, Number(x.At(point.x)), ",", Number(y.At(point.y)), " ");
  }
  text += "\"/>\n";
  for (const Point& point : finite) {
    StrAppend(&text, "<circle class=\"dot\" cx=\"", Number(x.At(point.x)), "\" cy=\"",
              Number(y.At(point.y)), "\" r=\"3\"><title>",
              EscapeHtml(StrCat(FormatGeneral(point.x), ", ", FormatGeneral(point.y))),
              "</title></circle>\n");
  }
  return text + "</svg>\n";
}

std::string HistogramChart(std::string_view name, std::string_view x_axis, double low, double high,
                           const std::vector<double>& counts, const std::vector<double>& marks) {
  Range ys;
  ys.Add(0);
  for (double count : counts) ys.Add(count);
  const Axis x(low, high, kLeft, kWidth - kRight);
  const Axis y = YAxis(ys);
  std::string text = Open(name, kWidth, kHeight) + Frame(x, y, x_axis, "count");
  const double step = (high - low) / static_cast<double>(std::max<size_t>(1, counts.size()));
  for (size_t i = 0; i < counts.size(); ++i) {
    const double left = x.At(low + step * static_cast<double>(i));
    const double right = x.At(low + step * static_cast<double>(i + 1));
    const double top = y.At(counts[i]);
    StrAppend(&text, "<rect class=\"bar\" x=\"", Number(left), "\" y=\"", Number(top),
              "\" width=\"", Number(std::max(0.5, right - left)), "\" height=\"",
              Number(std::max(0.0, kHeight - kBottom - top)), "\"/>\n");
  }
  for (double mark : marks) {
    if (mark < low || mark > high) continue;
    text += LineElement(x.At(mark), kTop, x.At(mark), kHeight - kBottom, "mark");
  }
  return text + "</svg>\n";
}

std::string StripChart(std::string_view name, const std::vector<Cell>& cells) {
  constexpr size_t kColumns = 48;
  constexpr double kCell = kWidth / kColumns;
  const size_t rows = (cells.size() + kColumns - 1) / kColumns;
  std::string text = Open(name, kWidth, kCell * static_cast<double>(rows));
  for (size_t i = 0; i < cells.size(); ++i) {
    StrAppend(&text, "<rect class=\"", EscapeHtml(cells[i].css_class), "\" x=\"",
              Number(kCell * static_cast<double>(i % kColumns)), "\" y=\"",
              Number(kCell * static_cast<double>(i / kColumns)), "\" width=\"", Number(kCell - 1),
              "\" height=\"", Number(kCell - 1), "\"><title>", EscapeHtml(cells[i].title),
              "</title></rect>\n");
  }
  return text + "</svg>\n";
}

}  // namespace gq::report
