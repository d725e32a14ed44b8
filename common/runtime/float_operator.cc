#include "common/runtime/float_operator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "common/base/status.h"

namespace gq::runtime {
namespace {

constexpr size_t kMostInputs = 4;

// Hands pieces to the threads of the session that runs the kernel.
class KernelLoop : public ParallelLoop {
 public:
  KernelLoop(const OrtApi& api, const OrtKernelContext* context, size_t workers)
      : api_(api), context_(context), workers_(workers) {}
  size_t workers() const override { return workers_; }
  void For(size_t count, const std::function<void(size_t)>& body) override {
    if (count > 1 && workers_ > 1) {
      const auto call = [](void* data, size_t index) {
        (*static_cast<const std::function<void(size_t)>*>(data))(index);
      };
      OrtStatus* status =
          api_.KernelContext_ParallelFor(context_, call, count, std::min(count, workers_),
                                         const_cast<void*>(static_cast<const void*>(&body)));
      if (status == nullptr) return;
      api_.ReleaseStatus(status);
    }
    for (size_t i = 0; i < count; ++i) body(i);
  }

 private:
  const OrtApi& api_;
  const OrtKernelContext* context_;
  size_t workers_;
};

// OrtCustomOp is a table of functions; what they need beyond their arguments follows it.
struct Operator : OrtCustomOp {
  FloatOperatorDefinition definition;
  const OrtApi* api = nullptr;
  size_t workers = 1;
};

struct Kernel {
  const Operator* op;
  int64_t id;
};

struct TensorParts {
  float* data = nullptr;
  std::array<int64_t, 32> dims{};
  size_t rank = 0;
  size_t elements = 0;

  std::span<float> values() const { return {data, elements}; }
};

OrtStatus* ReadParts(const OrtApi& api, const OrtValue* value, TensorParts* parts) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  if (OrtStatus* status = api.GetTensorTypeAndShape(value, &info)) return status;
  OrtStatus* status = api.GetDimensionsCount(info, &parts->rank);
  if (status == nullptr && parts->rank > parts->dims.size()) {
    status = api.CreateStatus(ORT_INVALID_ARGUMENT, "a tensor of over 32 dimensions");
  }
  if (status == nullptr) status = api.GetDimensions(info, parts->dims.data(), parts->rank);
  if (status == nullptr) status = api.GetTensorShapeElementCount(info, &parts->elements);
  api.ReleaseTensorTypeAndShapeInfo(info);
  if (status != nullptr) return status;
  void* data = nullptr;
  status = api.GetTensorMutableData(const_cast<OrtValue*>(value), &data);
  parts->data = static_cast<float*>(data);
  return status;
}

OrtStatus* ComputeKernel(void* opaque, OrtKernelContext* context) {
  const auto* kernel = static_cast<const Kernel*>(opaque);
  const Operator& op = *kernel->op;
  const OrtApi& api = *op.api;
  const auto count = static_cast<size_t>(op.definition.inputs);
  TensorParts first;
  std::array<std::span<const float>, kMostInputs> inputs;
  for (size_t i = 0; i < count; ++i) {
    const OrtValue* value = nullptr;
    if (OrtStatus* status = api.KernelContext_GetInput(context, i, &value)) return status;
    TensorParts parts;
    if (OrtStatus* status = ReadParts(api, value, &parts)) return status;
    inputs[i] = parts.values();
    if (i == 0) first = parts;
  }
  OrtValue* output = nullptr;
  if (OrtStatus* status =
          api.KernelContext_GetOutput(context, 0, first.dims.data(), first.rank, &output)) {
    return status;
  }
  void* target = nullptr;
  if (OrtStatus* status = api.GetTensorMutableData(output, &target)) return status;
  // ONNX Runtime does not alias everything (outputs of control flow, for one).
  if (op.definition.memory == FloatOperatorDefinition::Memory::kPassThrough &&
      target != first.data && first.elements > 0) {
    std::memcpy(target, first.data, first.elements * sizeof(float));
  }
  try {
    KernelLoop loop(api, context, op.workers);
    op.definition.compute({.id = kernel->id,
                           .inputs = std::span(inputs).first(count),
                           .output = {static_cast<float*>(target), first.elements},
                           .loop = loop});
  } catch (const std::exception& error) {
    return api.CreateStatus(ORT_FAIL, error.what());
  }
  return nullptr;
}

OrtStatus* CreateKernel(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                        void** kernel) {
  int64_t id = 0;
  if (OrtStatus* status = api->KernelInfoGetAttribute_int64(info, kNodeIdAttribute, &id)) {
    return status;
  }
  *kernel = new Kernel{static_cast<const Operator*>(op), id};
  return nullptr;
}

// Output 0 lies in the memory of input 0.
size_t MapOutputToInput(int** inputs, int** outputs) {
  *inputs = new int[1]{0};
  *outputs = new int[1]{0};
  return 1;
}
size_t MapNothing(int**, int**) { return 0; }
void ReleaseMap(int* inputs, int* outputs) {
  delete[] inputs;
  delete[] outputs;
}
void ReleaseNothing(int*, int*) {}

void FillTable(uint32_t api_version, Operator* op) {
  op->version = api_version;
  op->GetName = [](const OrtCustomOp* self) {
    return static_cast<const Operator*>(self)->definition.name.c_str();
  };
  op->GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
  op->GetInputTypeCount = [](const OrtCustomOp* self) {
    return static_cast<size_t>(static_cast<const Operator*>(self)->definition.inputs);
  };
  op->GetOutputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
  op->GetInputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
  op->GetOutputType = [](const OrtCustomOp*, size_t) {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  };
  op->GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
  op->GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
  op->GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
  op->GetVariadicInputMinArity = [](const OrtCustomOp*) { return 1; };
  op->GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 1; };
  op->GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 1; };
  op->GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 1; };
  op->CreateKernelV2 = CreateKernel;
  op->KernelComputeV2 = ComputeKernel;
  op->KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  op->GetMayInplace = MapOutputToInput;
  op->ReleaseMayInplace = ReleaseMap;
  // An alias is shared with every other reader of the input, so only who writes nothing may have
  // it.
  const bool writes = op->definition.memory == FloatOperatorDefinition::Memory::kInPlace;
  op->GetAliasMap = writes ? MapNothing : MapOutputToInput;
  op->ReleaseAliasMap = writes ? ReleaseNothing : ReleaseMap;
}

