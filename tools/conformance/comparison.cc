#include "tools/conformance/comparison.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "common/base/sha256.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "onnx/defs/schema.h"

namespace gq::conformance {
namespace {

using base::StrCat;
using nlohmann::json;

constexpr double kScaleTolerance = 1e-5;  // of scales that rest on float activations

void Differ(Verdict* verdict, Aspect aspect, std::string text) {
  verdict->differences.try_emplace(aspect, std::move(text));
}

std::string TypeName(int32_t dtype) {
  return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(dtype));
}

bool Close(double a, double b, double tolerance) {
  return a == b || std::fabs(a - b) <= tolerance * std::max(std::fabs(a), std::fabs(b));
}

std::string Digest(const graph::TensorView& view) {
  return base::Sha256Hex({reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size()});
}

// The attributes of a node as the vectors hold them.
json AttributesOf(const onnx::NodeProto& node) {
  json attributes = json::object();
  for (const auto& attribute : node.attribute()) {
    json& value = attributes[attribute.name()];
    switch (attribute.type()) {
      case onnx::AttributeProto::FLOAT:
        value = attribute.f();
        break;
      case onnx::AttributeProto::INT:
        value = attribute.i();
        break;
      case onnx::AttributeProto::STRING:
        value = attribute.s();
        break;
      case onnx::AttributeProto::INTS:
        value = std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
        break;
      case onnx::AttributeProto::FLOATS:
        value = std::vector<float>(attribute.floats().begin(), attribute.floats().end());
        break;
      default:
        value = nullptr;  // tensors and graphs: looked at through the outputs
    }
  }
  return attributes;
}

bool SameAttribute(const json& actual, const json& expected) {
  if (actual.is_null() || expected.is_object()) return true;
  if (actual.is_number() && expected.is_number()) {
    return Close(actual.get<double>(), expected.get<double>(), 1e-6);
  }
  if (actual.is_array() && expected.is_array() && actual.size() == expected.size()) {
    for (size_t i = 0; i < actual.size(); ++i) {
      if (!SameAttribute(actual[i], expected[i])) return false;
    }
    return true;
  }
  return actual == expected;
}

// What identifies a node: everything but its attributes.
std::string Key(const json& node) {
  return json::array({node[0], node[1], node[2], node[3], node[4]}).dump();
}

json NodeAsJson(const onnx::NodeProto& node) {
  return json::array({node.op_type(), node.domain(), node.name(),
                      std::vector<std::string>(node.input().begin(), node.input().end()),
                      std::vector<std::string>(node.output().begin(), node.output().end()),
                      AttributesOf(node)});
}

// The value that an attribute has when a node does not give it; null when it has none.
json DefaultOf(const std::string& op_type, const std::string& domain, const std::string& name,
               int64_t opset) {
  const onnx::OpSchema* schema =
      onnx::OpSchemaRegistry::Schema(op_type, static_cast<int>(opset), domain);
  if (schema == nullptr || !schema->attributes().contains(name)) return nullptr;
  onnx::NodeProto node;
  *node.add_attribute() = schema->attributes().at(name).default_value;
  return node.attribute(0).type() == onnx::AttributeProto::UNDEFINED
             ? json()
             : AttributesOf(node).begin().value();
}

class NodeComparison {
 public:
  NodeComparison(const graph::Model& model, const json& expected, bool by_meaning, Verdict* verdict)
      : model_(model), by_meaning_(by_meaning), verdict_(verdict) {
    for (const auto& node : model.graph().node()) {
      json entry = NodeAsJson(node);
      ours_.emplace(Key(entry), entry[5]);
    }
    for (const auto& node : expected.at("nodes")) theirs_.emplace(Key(node), node);
  }

  void Run() {
    const graph::GraphIndex index(model_.graph());
    for (const auto& [key, node] : theirs_) {
      const auto it = ours_.find(key);
      if (it != ours_.end()) {
        CompareAttributes(key, node, it->second);
      } else if (!by_meaning_ || node[0] != "Constant" ||
                 !index.IsInitializer(node[4][0].get<std::string>())) {
        Differ(verdict_, Aspect::kNodes, StrCat("missing node ", key));
      }
    }
    for (const auto& [key, attributes] : ours_) {
      if (!theirs_.contains(key)) Differ(verdict_, Aspect::kNodes, StrCat("unexpected node ", key));
    }
  }

 private:
  void CompareAttributes(const std::string& key, const json& node, const json& ours) {
    const json& theirs = node[5];
    std::set<std::string> names;
    for (const auto& [name, value] : theirs.items()) names.insert(name);
    for (const auto& [name, value] : ours.items()) names.insert(name);
    for (const auto& name : names) {
      const auto value_of = [&](const json& attributes) -> json {
        if (attributes.contains(name)) return attributes[name];
        return by_meaning_ ? DefaultOf(node[0], node[1], name, model_.Opset()) : json("absent");
      };
      const json actual = value_of(ours);
      const json wanted = value_of(theirs);
      if (SameAttribute(actual, wanted)) continue;
      Differ(verdict_, Aspect::kNodes,
             StrCat("attribute ", name, " of ", key, ": ours ", actual.dump(), ", expected ",
                    wanted.dump()));
    }
  }

