#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/model.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

// Offsets in data files are multiples of this, so that mapped tensors are aligned.
constexpr int64_t kDataAlignment = 4096;

// Leaves room for the other fields of the message below protobuf's 2 GiB.
constexpr int64_t kMaxInlineBytes = int64_t{2000} << 20;

// A file that replaces `target` when it is complete; removed when it is not.
class PendingFile {
 public:
  explicit PendingFile(std::filesystem::path target)
      : target_(std::move(target)), pending_(target_) {
    pending_ += StrCat(".", getpid(), ".part");
  }
  ~PendingFile() {
    if (file_ >= 0) {
      close(file_);
      unlink(pending_.c_str());
    }
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  absl::Status Open() {
    file_ = open(pending_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return file_ < 0 ? Error("create") : absl::OkStatus();
  }

  absl::Status Write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Error("write");
      bytes = bytes.subspan(written);
      size_ += written;
    }
    return absl::OkStatus();
  }

  absl::Status PadTo(int64_t size) {
    const std::vector<std::byte> zeros(size - size_);
    return Write(zeros);
  }

  absl::Status Commit() {
    if (fsync(file_) != 0) return Error("write");
    if (rename(pending_.c_str(), target_.c_str()) != 0) return Error("replace");
    close(file_);
    file_ = -1;
    return absl::OkStatus();
  }

  int64_t size() const { return size_; }

 private:
  absl::Status Error(std::string_view what) const {
    const int error = errno;
    const bool full = error == ENOSPC || error == EDQUOT;
    return base::MakeError(
        full ? Reason::kDiskFull : Reason::kFileUnwritable,
        StrCat("cannot ", what, " ", target_.string(), ": ", std::strerror(error)));
  }

  std::filesystem::path target_;
  std::filesystem::path pending_;
  int file_ = -1;
  int64_t size_ = 0;
};

absl::Status WriteMessage(const onnx::ModelProto& proto, PendingFile* file) {
  std::string bytes;
  if (!proto.SerializeToString(&bytes)) {
    return base::MakeError(Reason::kModelTooLarge, "the model does not fit into one ONNX file");
  }
  return file->Write(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

int64_t StoredBytes(const Model& model) {
  int64_t total = 0;
  for (const auto& tensor : model.graph().initializer()) {
    if (!StoreKey(tensor).empty()) total += model.DataBytes(tensor);
  }
  return total;
}

absl::Status SaveExternal(const Model& model, const std::filesystem::path& path,
                          const std::string& external_file) {
  PendingFile data(path.parent_path() / external_file);
  GQ_RETURN_IF_ERROR(data.Open());
  onnx::ModelProto proto = model.proto();
  const auto add_entry = [](onnx::TensorProto* tensor, const char* key, const std::string& value) {
    auto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  for (auto& tensor : *proto.mutable_graph()->mutable_initializer()) {
    if (StoreKey(tensor).empty()) continue;
    GQ_ASSIGN_OR_RETURN(const TensorView view, model.Data(tensor));
    const int64_t offset = (data.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    GQ_RETURN_IF_ERROR(data.PadTo(offset));
    GQ_RETURN_IF_ERROR(data.Write(view.bytes()));
    ClearData(&tensor);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    add_entry(&tensor, "location", external_file);
    add_entry(&tensor, "offset", std::to_string(offset));
    add_entry(&tensor, "length", std::to_string(view.bytes().size()));
  }
  PendingFile file(path);
  GQ_RETURN_IF_ERROR(file.Open());
  GQ_RETURN_IF_ERROR(WriteMessage(proto, &file));
  // Data first: a reader of the new model finds its data.
  GQ_RETURN_IF_ERROR(data.Commit());
  return file.Commit();
}

}  // namespace

absl::Status SaveModel(const Model& model, const std::filesystem::path& path,
                       const SaveOptions& options) {
  const int64_t bytes = StoredBytes(model) + static_cast<int64_t>(model.proto().ByteSizeLong());
  if (options.layout == DataLayout::kExternalFile || bytes >= kMaxInlineBytes) {
    const std::string external_file =
        options.external_file.empty() ? path.filename().string() + ".data" : options.external_file;
    if (std::filesystem::path(external_file).filename() != external_file) {
      return base::MakeError(Reason::kFileUnwritable,
                             StrCat("the data file '", external_file,
                                    "' must be a plain name beside ", path.string()));
    }
    return SaveExternal(model, path, external_file);
  }
  GQ_ASSIGN_OR_RETURN(const onnx::ModelProto proto, model.ToInlineProto());
  PendingFile file(path);
  GQ_RETURN_IF_ERROR(file.Open());
  GQ_RETURN_IF_ERROR(WriteMessage(proto, &file));
  return file.Commit();
}

SaveOptions SameLayout(const Model& model) { return {.layout = model.layout()}; }

}  // namespace gq::graph
