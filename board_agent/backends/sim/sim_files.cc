#include "board_agent/backends/sim/sim_files.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/compile/device.h"
#include "common/graph/graph_index.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::StrAppend;
using base::StrCat;
using Json = nlohmann::ordered_json;

constexpr double kGiga = 1e9;

double Percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 100.0;
}

std::string Percent3(double percent) { return absl::StrFormat("%.3f%%", percent); }

std::string Gops3(int64_t ops) { return absl::StrFormat("%.3f", static_cast<double>(ops) / kGiga); }

// 167999964 -> 167,999,964
std::string WithThousands(int64_t value) {
  std::string text = StrCat(value);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string ModelType(const SimFilesInput& in) {
  switch (in.classification.model_class) {
    case compile::ModelClass::kPureVint8:
      return "int8 quantized";
    case compile::ModelClass::kTwoIsland:
    case compile::ModelClass::kMultiIsland:
      return "float32 and int8 quantized";
    default:
      return "float32";
  }
}

std::string DeviceType(const SimFilesInput& in) {
  const std::string float_type = in.options.f32_to_f16.value_or(false) ? "float16" : "bfloat16";
  switch (in.classification.model_class) {
    case compile::ModelClass::kPureVint8:
      return "int8";
    case compile::ModelClass::kTwoIsland:
    case compile::ModelClass::kMultiIsland:
      return StrCat(float_type, " and int8");
    default:
      return float_type;
  }
}

std::vector<const SimSubgraph*> Offloaded(const SimPartitioning& p) {
  std::vector<const SimSubgraph*> list;
  for (const SimSubgraph& s : p.subgraphs) {
    if (!s.below_threshold && !s.above_max) list.push_back(&s);
  }
  return list;
}

void AppendInformation(const SimFilesInput& in, std::string& text) {
  const auto device = compile::FindDevice(in.options.device);
  StrAppend(&text, "Compiler Information\n",
            "  Target Device: ve2 (part number: ", device ? device->part : "unknown",
            ")\n  Device Data Type: ", DeviceType(in), "\n  Flow: simulated\n  Version: gq ",
            GQ_VERSION,
            " (simulated, no vendor compiler)\n  FlexML Version: none\n  Overlay: "
            "aie2_6x4x4.yaml\n  NPU Frequency: 1267 MHz\n  AIE Single Core Compiler: none\n"
            "  Recipes: none\n  DP size: ",
            in.options.dp_size, "\n  TP size: ", std::max(1, in.options.tp_size),
            "\n  Optimize Level: ", in.options.optimize_level,
            "\n  Preferred Data Storage: ", in.options.preferred_data_storage,
            "\n  Threshold GOPs Percent: ", in.options.threshold_gops_percent,
            "\n  Logging Level: ", in.options.logging_level,
            "\n  Preemption: disabled\n  Model data type: ", ModelType(in), "\n");
}

void AppendCounts(const SimFilesInput& in, std::string& text) {
  const SimPartitioning& p = in.partitioning;
  const auto share = [&](std::string_view what, int64_t nodes, int64_t ops, size_t subgraphs) {
    StrAppend(&text, "Number of operators ", what, " by VAIML: ", nodes, " (",
              Percent3(Percent(nodes, p.nodes)), ")\nGOPs ", what, " by VAIML: ", Gops3(ops), " (",
              Percent3(Percent(ops, p.ops)), ")\nNumber of subgraphs ", what,
              " by VAIML: ", subgraphs, "\n");
  };
  const auto count = [&](bool SimSubgraph::*flag) {
    return std::count_if(p.subgraphs.begin(), p.subgraphs.end(),
                         [&](const SimSubgraph& s) { return s.*flag; });
  };
  StrAppend(&text, "Number of operators in the model: ", p.nodes,
            "\nGOPs of the model: ", absl::StrFormat("%.6g", static_cast<double>(p.ops) / kGiga),
            "\n");
  share("supported", p.supported_nodes, p.supported_ops, p.subgraphs.size());
  share("offloaded", p.offloaded_nodes(), p.offloaded_ops(),
        static_cast<size_t>(p.offloaded_subgraphs()));
  StrAppend(&text, "Number of partitions offloaded to NPU: ", p.offloaded_subgraphs(),
            "\nNumber of partitions executed on CPU: ", p.cpu_partitions,
            "\nNumber of subgraphs with compilation errors (fall back to CPU): 0\n"
            "Number of subgraphs below ",
            in.options.threshold_gops_percent,
            "% GOPs threshold (fall back to CPU): ", count(&SimSubgraph::below_threshold),
            "\nNumber of subgraphs above max number of subgraphs allowed(", kSimMaxSubgraphs,
            "): ", count(&SimSubgraph::above_max), " (fall back to CPU)\n");
}

void AppendSubgraphs(const SimFilesInput& in, std::string& text) {
  const SimPartitioning& p = in.partitioning;
  const std::vector<const SimSubgraph*> list = Offloaded(p);
  if (!list.empty()) text += "Stats for offloaded subgraphs\n";
  for (size_t i = 0; i < list.size(); ++i) {
    const SimSubgraph& s = *list[i];
    const auto nodes = static_cast<int64_t>(s.nodes.size());
    StrAppend(&text, "Subgraph vaiml_par_", i, " stats:\n    Type: npu\n    Operators: ", nodes,
              " (", Percent3(Percent(nodes, p.nodes)), ")\n    GOPs : ", Gops3(s.ops), " (",
              Percent3(Percent(s.ops, p.ops)), ")  OPs: ", WithThousands(s.ops), "\n");
    if (s.int8_ops > 0) {
      StrAppend(&text, "    int8 ops %: ", absl::StrFormat("%.3f", Percent(s.int8_ops, s.ops)),
                "\n");
    }
    if (s.int8_ops < s.ops) {
      StrAppend(&text,
                "    fp32 ops %: ", absl::StrFormat("%.3f", Percent(s.ops - s.int8_ops, s.ops)),
                "\n");
    }
  }
}

std::string Summary(const SimFilesInput& in, std::string_view title, bool final) {
  const auto time = [&](std::string_view name, double seconds) {
    const double total = in.times.total();
    return absl::StrFormat("  %s: %.1f s (%.1f%%)\n", std::string(name), seconds,
                           total > 0 ? 100 * seconds / total : 0.0);
  };
  std::string text = StrCat("--------- ", title,
                            " of VAIML Pass ----------\nOS: Linux X64\nModel: ", in.model_name,
                            "\nModel signature: ", in.model.Digest().substr(0, 32), "\n\n");
  AppendInformation(in, text);
  AppendCounts(in, text);
  AppendSubgraphs(in, text);
  if (!final) return text;
  text += "\nCompilation Information\n";
  text += time("Frontend (FE)", in.times.frontend);
  text += time("Backend (BE)", in.times.backend);
  text += "  " + time("AIE Compile", in.times.aie_compile);
  text += time("Overhead (partitioner, cache, etc.)", in.times.overhead);
  text += absl::StrFormat("  Total: %.1f s\n", in.times.total());
  return text;
}

// A string literal of MLIR.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += absl::StrFormat("\\%02X", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string CompilerLog(const SimFilesInput& in) {
  const SimPartitioning& p = in.partitioning;
  std::string text = "INFO: simulated compile, no vendor tool has run\n";
  StrAppend(&text, "INFO: [VAIML-COMPILE 1000] Operation statistics for the model:\n");
  for (const auto& [kernel, count] : p.kernels) StrAppend(&text, kernel, " , ", count, "\n");
  StrAppend(&text, "Partition completed with ", p.offloaded_subgraphs(), " partition\n",
            "INFO: [VAIML-COMPILE 1046] ",
            absl::StrFormat("%.3f", Percent(p.offloaded_ops(), p.ops)),
            "% of operations will run on AIE, ",
            absl::StrFormat("%.3f", 100 - Percent(p.offloaded_ops(), p.ops)), "% on CPU.\n");
  std::map<std::string, int> reasons;
  for (const SimFallback& fallback : p.fallbacks) ++reasons[fallback.message];
  int number = 0;
  for (const auto& [message, count] : reasons) {
    StrAppend(&text, "Partition ", number++, " breaks at: CpuBecause(", Quoted(message), ")\n");
  }
  StrAppend(&text, "INFO: [VAIP-VAIML-PASS] No. of Operators :\nINFO:  VAIML     ",
            p.offloaded_nodes(), "\n");
  if (p.nodes > p.offloaded_nodes()) {
    StrAppend(&text, "INFO:  VITIS_EP_CPU     ", p.nodes - p.offloaded_nodes(), "\n");
  }
  StrAppend(&text, "INFO: [VAIP-VAIML-PASS] No. of Subgraphs :\nINFO:    NPU     ",
            p.offloaded_subgraphs(), "\n");
  return text;
}