  const graph::Model& model_;
  bool by_meaning_;
  Verdict* verdict_;
  std::map<std::string, json> ours_;
  std::map<std::string, json> theirs_;
};

void CompareInitializer(const graph::Model& model, const onnx::TensorProto& tensor,
                        const std::string& name, const json& expected, Verdict* verdict) {
  const auto view = model.Data(tensor);
  if (!view.ok()) {
    Differ(verdict, Aspect::kInitializers, StrCat(name, ": ", view.status().message()));
    return;
  }
  std::string type(graph::DTypeName(tensor.data_type()));
  const std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  if (type != expected.at("dtype").get<std::string>() ||
      shape != expected.at("shape").get<std::vector<int64_t>>()) {
    Differ(verdict, Aspect::kInitializers,
           StrCat(name, ": ours ", type, " ", json(shape).dump(), ", expected ",
                  expected.at("dtype").dump(), " ", expected.at("shape").dump()));
    return;
  }
  if (Digest(*view) == expected.at("sha256").get<std::string>()) return;
  const bool whole = expected.contains("values");
  const json& values = whole ? expected.at("values") : expected.at("first16");
  bool close = whole && type == "float32";
  std::string difference;
  for (size_t i = 0; i < values.size() && values[i].is_number(); ++i) {
    const double ours = view->At(static_cast<int64_t>(i));
    const double theirs = values[i].get<double>();
    if (ours != theirs && difference.empty()) {
      difference = StrCat(name, "[", i, "]: ours ", ours, ", expected ", theirs);
    }
    close = close && Close(ours, theirs, kScaleTolerance);
  }
  if (close) return;
  if (difference.empty()) difference = StrCat(name, ": digests differ behind element 16");
  Differ(verdict, Aspect::kInitializers, std::move(difference));
}

void CompareInitializers(const graph::Model& model, const json& expected, bool by_meaning,
                         Verdict* verdict) {
  std::set<std::string> constants;
  for (const auto& node : expected.at("nodes")) {
    if (by_meaning && node[0] == "Constant") constants.insert(node[4][0].get<std::string>());
  }
  std::set<std::string> ours;
  const json& theirs = expected.at("initializers");
  for (const auto& tensor : model.graph().initializer()) {
    ours.insert(tensor.name());
    if (constants.contains(tensor.name())) continue;
    if (!theirs.contains(tensor.name())) {
      Differ(verdict, Aspect::kInitializers, StrCat("unexpected initializer ", tensor.name()));
      continue;
    }
    CompareInitializer(model, tensor, tensor.name(), theirs[tensor.name()], verdict);
  }
  for (const auto& [name, value] : theirs.items()) {
    if (!ours.contains(name)) {
      Differ(verdict, Aspect::kInitializers, StrCat("missing initializer ", name));
    }
  }
}

// Scale, zero point and integers of one expected quantized tensor.
void CompareTensor(const graph::Model& model, const graph::GraphIndex& index,
                   const std::string& name, const json& expected, Verdict* verdict) {
  const auto find = [&](const char* key) -> const onnx::TensorProto* {
    return expected.contains(key) && expected[key].is_string()
               ? index.Initializer(expected[key].get<std::string>())
               : nullptr;
  };
  const onnx::TensorProto* scale = find("scale_init");
  const onnx::TensorProto* zero_point = find("zp_init");
  if (scale == nullptr || zero_point == nullptr) {
    Differ(verdict, Aspect::kTensors,
           StrCat(name, " has no parameters named ", expected.value("scale_init", ""), " and ",
                  expected.value("zp_init", "")));
    return;
  }
  if (TypeName(zero_point->data_type()) != expected.value("dtype", "")) {
    Differ(verdict, Aspect::kTensors,
           StrCat(name, " is ", TypeName(zero_point->data_type()), ", expected ",
                  expected.value("dtype", "")));
  }
  const auto compare = [&](const onnx::TensorProto& tensor, const char* key, Aspect aspect) {
    const auto view = model.Data(tensor);
    const json& values = expected.at(key);
    if (!view.ok() || view->size() != static_cast<int64_t>(values.size())) {
      Differ(verdict, aspect, StrCat(name, ": number of values of ", key));
      return;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const double ours = view->At(static_cast<int64_t>(i));
      const double theirs = values[i].get<double>();
      const double tolerance =
          aspect == Aspect::kScales && !expected.contains("pos") ? kScaleTolerance : 0;
      if (Close(ours, theirs, tolerance)) continue;
      Differ(verdict, aspect,
             StrCat(name, " ", key, "[", i, "]: ours ", ours, ", expected ", theirs));
      return;
    }
  };
  compare(*scale, "scale", Aspect::kScales);
  compare(*zero_point, "zero_point", Aspect::kZeroPoints);

  if (!expected.contains("data_init") || !expected["data_init"].is_string()) return;
  const onnx::TensorProto* data = find("data_init");
  if (data == nullptr) {
    Differ(verdict, Aspect::kWeights,
           StrCat(name, ": missing ", expected["data_init"].get<std::string>()));
  }
}

void CompareWeights(const graph::Model& model, const graph::GraphIndex& index, const json& expected,
                    Verdict* verdict) {
  for (const auto& [name, entry] : expected.at("qdq").items()) {
    if (!entry.contains("data_init") || !entry["data_init"].is_string()) continue;
    const std::string data = entry["data_init"].get<std::string>();
    const onnx::TensorProto* tensor = index.Initializer(data);
    const json& initializers = expected.at("initializers");
    if (tensor == nullptr || !initializers.contains(data)) continue;
    const auto view = model.Data(*tensor);
    if (!view.ok()) continue;
    const json& wanted = initializers[data];
    if (Digest(*view) == wanted.at("sha256").get<std::string>()) continue;
    const json& values = wanted.contains("values") ? wanted["values"] : wanted["first16"];
    std::string difference = "other than its first elements";
    for (size_t i = 0; i < values.size() && static_cast<int64_t>(i) < view->size(); ++i) {
      const double ours = view->At(static_cast<int64_t>(i));
      if (!values[i].is_number() || ours == values[i].get<double>()) continue;
      difference = StrCat("[", i, "]: ours ", ours, ", expected ", values[i].get<double>());
      break;
    }
    Differ(verdict, Aspect::kWeights, StrCat(data, " ", difference));
    return;
  }
}

// The allowed distance of one element.
double Step(double reference, const std::map<std::string, double>& steps, const std::string& output,
            Closeness closeness) {
  if (closeness == Closeness::kBFloat16) return std::fabs(reference) / 128;
  const auto it = steps.find(output);
  return it == steps.end() ? 0 : it->second * 1.001;
}

}  // namespace

