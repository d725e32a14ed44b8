#include "common/runtime/session.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/temporary_folder.h"
#include "common/base/text.h"
#include "common/runtime/unsigned_weights.h"

namespace gq::runtime {
namespace {

using base::MakeError;
using base::Reason;

GraphOptimizationLevel ToOrt(OptimizationLevel level) {
  switch (level) {
    case OptimizationLevel::kNone:
      return ORT_DISABLE_ALL;
    case OptimizationLevel::kBasic:
      return ORT_ENABLE_BASIC;
    case OptimizationLevel::kExtended:
      return ORT_ENABLE_EXTENDED;
    case OptimizationLevel::kAll:
      return ORT_ENABLE_ALL;
  }
  return ORT_ENABLE_ALL;
}

// Owns an ONNX Runtime object of type T.
template <typename T>
struct Releaser {
  void (*release)(T*) = nullptr;
  void operator()(T* object) const { release(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Releaser<T>>;

template <typename T>
Owned<T> Own(T* object, void (*release)(T*)) {
  return Owned<T>(object, Releaser<T>{release});
}

// Bytes that the stored initializers take as float32, be it that they are now or that ONNX Runtime
// would dequantize them once for all.
int64_t BytesAsFloats(const graph::Model& model) {
  int64_t elements = 0;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (graph::StoreKey(tensor).empty()) continue;
    const std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    elements += graph::ElementCount(dims).value_or(0);
  }
  return elements * static_cast<int64_t>(sizeof(float));
}

// Puts nodes that read constants only, as those that dequantize weights, in front of all others.
// ONNX Runtime then runs each of them right before the node that needs its result, and not all of
// them at the start: among the inputs of a node it goes for the one that comes last in the file.
void PutConstantNodesFirst(onnx::GraphProto* graph) {
  std::unordered_set<std::string_view> constants = {""};
  for (const onnx::TensorProto& tensor : graph->initializer()) constants.insert(tensor.name());
  std::vector<onnx::NodeProto*> nodes(static_cast<size_t>(graph->node_size()));
  graph->mutable_node()->ExtractSubrange(0, graph->node_size(), nodes.data());
  std::stable_partition(nodes.begin(), nodes.end(), [&](const onnx::NodeProto* node) {
    return std::all_of(node->input().begin(), node->input().end(),
                       [&](const std::string& input) { return constants.contains(input); });
  });
  for (onnx::NodeProto* node : nodes) graph->mutable_node()->AddAllocated(node);
}

bool IsStatic(const std::vector<int64_t>& shape) {
  return std::all_of(shape.begin(), shape.end(), [](int64_t dim) { return dim >= 0; });
}

}  // namespace

struct Session::State {
  explicit State(const OrtLibrary& opened) : library(opened), api(opened.api()) {}
  ~State() {
    if (session != nullptr) api.ReleaseSession(session);
    if (memory_info != nullptr) api.ReleaseMemoryInfo(memory_info);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  absl::Status Start(const SessionOptions& options, bool lean);
  absl::Status AddStoredInitializers(const graph::Model& model, OrtSessionOptions* options);
  absl::Status CreateWithCopies(const graph::Model& model);
  absl::Status CreateWithoutCopies(const graph::Model& model);
  absl::Status ReadSignature();
  absl::StatusOr<TensorInfo> ReadInfo(size_t index, bool input);
  absl::StatusOr<OrtValue*> Wrap(int32_t dtype, const std::vector<int64_t>& shape,
                                 std::span<const std::byte> bytes) const;
  absl::StatusOr<Tensor> Unwrap(OrtValue* value) const;
  absl::Status PrepareOutput(const TensorInfo& info, Tensor* tensor, OrtValue** value) const;

  const OrtLibrary& library;
  const OrtApi& api;
  OrtSession* session = nullptr;
  OrtMemoryInfo* memory_info = nullptr;
  Owned<OrtSessionOptions> session_options = Own<OrtSessionOptions>(nullptr, nullptr);
  graph::TensorStore store;  // keeps the initializers' bytes alive
  std::vector<Owned<OrtValue>> shared_values;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  // False once a run showed that the declared shapes are wrong.
  mutable std::atomic<bool> outputs_as_declared{true};
};

absl::Status Session::State::Start(const SessionOptions& options, bool lean) {
  OrtSessionOptions* made = nullptr;
  GQ_RETURN_IF_ERROR(library.ToStatus(api.CreateSessionOptions(&made), "session options"));
  session_options = Own(made, api.ReleaseSessionOptions);
  const auto check = [&](OrtStatus* status) { return library.ToStatus(status, "session options"); };
  GQ_RETURN_IF_ERROR(check(api.SetIntraOpNumThreads(made, std::max(1, options.threads))));
  GQ_RETURN_IF_ERROR(check(api.SetInterOpNumThreads(made, 1)));
  GQ_RETURN_IF_ERROR(
      check(api.SetSessionGraphOptimizationLevel(made, ToOrt(options.optimization))));
  GQ_RETURN_IF_ERROR(check(api.SetSessionLogSeverityLevel(made, ORT_LOGGING_LEVEL_FATAL)));
  if (!options.arena) {
    GQ_RETURN_IF_ERROR(check(api.DisableCpuMemArena(made)));
  }
  if (!options.optimized_model.empty()) {
    GQ_RETURN_IF_ERROR(check(api.SetOptimizedModelFilePath(made, options.optimized_model.c_str())));
  }
  const auto entry = [&](const char* key, const char* value) {
    return check(api.AddSessionConfigEntry(made, key, value));
  };
  // The same integers on every CPU (unsigned_weights.h).
  GQ_RETURN_IF_ERROR(entry("session.x64quantprecision", "1"));
  if (options.disable_quant_qdq) {
    GQ_RETURN_IF_ERROR(entry("session.disable_quant_qdq", "1"));
  }
  if (!options.spinning) {
    GQ_RETURN_IF_ERROR(entry("session.intra_op.allow_spinning", "0"));
  }
  if (lean) {
    GQ_RETURN_IF_ERROR(entry("session.disable_prepacking", "1"));
    GQ_RETURN_IF_ERROR(entry("optimization.disable_specified_optimizers", "ConstantFolding"));
  }
  for (const auto& [key, value] : options.config) {
    GQ_RETURN_IF_ERROR(entry(key.c_str(), value.c_str()));
  }
  for (OrtCustomOpDomain* domain : options.custom_op_domains) {
    GQ_RETURN_IF_ERROR(check(api.AddCustomOpDomain(made, domain)));
  }
  for (const ExecutionProvider& provider : options.providers) {
    std::vector<const char*> keys;
    std::vector<const char*> values;
    for (const auto& [key, value] : provider.options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    GQ_RETURN_IF_ERROR(
        library.ToStatus(api.SessionOptionsAppendExecutionProvider(
                             made, provider.name.c_str(), keys.data(), values.data(), keys.size()),
                         base::StrCat("execution provider ", provider.name)));
  }
  return check(api.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory_info));
}

absl::StatusOr<OrtValue*> Session::State::Wrap(int32_t dtype, const std::vector<int64_t>& shape,
                                               std::span<const std::byte> bytes) const {
  // The numbers of ONNXTensorElementDataType are those of onnx::TensorProto::DataType.
  OrtValue* value = nullptr;
  GQ_RETURN_IF_ERROR(library.ToStatus(
      api.CreateTensorWithDataAsOrtValue(memory_info, const_cast<std::byte*>(bytes.data()),
                                         bytes.size(), shape.data(), shape.size(),
                                         static_cast<ONNXTensorElementDataType>(dtype), &value),
      "tensor"));
  return value;
}

absl::Status Session::State::AddStoredInitializers(const graph::Model& model,
                                                   OrtSessionOptions* options) {
  store = model.store();
  std::vector<const char*> names;
  std::vector<Owned<OrtValue>> values;
  std::vector<const OrtValue*> raw_values;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (graph::StoreKey(tensor).empty()) continue;
    GQ_ASSIGN_OR_RETURN(const graph::TensorView view, model.Data(tensor));
    GQ_ASSIGN_OR_RETURN(OrtValue * value, Wrap(view.dtype(), view.dims(), view.bytes()));
    values.push_back(Own(value, api.ReleaseValue));
    raw_values.push_back(value);
    names.push_back(tensor.name().c_str());
  }
  if (names.empty()) return absl::OkStatus();
  return library.ToStatus(
      api.AddExternalInitializers(options, names.data(), raw_values.data(), names.size()),
      "initializers");
}

absl::StatusOr<TensorInfo> Session::State::ReadInfo(size_t index, bool input) {
  OrtAllocator* allocator = nullptr;
  GQ_RETURN_IF_ERROR(library.ToStatus(api.GetAllocatorWithDefaultOptions(&allocator), "allocator"));
  char* name = nullptr;
  GQ_RETURN_IF_ERROR(
      library.ToStatus(input ? api.SessionGetInputName(session, index, allocator, &name)
                             : api.SessionGetOutputName(session, index, allocator, &name),
                       "model signature"));
  TensorInfo info{.name = name};
  allocator->Free(allocator, name);

  OrtTypeInfo* type = nullptr;
  GQ_RETURN_IF_ERROR(library.ToStatus(input ? api.SessionGetInputTypeInfo(session, index, &type)
                                            : api.SessionGetOutputTypeInfo(session, index, &type),
                                      "model signature"));
  const auto owned_type = Own(type, api.ReleaseTypeInfo);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  GQ_RETURN_IF_ERROR(
      library.ToStatus(api.CastTypeInfoToTensorInfo(type, &tensor), "model signature"));
  if (tensor == nullptr) {
    return MakeError(Reason::kModelUnsupported,
                     base::StrCat(input ? "input '" : "output '", info.name, "' is not a tensor"));
  }
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0;
  GQ_RETURN_IF_ERROR(
      library.ToStatus(api.GetTensorElementType(tensor, &element), "model signature"));
  GQ_RETURN_IF_ERROR(library.ToStatus(api.GetDimensionsCount(tensor, &rank), "model signature"));
  info.dtype = static_cast<int32_t>(element);
  info.shape.resize(rank);
  GQ_RETURN_IF_ERROR(
      library.ToStatus(api.GetDimensions(tensor, info.shape.data(), rank), "model signature"));
  return info;
}

absl::Status Session::State::ReadSignature() {
  size_t count = 0;
  GQ_RETURN_IF_ERROR(
      library.ToStatus(api.SessionGetInputCount(session, &count), "model signature"));
  for (size_t i = 0; i < count; ++i) {
    GQ_ASSIGN_OR_RETURN(inputs.emplace_back(), ReadInfo(i, true));
  }
  GQ_RETURN_IF_ERROR(
      library.ToStatus(api.SessionGetOutputCount(session, &count), "model signature"));
  for (size_t i = 0; i < count; ++i) {
    absl::StatusOr<TensorInfo> info = ReadInfo(i, false);
    const bool no_tensor = base::GetReason(info.status()) == Reason::kModelUnsupported;
    if (!info.ok() && !no_tensor) return info.status();
    if (no_tensor || info->dtype == onnx::TensorProto::STRING) continue;
    outputs.push_back(*std::move(info));
  }
  return absl::OkStatus();
}

// Hands out memory for an output of known shape; leaves `value` null where the shape is not known.
absl::Status Session::State::PrepareOutput(const TensorInfo& info, Tensor* tensor,
                                           OrtValue** value) const {
  // What is an input too is handed through, not written.
  const bool is_input = std::any_of(inputs.begin(), inputs.end(), [&](const TensorInfo& input) {
    return input.name == info.name;
  });
  if (is_input || !IsStatic(info.shape)) return absl::OkStatus();
  if (!tensor->exclusive() || tensor->dtype() != info.dtype || tensor->shape() != info.shape) {
    GQ_ASSIGN_OR_RETURN(*tensor, Tensor::Allocate(info.dtype, info.shape));
  }
  GQ_ASSIGN_OR_RETURN(*value, Wrap(info.dtype, info.shape, tensor->bytes()));
  return absl::OkStatus();
}

// A tensor over memory that ONNX Runtime allocated; takes over `value`.
absl::StatusOr<Tensor> Session::State::Unwrap(OrtValue* value) const {
  std::shared_ptr<OrtValue> owner(value, api.ReleaseValue);
  OrtTensorTypeAndShapeInfo* raw_info = nullptr;
  GQ_RETURN_IF_ERROR(library.ToStatus(api.GetTensorTypeAndShape(value, &raw_info), "output"));
  const auto info = Own(raw_info, api.ReleaseTensorTypeAndShapeInfo);
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0;
  GQ_RETURN_IF_ERROR(library.ToStatus(api.GetTensorElementType(raw_info, &element), "output"));
  GQ_RETURN_IF_ERROR(library.ToStatus(api.GetDimensionsCount(raw_info, &rank), "output"));
  std::vector<int64_t> shape(rank);
  GQ_RETURN_IF_ERROR(library.ToStatus(api.GetDimensions(raw_info, shape.data(), rank), "output"));
  void* data = nullptr;
  GQ_RETURN_IF_ERROR(library.ToStatus(api.GetTensorMutableData(value, &data), "output"));
  GQ_ASSIGN_OR_RETURN(const int64_t count, graph::ElementCount(shape));
  GQ_ASSIGN_OR_RETURN(const int64_t bytes, graph::ByteSize(static_cast<int32_t>(element), count));
  return Tensor::Borrow(static_cast<int32_t>(element), std::move(shape),
                        {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)},
                        std::move(owner));
}

// While the session is made, ONNX Runtime holds a copy of all weights that it is given this way.
absl::Status Session::State::CreateWithCopies(const graph::Model& model) {
  GQ_RETURN_IF_ERROR(AddStoredInitializers(model, session_options.get()));
  std::string bytes;
  if (!model.proto().SerializeToString(&bytes)) {
    return MakeError(Reason::kModelTooLarge, "the graph without its weights is over 2 GiB");
  }
  return library.ToStatus(api.CreateSessionFromArray(library.env(), bytes.data(), bytes.size(),
                                                     session_options.get(), &session),
                          "ONNX Runtime refused the model");
}

// Says in a file that the weights lie in another one, which is empty, and hands over tensors that
// take their place: nothing is copied. Should ONNX Runtime want to read a weight all the same, the
// empty file makes it fail, and nothing is lost but the attempt.
absl::Status Session::State::CreateWithoutCopies(const graph::Model& model) {
  GQ_ASSIGN_OR_RETURN(const base::TemporaryFolder folder,
                      base::TemporaryFolder::Make("gq-session-"));
  constexpr char kEmptyFile[] = "weights";
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(folder.path() / kEmptyFile, "", /*durable=*/false));
  store = model.store();
  onnx::ModelProto proto = model.proto();
  PutConstantNodesFirst(proto.mutable_graph());
  for (onnx::TensorProto& tensor : *proto.mutable_graph()->mutable_initializer()) {
    if (graph::StoreKey(tensor).empty()) continue;
    GQ_ASSIGN_OR_RETURN(const graph::TensorView view, model.Data(tensor));
    GQ_ASSIGN_OR_RETURN(OrtValue * value, Wrap(view.dtype(), view.dims(), view.bytes()));
    shared_values.push_back(Own(value, api.ReleaseValue));
    GQ_RETURN_IF_ERROR(library.ToStatus(
        api.AddInitializer(session_options.get(), tensor.name().c_str(), value), "initializers"));
    graph::ClearData(&tensor);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    const std::pair<const char*, std::string> entries[] = {
        {"location", kEmptyFile}, {"length", std::to_string(view.bytes().size())}};
    for (const auto& [key, text] : entries) {
      auto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(text);
    }
  }
  const std::filesystem::path path = folder.path() / "model.onnx";
  std::string bytes;
  if (!proto.SerializeToString(&bytes)) {
    return MakeError(Reason::kModelTooLarge, "the graph without its weights is over 2 GiB");
  }
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(path, bytes, /*durable=*/false));
  return library.ToStatus(
      api.CreateSession(library.env(), path.c_str(), session_options.get(), &session),
      "ONNX Runtime refused the model");
}

