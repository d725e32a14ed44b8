#include "common/accuracy/detection_match.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>

namespace gq::accuracy {
namespace {

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool Contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

std::optional<DetectionLayout> FindDetectionLayout(std::span<const OutputShape> outputs) {
  DetectionLayout layout;
  if (outputs.size() == 1) {
    const std::vector<int64_t>& shape = outputs[0].shape;
    const size_t rank = shape.size();
    if ((rank == 2 && (shape[1] == 6 || shape[1] == 7)) || (rank == 3 && shape[2] == 6)) {
      layout.form = DetectionLayout::Form::kRows;
      layout.rows = 0;
      layout.row_width = static_cast<int>(shape.back());
      return layout;
    }
    return std::nullopt;
  }
  layout.form = DetectionLayout::Form::kColumns;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = Lower(outputs[i].name);
    const std::vector<int64_t>& shape = outputs[i].shape;
    const int position = static_cast<int>(i);
    if (!shape.empty() && shape.back() == 4 && shape.size() >= 2) {
      if (layout.boxes >= 0) return std::nullopt;
      layout.boxes = position;
    } else if (Contains(name, "score")) {
      if (layout.scores >= 0) return std::nullopt;
      layout.scores = position;
    } else if (Contains(name, "class") || Contains(name, "label")) {
      if (layout.classes >= 0) return std::nullopt;
      layout.classes = position;
    }
  }
  if (layout.boxes < 0 || layout.scores < 0 || layout.classes < 0) return std::nullopt;
  // As many scores and classes as boxes, or a score is one of many classes: a raw head.
  std::vector<int64_t> rows = outputs[layout.boxes].shape;
  rows.pop_back();
  if (outputs[layout.scores].shape != rows || outputs[layout.classes].shape != rows) {
    return std::nullopt;
  }
  return layout;
}

double IntersectionOverUnion(const Detection& a, const Detection& b) {
  const auto area = [](const Detection& d) {
    return std::max(d.x2 - d.x1, 0.0) * std::max(d.y2 - d.y1, 0.0);
  };
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const double common = std::max(width, 0.0) * std::max(height, 0.0);
  const double whole = area(a) + area(b) - common;
  return whole > 0 ? common / whole : 0;
}

std::optional<std::vector<Detection>> ReadDetections(const DetectionLayout& layout,
                                                     std::span<const std::span<const float>> values,
                                                     double min_score) {
  std::vector<Detection> found;
  const bool rows = layout.form == DetectionLayout::Form::kRows;
  const auto width = static_cast<size_t>(layout.row_width);
  const size_t count = rows ? values[layout.rows].size() / width : values[layout.scores].size();
  for (size_t i = 0; i < count; ++i) {
    Detection d;
    double label;
    const float* box;
    if (rows) {
      const float* row = values[layout.rows].data() + i * width + (width == 7 ? 1 : 0);
      box = row;
      d.score = row[4];
      label = row[5];
    } else {
      box = values[layout.boxes].data() + i * 4;
      d.score = values[layout.scores][i];
      label = values[layout.classes][i];
    }
    if (!(d.score >= min_score)) continue;
    if (!(std::abs(label) < 1e9) || std::abs(label - std::round(label)) > 1e-3) return std::nullopt;
    // Corners in either order: x and y may be swapped, but then they are in both models.
    d.x1 = std::min(box[0], box[2]);
    d.x2 = std::max(box[0], box[2]);
    d.y1 = std::min(box[1], box[3]);
    d.y2 = std::max(box[1], box[3]);
    d.label = std::llround(label);
    found.push_back(d);
  }
  return found;
}

void DetectionMatcher::AddSample(std::vector<Detection> reference,
                                 std::vector<Detection> candidate) {
  const auto by_score = [](const Detection& a, const Detection& b) { return a.score > b.score; };
  std::stable_sort(reference.begin(), reference.end(), by_score);
  std::vector<bool> taken(candidate.size(), false);
  sum_.reference_boxes += static_cast<int64_t>(reference.size());
  sum_.candidate_boxes += static_cast<int64_t>(candidate.size());
  for (const Detection& r : reference) {
    double best = 0;
    size_t at = candidate.size();
    for (size_t i = 0; i < candidate.size(); ++i) {
      if (taken[i] || candidate[i].label != r.label) continue;
      const double iou = IntersectionOverUnion(r, candidate[i]);
      if (iou >= kMinIou && iou > best) {
        best = iou;
        at = i;
      }
    }
    if (at == candidate.size()) continue;
    taken[at] = true;
    ++sum_.matched;
    iou_sum_ += best;
  }
}

DetectionFigures DetectionMatcher::Figures() const {
  DetectionFigures f = sum_;
  const auto matched = static_cast<double>(f.matched);
  if (f.matched > 0) f.mean_iou = iou_sum_ / matched;
  if (f.reference_boxes > 0) f.recall = 100 * matched / static_cast<double>(f.reference_boxes);
  if (f.candidate_boxes > 0) f.precision = 100 * matched / static_cast<double>(f.candidate_boxes);
  return f;
}

}  // namespace gq::accuracy