std::string_view AspectName(Aspect aspect) {
  switch (aspect) {
    case Aspect::kStatus:
      return "status";
    case Aspect::kTensors:
      return "quantized tensors";
    case Aspect::kScales:
      return "scales";
    case Aspect::kZeroPoints:
      return "zero points";
    case Aspect::kWeights:
      return "integer weights";
    case Aspect::kNodes:
      return "nodes";
    case Aspect::kInitializers:
      return "initializers";
    case Aspect::kOutputs:
      return "outputs";
  }
  return "";
}

void CompareModel(const graph::Model& model, const json& expected, bool by_meaning,
                  Verdict* verdict) {
  const graph::GraphIndex index(model.graph());
  for (const auto& [name, entry] : expected.at("qdq").items()) {
    CompareTensor(model, index, name, entry, verdict);
  }
  CompareWeights(model, index, expected, verdict);
  NodeComparison(model, expected, by_meaning, verdict).Run();
  CompareInitializers(model, expected, by_meaning, verdict);
}

void CompareOutputs(const std::map<std::string, runtime::Tensor>& actual,
                    const std::map<std::string, runtime::Tensor>& expected,
                    const std::map<std::string, double>& steps, Closeness closeness,
                    Verdict* verdict) {
  constexpr double kAllowedShare = 0.01;
  for (const auto& [name, reference] : expected) {
    const auto it = actual.find(name);
    if (it == actual.end() || it->second.shape() != reference.shape() ||
        it->second.dtype() != reference.dtype()) {
      Differ(verdict, Aspect::kOutputs, StrCat("output ", name, " is missing or of another shape"));
      continue;
    }
    if (reference.dtype() != onnx::TensorProto::FLOAT) {
      if (!std::ranges::equal(it->second.bytes(), reference.bytes())) {
        Differ(verdict, Aspect::kOutputs, StrCat("output ", name, " differs"));
      }
      continue;
    }
    const auto ours = it->second.As<float>();
    const auto theirs = reference.As<float>();
    int64_t off = 0;
    for (size_t i = 0; i < theirs.size(); ++i) {
      const double distance = std::fabs(static_cast<double>(ours[i]) - theirs[i]);
      if (distance <= 1e-5 + 1e-4 * std::fabs(theirs[i])) continue;
      ++off;
      if (!(distance <= Step(theirs[i], steps, name, closeness))) {
        Differ(verdict, Aspect::kOutputs,
               StrCat("output ", name, "[", i, "]: ours ", ours[i], ", expected ", theirs[i]));
        break;
      }
    }
    if (static_cast<double>(off) > kAllowedShare * static_cast<double>(theirs.size())) {
      Differ(verdict, Aspect::kOutputs,
             StrCat("output ", name, ": ", off, " of ", theirs.size(), " elements differ"));
    }
  }
}

}  // namespace gq::conformance