absl::StatusOr<Session> Session::Create(const graph::Model& given, const SessionOptions& options) {
  GQ_ASSIGN_OR_RETURN(const OrtLibrary* library, OrtLibrary::Get());
  std::optional<graph::Model> unsigned_weights;
  if (IntegerKernelsSaturate()) unsigned_weights = WithUnsignedWeights(given);
  const graph::Model& model = unsigned_weights ? *unsigned_weights : given;
  if (BytesAsFloats(model) >= options.lean_bytes) {
    auto state = std::make_unique<State>(*library);
    GQ_RETURN_IF_ERROR(state->Start(options, /*lean=*/true));
    if (state->CreateWithoutCopies(model).ok()) {
      state->session_options.reset();
      GQ_RETURN_IF_ERROR(state->ReadSignature());
      return Session(std::move(state));
    }
  }
  auto state = std::make_unique<State>(*library);
  GQ_RETURN_IF_ERROR(state->Start(options, /*lean=*/false));
  GQ_RETURN_IF_ERROR(state->CreateWithCopies(model));
  state->session_options.reset();
  GQ_RETURN_IF_ERROR(state->ReadSignature());
  return Session(std::move(state));
}

absl::StatusOr<Session> Session::CreateFromFile(const std::filesystem::path& path,
                                                const SessionOptions& options) {
  GQ_ASSIGN_OR_RETURN(const OrtLibrary* library, OrtLibrary::Get());
  auto state = std::make_unique<State>(*library);
  GQ_RETURN_IF_ERROR(state->Start(options, /*lean=*/false));
  GQ_RETURN_IF_ERROR(
      library->ToStatus(state->api.CreateSession(library->env(), path.c_str(),
                                                 state->session_options.get(), &state->session),
                        base::StrCat("ONNX Runtime refused ", path.string())));
  state->session_options.reset();
  GQ_RETURN_IF_ERROR(state->ReadSignature());
  return Session(std::move(state));
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const std::vector<TensorInfo>& Session::inputs() const { return state_->inputs; }
const std::vector<TensorInfo>& Session::outputs() const { return state_->outputs; }

int Session::OutputIndex(std::string_view name) const {
  const auto& all = state_->outputs;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const TensorInfo& info) { return info.name == name; });
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

