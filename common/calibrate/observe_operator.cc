#include "common/calibrate/observe_operator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "common/base/status.h"

namespace gq::calibrate {
namespace {

// Hands pieces to the threads of the session that runs the kernel.
class KernelLoop : public ParallelLoop {
 public:
  KernelLoop(const OrtApi& api, const OrtKernelContext* context, size_t workers)
      : api_(api), context_(context), workers_(workers) {}
  size_t workers() const override { return workers_; }
  void For(size_t count, const std::function<void(size_t)>& body) override {
    if (count < 2 || workers_ < 2) {
      for (size_t i = 0; i < count; ++i) body(i);
      return;
    }
    const auto call = [](void* data, size_t index) {
      (*static_cast<const std::function<void(size_t)>*>(data))(index);
    };
    OrtStatus* status =
        api_.KernelContext_ParallelFor(context_, call, count, std::min(count, workers_),
                                       const_cast<void*>(static_cast<const void*>(&body)));
    if (status != nullptr) {
      api_.ReleaseStatus(status);
      for (size_t i = 0; i < count; ++i) body(i);
    }
  }

 private:
  const OrtApi& api_;
  const OrtKernelContext* context_;
  size_t workers_;
};

struct Operator;

struct Kernel {
  const Operator* op;
  int64_t observer;
};

// OrtCustomOp is a table of functions; what they need beyond their arguments follows it.
struct Operator : OrtCustomOp {
  const OrtApi* api;
  ObserverSet* observers;
  size_t workers;
};

struct TensorParts {
  void* data = nullptr;
  std::array<int64_t, 32> dims{};
  size_t rank = 0;
  size_t elements = 0;
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
  if (status == nullptr) {
    status = api.GetTensorMutableData(const_cast<OrtValue*>(value), &parts->data);
  }
  return status;
}

OrtStatus* Compute(void* opaque, OrtKernelContext* context) {
  const auto* kernel = static_cast<const Kernel*>(opaque);
  const Operator& op = *kernel->op;
  const OrtApi& api = *op.api;
  const OrtValue* input = nullptr;
  if (OrtStatus* status = api.KernelContext_GetInput(context, 0, &input)) return status;
  TensorParts parts;
  if (OrtStatus* status = ReadParts(api, input, &parts)) return status;
  OrtValue* output = nullptr;
  if (OrtStatus* status =
          api.KernelContext_GetOutput(context, 0, parts.dims.data(), parts.rank, &output)) {
    return status;
  }
  void* target = nullptr;
  if (OrtStatus* status = api.GetTensorMutableData(output, &target)) return status;
  // ONNX Runtime does not alias everything (outputs of control flow, for one).
  if (target != parts.data) std::memcpy(target, parts.data, parts.elements * sizeof(float));
  try {
    KernelLoop loop(api, context, op.workers);
    op.observers->Observe(kernel->observer, {static_cast<const float*>(parts.data), parts.elements},
                          loop);
  } catch (const std::exception& error) {
    return api.CreateStatus(ORT_FAIL, error.what());
  }
  return nullptr;
}

OrtStatus* CreateKernel(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                        void** kernel) {
  int64_t observer = 0;
  if (OrtStatus* status = api->KernelInfoGetAttribute_int64(info, kObserverAttribute, &observer)) {
    return status;
  }
  *kernel = new Kernel{static_cast<const Operator*>(op), observer};
  return nullptr;
}

// Output 0 lies in the memory of input 0.
size_t MapOutputToInput(int** inputs, int** outputs) {
  *inputs = new int[1]{0};
  *outputs = new int[1]{0};
  return 1;
}
void ReleaseMap(int* inputs, int* outputs) {
  delete[] inputs;
  delete[] outputs;
}

void Describe(uint32_t api_version, OrtCustomOp* op) {
  op->version = api_version;
  op->GetName = [](const OrtCustomOp*) { return kObserveOperator; };
  op->GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
  op->GetInputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
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
  op->KernelComputeV2 = Compute;
  op->KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  op->GetMayInplace = MapOutputToInput;
  op->ReleaseMayInplace = ReleaseMap;
  op->GetAliasMap = MapOutputToInput;
  op->ReleaseAliasMap = ReleaseMap;
}

class RegisteredOperator : public ObserveOperator {
 public:
  RegisteredOperator(const runtime::OrtLibrary& library, ObserverSet& observers, int threads)
      : library_(library) {
    Describe(library.api_version(), &op_);
    op_.api = &library.api();
    op_.observers = &observers;
    op_.workers = static_cast<size_t>(std::max(threads, 1));
  }
  ~RegisteredOperator() override {
    if (domain_ != nullptr) library_.api().ReleaseCustomOpDomain(domain_);
  }
  RegisteredOperator(const RegisteredOperator&) = delete;
  RegisteredOperator& operator=(const RegisteredOperator&) = delete;

  absl::Status Register() {
    GQ_RETURN_IF_ERROR(library_.ToStatus(
        library_.api().CreateCustomOpDomain(kOperatorDomain, &domain_), "observe operator"));
    return library_.ToStatus(library_.api().CustomOpDomain_Add(domain_, &op_), "observe operator");
  }

  OrtCustomOpDomain* domain() override { return domain_; }

 private:
  const runtime::OrtLibrary& library_;
  Operator op_{};
  OrtCustomOpDomain* domain_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ObserveOperator>> ObserveOperator::Create(
    const runtime::OrtLibrary& library, ObserverSet& observers, int threads) {
  auto op = std::make_unique<RegisteredOperator>(library, observers, threads);
  GQ_RETURN_IF_ERROR(op->Register());
  return op;
}

}  // namespace gq::calibrate