class RegisteredOperators : public FloatOperators {
 public:
  explicit RegisteredOperators(const OrtLibrary& library) : library_(library) {}
  ~RegisteredOperators() override {
    if (domain_ != nullptr) library_.api().ReleaseCustomOpDomain(domain_);
  }
  RegisteredOperators(const RegisteredOperators&) = delete;
  RegisteredOperators& operator=(const RegisteredOperators&) = delete;

  absl::Status Register(std::vector<FloatOperatorDefinition> definitions, int threads) {
    GQ_RETURN_IF_ERROR(library_.ToStatus(
        library_.api().CreateCustomOpDomain(kOperatorDomain, &domain_), "custom operators"));
    for (FloatOperatorDefinition& definition : definitions) {
      auto op = std::make_unique<Operator>();
      op->definition = std::move(definition);
      op->api = &library_.api();
      op->workers = static_cast<size_t>(std::max(threads, 1));
      FillTable(library_.api_version(), op.get());
      GQ_RETURN_IF_ERROR(library_.ToStatus(library_.api().CustomOpDomain_Add(domain_, op.get()),
                                           "custom operators"));
      operators_.push_back(std::move(op));
    }
    return absl::OkStatus();
  }

  OrtCustomOpDomain* domain() override { return domain_; }

 private:
  const OrtLibrary& library_;
  std::vector<std::unique_ptr<Operator>> operators_;
  OrtCustomOpDomain* domain_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FloatOperators>> FloatOperators::Create(
    const OrtLibrary& library, std::vector<FloatOperatorDefinition> definitions, int threads) {
  for (const FloatOperatorDefinition& definition : definitions) {
    if (definition.inputs < 1 || static_cast<size_t>(definition.inputs) > kMostInputs) {
      return base::MakeError(base::Reason::kInternal, "a custom operator has one to four inputs");
    }
  }
  auto operators = std::make_unique<RegisteredOperators>(library);
  GQ_RETURN_IF_ERROR(operators->Register(std::move(definitions), threads));
  return operators;
}

}  // namespace gq::runtime