absl::Status Session::Run(std::span<const Tensor> inputs, std::vector<Tensor>* outputs) const {
  std::vector<int> all(state_->outputs.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  return Run(inputs, all, outputs);
}

absl::Status Session::Run(std::span<const Tensor> inputs, std::span<const int> wanted,
                          std::vector<Tensor>* outputs) const {
  const State& state = *state_;
  if (inputs.size() != state.inputs.size()) {
    return MakeError(Reason::kDataShapeMismatch,
                     base::StrCat("the model has ", state.inputs.size(), " inputs, got ",
                                  inputs.size(), " tensors"));
  }
  std::vector<const char*> input_names;
  std::vector<Owned<OrtValue>> input_values;
  std::vector<const OrtValue*> raw_inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    GQ_ASSIGN_OR_RETURN(OrtValue * value,
                        state.Wrap(inputs[i].dtype(), inputs[i].shape(), inputs[i].bytes()));
    input_values.push_back(Own(value, state.api.ReleaseValue));
    raw_inputs.push_back(value);
    input_names.push_back(state.inputs[i].name.c_str());
  }

  const auto run = [&](bool in_place) -> absl::Status {
    outputs->resize(wanted.size());
    std::vector<const char*> output_names;
    std::vector<OrtValue*> output_values(wanted.size(), nullptr);
    std::vector<Owned<OrtValue>> prepared;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const TensorInfo& info = state.outputs[static_cast<size_t>(wanted[i])];
      output_names.push_back(info.name.c_str());
      if (in_place) {
        GQ_RETURN_IF_ERROR(state.PrepareOutput(info, &(*outputs)[i], &output_values[i]));
      }
      prepared.push_back(Own(output_values[i], state.api.ReleaseValue));
    }
    GQ_RETURN_IF_ERROR(state.library.ToStatus(
        state.api.Run(state.session, nullptr, input_names.data(), raw_inputs.data(),
                      raw_inputs.size(), output_names.data(), output_names.size(),
                      output_values.data()),
        "running the model failed"));
    absl::Status status;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (prepared[i] != nullptr) continue;
      auto tensor = state.Unwrap(output_values[i]);
      if (tensor.ok()) {
        (*outputs)[i] = *std::move(tensor);
      } else if (status.ok()) {
        status = tensor.status();
      }
    }
    return status;
  };
  if (!state.outputs_as_declared) return run(false);
  const absl::Status status = run(true);
  if (status.ok()) return status;
  // A model may declare other output shapes than it makes; ONNX Runtime knows the true ones then.
  if (!run(false).ok()) return status;
  state.outputs_as_declared = false;
  return absl::OkStatus();
}

}  // namespace gq::runtime
