#include <algorithm>

#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

// The spatial pads of a Pad by zeros, begins then ends; nullopt when it pads other axes, cuts, or
// is not constant.
std::optional<std::vector<int64_t>> SpatialZeroPads(const onnx::NodeProto& node,
                                                    const PassView& view) {
  if (!IsOp(node, "Pad") || AttributeString(node, "mode", "constant") != "constant") {
    return std::nullopt;
  }
  if (!InputName(node, 2).empty() && view.Scalar(node.input(2)) != 0.0) return std::nullopt;
  const auto shape = view.index().Shape(node.input(0));
  const auto given = view.Ints(InputName(node, 1));
  if (!shape.has_value() || !given.has_value() || shape->size() < 3) return std::nullopt;
  const auto rank = static_cast<int64_t>(shape->size());
  std::vector<int64_t> axes;
  if (InputName(node, 3).empty()) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  } else {
    const auto listed = view.Ints(node.input(3));
    if (!listed.has_value()) return std::nullopt;
    for (const int64_t axis : *listed) axes.push_back(axis < 0 ? axis + rank : axis);
  }
  if (given->size() != 2 * axes.size()) return std::nullopt;
  std::vector<int64_t> pads(2 * (rank - 2), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t begin = (*given)[i];
    const int64_t end = (*given)[i + axes.size()];
    if (begin < 0 || end < 0 || axes[i] < 0 || axes[i] >= rank) return std::nullopt;
    if (axes[i] < 2) {
      if (begin != 0 || end != 0) return std::nullopt;
      continue;
    }
    pads[axes[i] - 2] = begin;
    pads[axes[i] - 2 + rank - 2] = end;
  }
  return pads;
}

// The window operator's own pads; nullopt when they are computed from the shape.
std::optional<std::vector<int64_t>> OwnPads(const onnx::NodeProto& node, size_t size) {
  const std::string mode = AttributeString(node, "auto_pad", "NOTSET");
  if (mode == "VALID") return std::vector<int64_t>(size, 0);
  if (mode != "NOTSET") return std::nullopt;
  auto pads = AttributeInts(node, "pads", std::vector<int64_t>(size, 0));
  if (pads.size() != size) return std::nullopt;
  return pads;
}

// Position of the window operator that alone reads the Pad at `position`; -1 for none.
int WindowAfter(int position, std::string_view op, const PassView& view) {
  const auto pads = SpatialZeroPads(view.node(position), view);
  if (!pads.has_value()) return -1;
  const int reader = view.OnlyReader(position);
  if (reader < 0 || !IsOp(view.node(reader), op)) return -1;
  if (view.node(reader).input(0) != view.node(position).output(0)) return -1;
  return OwnPads(view.node(reader), pads->size()).has_value() ? reader : -1;
}

std::vector<int64_t> SumOfPads(const onnx::NodeProto& pad, const onnx::NodeProto& window,
                               const PassView& view) {
  std::vector<int64_t> pads = *SpatialZeroPads(pad, view);
  const std::vector<int64_t> own = *OwnPads(window, pads.size());
  for (size_t i = 0; i < pads.size(); ++i) pads[i] += own[i];
  return pads;
}

class PadIntoConvPass : public PatternPass {
 public:
  std::string_view name() const override { return "pad-into-conv"; }
  std::string_view summary() const override {
    return "adds the pads of a Pad by zeros to those of the Conv that alone reads it; the Conv is "
           "then named after "
           "its output";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const int conv = WindowAfter(position, "Conv", view);
    if (conv < 0) return std::nullopt;
    return PassMatch{{position, conv}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    const auto& pad = view.node(match.nodes[0]);
    onnx::NodeProto conv = view.node(match.nodes[1]);
    PassRewrite rewrite;
    rewrite.detail = StrCat(Describe(pad), " into ", Describe(conv));
    SetAttribute("pads", SumOfPads(pad, conv, view), &conv);
    RemoveAttribute("auto_pad", &conv);
    conv.set_input(0, pad.input(0));
    conv.set_name(names->UniqueNode(conv.output(0)));
    rewrite.successor = conv.name();
    rewrite.nodes.push_back(std::move(conv));
    return rewrite;
  }
};

class PadIntoAveragePoolPass : public PatternPass {
 public:
  std::string_view name() const override { return "pad-into-average-pool"; }
  std::string_view summary() const override {
    return "adds the pads of a Pad by zeros to those of the AveragePool that alone reads it and "
           "lets it count them";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const int pool = WindowAfter(position, "AveragePool", view);
    if (pool < 0) return std::nullopt;
    const auto& node = view.node(pool);
    const auto pads = SpatialZeroPads(view.node(position), view);
    const auto own = *OwnPads(node, pads->size());
    // Pads of the pool that are not counted cannot be told from those that are.
    const bool plain = std::all_of(own.begin(), own.end(), [](int64_t pad) { return pad == 0; });
    if (AttributeInt(node, "ceil_mode", 0) != 0 ||
        (!plain && AttributeInt(node, "count_include_pad", 0) == 0)) {
      return std::nullopt;
    }
    const auto kernel = AttributeInts(node, "kernel_shape");
    for (size_t i = 0; i < pads->size() && !kernel.empty(); ++i) {
      // Runtimes refuse pads that are as wide as the window.
      if ((*pads)[i] + own[i] >= kernel[i % kernel.size()]) return std::nullopt;
    }
    return PassMatch{{pool, position}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope*) const override {
    const auto& pad = view.node(match.nodes[1]);
    onnx::NodeProto pool = view.node(match.nodes[0]);
    PassRewrite rewrite;
    rewrite.detail = StrCat(Describe(pad), " into ", Describe(pool));
    SetAttribute("pads", SumOfPads(pad, pool, view), &pool);
    SetAttribute("ceil_mode", int64_t{0}, &pool);
    SetAttribute("count_include_pad", int64_t{1}, &pool);
    SetAttribute("auto_pad", std::string_view("NOTSET"), &pool);
    pool.set_input(0, pad.input(0));
    rewrite.successor = pool.name();
    rewrite.nodes.push_back(std::move(pool));
    return rewrite;
  }
};

}  // namespace

const Pass& PadIntoConv() {
  static const PadIntoConvPass pass;
  return pass;
}

const Pass& PadIntoAveragePool() {
  static const PadIntoAveragePoolPass pass;
  return pass;
}

}  // namespace gq::graph
