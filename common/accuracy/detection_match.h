// Decoded detections of two models, matched box by box.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gq::accuracy {

// Where the decoded detections of a model are among its outputs. Two forms are recognised:
//   rows     one output [N,B,6] or [B,6] of rows x1 y1 x2 y2 score class, or [B,7] with the number
//   of
//            the image in front; classes are whole numbers
//   columns  boxes [N,B,4], scores [N,B] and classes [N,B], as of TensorFlow's detectors; the score
//            and class outputs are told apart by their names
struct DetectionLayout {
  enum class Form { kRows, kColumns };
  Form form = Form::kRows;
  int rows = -1;
  int boxes = -1, scores = -1, classes = -1;  // positions of the outputs
  int row_width = 6;
};

struct OutputShape {
  std::string name;
  std::vector<int64_t> shape;
};

// Nothing when the outputs have neither form: raw heads need external validation.
std::optional<DetectionLayout> FindDetectionLayout(std::span<const OutputShape> outputs);

struct Detection {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  double score = 0;
  int64_t label = 0;
};

// Intersection over union of two boxes; 0 when both are empty.
double IntersectionOverUnion(const Detection& a, const Detection& b);

// The detections of one sample with a score of at least `min_score`. `values` holds the outputs in
// the model's order (one span an output). Nothing when a class is no whole number, so that the
// layout was misread.
std::optional<std::vector<Detection>> ReadDetections(const DetectionLayout& layout,
                                                     std::span<const std::span<const float>> values,
                                                     double min_score);

struct DetectionFigures {
  int64_t reference_boxes = 0;
  int64_t candidate_boxes = 0;
  int64_t matched = 0;     // pairs with IoU >= 0.5 and the same class, each box in one pair at most
  double mean_iou = 0;     // of the pairs
  double recall = 100;     // percent of the reference's boxes that are matched
  double precision = 100;  // percent of the candidate's boxes that are matched
};

// Matches greedily by the reference's score, best overlap first. Not thread-safe.
class DetectionMatcher {
 public:
  static constexpr double kMinScore = 0.25;
  static constexpr double kMinIou = 0.5;

  void AddSample(std::vector<Detection> reference, std::vector<Detection> candidate);
  DetectionFigures Figures() const;

 private:
  DetectionFigures sum_;
  double iou_sum_ = 0;
};

}  // namespace gq::accuracy