std::string ReasonsJson(const SimFilesInput& in) {
  Json list = Json::array();
  for (const SimFallback& fallback : in.partitioning.fallbacks) {
    const onnx::NodeProto& node = in.model.graph().node(fallback.node);
    list.push_back(
        {{"op_type", node.op_type()}, {"name", node.name()}, {"reason", fallback.message}});
  }
  return list.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Trace(const SimFilesInput& in) {
  std::vector<std::string> place(static_cast<size_t>(in.partitioning.nodes), "CPU");
  const auto list = Offloaded(in.partitioning);
  for (size_t i = 0; i < list.size(); ++i) {
    for (const int node : list[i]->nodes) {
      place[static_cast<size_t>(node)] = StrCat("vaiml_par_", i);
    }
  }
  std::string text = "node,op_type,partition\n";
  for (int i = 0; i < in.model.graph().node_size(); ++i) {
    const onnx::NodeProto& node = in.model.graph().node(i);
    std::string name = node.name();
    for (char& c : name) {
      if (c == '"' || static_cast<unsigned char>(c) < 0x20) c = '_';
    }
    StrAppend(&text, "\"", name, "\",", node.op_type(), ",", place[static_cast<size_t>(i)], "\n");
  }
  return text;
}

std::string Mlir(const SimFilesInput& in) {
  std::string text = "// simulated\nmodule {\n";
  for (const SimFallback& fallback : in.partitioning.fallbacks) {
    const onnx::NodeProto& node = in.model.graph().node(fallback.node);
    StrAppend(&text, "  xten_nn.subgraph () attributes {LayerName = ", Quoted(node.name()),
              ", Message = ", Quoted(fallback.message), ", Op = ", Quoted("onnx." + node.op_type()),
              ", Reason = \"CpuBecause\"} {\n  }\n");
  }
  return text + "}\n";
}

// Inputs and outputs of a subgraph, as the runtime of the device describes them.
std::string InterfaceJson(const SimFilesInput& in, const SimSubgraph& subgraph) {
  const graph::GraphIndex index(in.model.graph());
  std::vector<bool> inside(static_cast<size_t>(in.partitioning.nodes), false);
  for (const int node : subgraph.nodes) inside[static_cast<size_t>(node)] = true;
  const auto describe = [&](const std::string& tensor) {
    return Json{{"name", tensor}, {"shape", index.Shape(tensor).value_or(std::vector<int64_t>{})}};
  };
  Json json = {{"simulated", true}, {"inputs", Json::array()}, {"outputs", Json::array()}};
  std::vector<std::string> seen;
  for (const int position : subgraph.nodes) {
    const onnx::NodeProto& node = in.model.graph().node(position);
    for (const std::string& input : node.input()) {
      const int producer = index.ProducerPosition(input);
      const bool from_inside = producer >= 0 && inside[static_cast<size_t>(producer)];
      if (input.empty() || from_inside || index.IsInitializer(input)) continue;
      if (std::find(seen.begin(), seen.end(), input) != seen.end()) continue;
      seen.push_back(input);
      json["inputs"].push_back(describe(input));
    }
    for (const std::string& output : node.output()) {
      const auto uses = index.Uses(output);
      const bool leaves = index.IsGraphOutput(output) ||
                          std::any_of(uses.begin(), uses.end(), [&](const graph::TensorUse& use) {
                            return !inside[static_cast<size_t>(use.node)];
                          });
      if (leaves) json["outputs"].push_back(describe(output));
    }
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::Status WriteSubgraphs(const fs::path& folder, const SimFilesInput& in) {
  const auto list = Offloaded(in.partitioning);
  for (size_t i = 0; i < list.size(); ++i) {
    const fs::path part = folder / StrCat("vaiml_par_", i);
    GQ_RETURN_IF_ERROR(base::MakeFolder(part / "0"));
    GQ_RETURN_IF_ERROR(
        base::WriteFileAtomically(part / "0" / "flexmlrt-hsi.json", InterfaceJson(in, *list[i])));
    const Json flags = {{"simulated", true},
                        {"fe_args", base::StrJoin(in.options.fe_args, " ")},
                        {"optimize_level", in.options.optimize_level}};
    GQ_RETURN_IF_ERROR(
        base::WriteFileAtomically(part / "compile_flags.json", flags.dump(1) + "\n"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSimFiles(const fs::path& folder, const SimFilesInput& in) {
  GQ_RETURN_IF_ERROR(base::MakeFolder(folder));
  const Json capability = {{"simulated", true},
                           {"nodes", in.partitioning.nodes},
                           {"supported", in.partitioning.supported_nodes}};
  const std::pair<std::string, std::string> files[] = {
      {"preliminary-vaiml-pass-summary.txt", Summary(in, "Preliminary Summary", false)},
      {"AIECompiler.log", CompilerLog(in)},
      {"aie_unsupported_original_ops_with_reasons.json", ReasonsJson(in)},
      {"get_capability_v5.json", capability.dump(1) + "\n"},
      {"graph_partition_trace.csv", Trace(in)},
      {"final-vaiml-pass-summary.txt", Summary(in, "Final Summary", true)}};
  for (const auto& [name, content] : files) {
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(folder / name, content));
  }
  if (in.options.keep_outputs) {
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(folder / "partition.mlir", Mlir(in)));
  }
  GQ_RETURN_IF_ERROR(WriteSubgraphs(folder, in));
  // The tool writes a compiled model even when it left everything to the CPU.
  const std::string rai = StrCat("gq simulated model: runs on no device\nmodel ", in.model.Digest(),
                                 "\n", compile::FormatVitisaiConfig(in.options));
  return base::WriteFileAtomically(folder / StrCat(in.key, ".rai"), rai);
}

}  // namespace gq::agent
