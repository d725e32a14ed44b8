#include "common/runtime/npz.h"

#include <zip.h>

#include <algorithm>
#include <array>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/runtime/npy_layout.h"

namespace gq::runtime {
namespace {

using base::MakeError;
using base::Reason;

constexpr std::string_view kDamagedHint = "Write the file again with numpy.savez.";
// An array in Fortran order cannot be read row by row; a larger one is refused.
constexpr int64_t kMaxWholeArray = int64_t{4} << 30;

struct ZipCloser {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
using SharedZip = std::shared_ptr<zip_t>;

struct Entry {
  zip_uint64_t index = 0;
  int64_t size = 0;
  bool stored = false;  // not compressed
};

// Bytes of one entry, read forwards; going back starts again.
class EntryStream {
 public:
  EntryStream(SharedZip zip, Entry entry, std::string name)
      : zip_(std::move(zip)), entry_(entry), name_(std::move(name)) {}
  ~EntryStream() { Close(); }
  EntryStream(const EntryStream&) = delete;
  EntryStream& operator=(const EntryStream&) = delete;

  absl::Status ReadAt(int64_t offset, std::span<std::byte> out) {
    GQ_RETURN_IF_ERROR(Seek(offset));
    return ReadFully(out);
  }

 private:
  void Close() {
    if (file_ != nullptr) zip_fclose(file_);
    file_ = nullptr;
  }

  absl::Status Damaged(std::string_view why) const {
    return MakeError(Reason::kDataInvalid, base::StrCat(name_, ": ", why), kDamagedHint);
  }

  absl::Status Seek(int64_t offset) {
    if (file_ == nullptr || offset < position_) {
      Close();
      file_ = zip_fopen_index(zip_.get(), entry_.index, 0);
      if (file_ == nullptr) return Damaged(zip_strerror(zip_.get()));
      position_ = 0;
    }
    if (offset > position_ && entry_.stored && zip_fseek(file_, offset, SEEK_SET) == 0) {
      position_ = offset;
    }
    std::array<std::byte, 65536> dropped;
    while (position_ < offset) {
      const auto step = static_cast<size_t>(
          std::min<int64_t>(offset - position_, static_cast<int64_t>(dropped.size())));
      GQ_RETURN_IF_ERROR(ReadFully(std::span(dropped).first(step)));
    }
    return absl::OkStatus();
  }

  absl::Status ReadFully(std::span<std::byte> out) {
    while (!out.empty()) {
      const zip_int64_t got = zip_fread(file_, out.data(), out.size());
      if (got < 0) return Damaged(zip_error_strerror(zip_file_get_error(file_)));
      if (got == 0) return Damaged("ends before the array does");
      position_ += got;
      out = out.subspan(static_cast<size_t>(got));
    }
    if (position_ == entry_.size) {
      // The checksum is compared when the end is reached.
      std::byte rest;
      const zip_int64_t got = zip_fread(file_, &rest, 1);
      if (got != 0) return Damaged("damaged (wrong checksum or length)");
    }
    return absl::OkStatus();
  }

  SharedZip zip_;
  Entry entry_;
  std::string name_;
  zip_file_t* file_ = nullptr;
  int64_t position_ = 0;
};

class NpzArray : public ArrayReader {
 public:
  NpzArray(NpyHeader header, std::string name, std::unique_ptr<EntryStream> stream)
      : ArrayReader(std::move(header), std::move(name)), stream_(std::move(stream)) {}

  absl::StatusOr<Tensor> ReadRows(int64_t first, int64_t count) override {
    const RowLayout layout(header_);
    if (header_.fortran_order && header_.shape.size() > 1) {
      GQ_RETURN_IF_ERROR(LoadWhole());
      return CopyRows(header_, whole_.bytes(), first, count);
    }
    GQ_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(header_.dtype, layout.ShapeOf(count)));
    GQ_RETURN_IF_ERROR(
        stream_->ReadAt(header_.data_offset + first * layout.row_bytes, tensor.mutable_bytes()));
    if (header_.big_endian) SwapBytes(header_.element_bytes, tensor.mutable_bytes());
    return tensor;
  }

 private:
  absl::Status LoadWhole() {
    if (!whole_.empty() || header_.elements == 0) return absl::OkStatus();
    const int64_t bytes = header_.elements * header_.element_bytes;
    if (bytes > kMaxWholeArray) {
      return MakeError(Reason::kResourceLimit,
                       base::StrCat(name_, ": ", bytes, " bytes in Fortran order"),
                       "Save the array in C order (numpy.ascontiguousarray).");
    }
    GQ_ASSIGN_OR_RETURN(whole_, Tensor::Allocate(onnx::TensorProto::UINT8, {bytes}));
    return stream_->ReadAt(header_.data_offset, whole_.mutable_bytes());
  }

  std::unique_ptr<EntryStream> stream_;
  Tensor whole_;
};

class ZipArchive : public NpzArchive {
 public:
  ZipArchive(std::string path, SharedZip zip) : path_(std::move(path)), zip_(std::move(zip)) {}

  absl::Status ReadDirectory(const NpzLimits& limits);

  const std::vector<std::string>& keys() const override { return keys_; }

  absl::StatusOr<std::unique_ptr<ArrayReader>> OpenArray(std::string_view key) override {
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      return MakeError(
          Reason::kDataKeyMismatch,
          base::StrCat(path_, " has no array '", key, "'; it has: ", base::StrJoin(keys_, ", ")));
    }
    const Entry& entry = found->second;
    std::string name = base::StrCat(path_, ":", key);
    auto stream = std::make_unique<EntryStream>(zip_, entry, name);
    std::vector<std::byte> start(
        static_cast<size_t>(std::min<int64_t>(entry.size, kMaxNpyHeaderBytes + 12)));
    GQ_RETURN_IF_ERROR(stream->ReadAt(0, start));
    GQ_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(start, name));
    if (entry.size - header.data_offset < header.elements * header.element_bytes) {
      return MakeError(Reason::kDataInvalid,
                       base::StrCat(name, ": truncated: the header promises ",
                                    Describe(header.dtype, header.shape), ", but ",
                                    entry.size - header.data_offset, " bytes follow"),
                       kDamagedHint);
    }
    return std::make_unique<NpzArray>(std::move(header), std::move(name), std::move(stream));
  }

 private:
  absl::Status CheckEntry(const zip_stat_t& info, const NpzLimits& limits) const;

  std::string path_;
  SharedZip zip_;
  std::vector<std::string> keys_;
  std::map<std::string, Entry, std::less<>> entries_;
};

bool HasParentFolder(std::string_view name) {
  for (const std::string_view part : base::StrSplit(name, '/')) {
    if (part == "..") return true;
  }
  return name.find('\\') != std::string_view::npos;
}

absl::Status ZipArchive::CheckEntry(const zip_stat_t& info, const NpzLimits& limits) const {
  const auto fail = [&](std::string_view why) {
    return MakeError(Reason::kDataInvalid,
                     base::StrCat(path_, ": entry '", std::string_view(info.name), "' ", why),
                     kDamagedHint);
  };
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((info.valid & kNeeded) != kNeeded) return fail("has no size");
  if (HasParentFolder(info.name)) return fail("has a name that leads out of the archive");
  if (info.encryption_method != ZIP_EM_NONE) return fail("is encrypted");
  if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE) {
    return fail("is compressed in a way that numpy does not use");
  }
  const auto limit = static_cast<zip_uint64_t>(limits.max_entry_bytes);
  if (info.size > limit || info.comp_size > limit) return fail("is too large");
  constexpr zip_uint64_t kAlwaysAllowed = zip_uint64_t{64} << 20;
  if (info.size > kAlwaysAllowed &&
      info.size / static_cast<zip_uint64_t>(limits.max_ratio) > info.comp_size) {
    return fail("claims to grow more than any array does");
  }
  return absl::OkStatus();
}

absl::Status ZipArchive::ReadDirectory(const NpzLimits& limits) {
  const zip_int64_t count = zip_get_num_entries(zip_.get(), 0);
  if (count > limits.max_entries) {
    return MakeError(Reason::kDataInvalid, base::StrCat(path_, ": ", count, " entries"));
  }
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    zip_stat_init(&info);
    if (zip_stat_index(zip_.get(), static_cast<zip_uint64_t>(i), 0, &info) != 0 ||
        (info.valid & ZIP_STAT_NAME) == 0) {
      return MakeError(Reason::kDataInvalid, base::StrCat(path_, ": damaged directory"),
                       kDamagedHint);
    }
    GQ_RETURN_IF_ERROR(CheckEntry(info, limits));
    std::string key = info.name;
    if (!key.ends_with(".npy")) continue;
    key.resize(key.size() - 4);
    const Entry entry{.index = static_cast<zip_uint64_t>(i),
                      .size = static_cast<int64_t>(info.size),
                      .stored = info.comp_method == ZIP_CM_STORE};
    if (!entries_.emplace(key, entry).second) {
      return MakeError(Reason::kDataInvalid,
                       base::StrCat(path_, ": two arrays are called '", key, "'"), kDamagedHint);
    }
    keys_.push_back(std::move(key));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NpzArchive>> NpzArchive::Open(const std::filesystem::path& path,
                                                             const NpzLimits& limits) {
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) {
    return MakeError(Reason::kFileNotFound, base::StrCat(path.string(), ": no such file"));
  }
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    const bool unreadable = code == ZIP_ER_OPEN || code == ZIP_ER_READ;
    return MakeError(unreadable ? Reason::kFileUnreadable : Reason::kDataInvalid,
                     base::StrCat(path.string(), ": not a readable .npz file: ", why),
                     kDamagedHint);
  }
  auto archive = std::make_unique<ZipArchive>(path.string(), SharedZip(zip, ZipCloser{}));
  GQ_RETURN_IF_ERROR(archive->ReadDirectory(limits));
  return archive;
}

absl::StatusOr<std::map<std::string, Tensor>> ReadNpz(const std::filesystem::path& path) {
  GQ_ASSIGN_OR_RETURN(const auto archive, NpzArchive::Open(path));
  std::map<std::string, Tensor> arrays;
  for (const std::string& key : archive->keys()) {
    GQ_ASSIGN_OR_RETURN(const auto array, archive->OpenArray(key));
    GQ_ASSIGN_OR_RETURN(arrays[key], array->ReadAll());
  }
  return arrays;
}

absl::Status WriteNpz(const std::filesystem::path& path,
                      const std::map<std::string, Tensor>& arrays) {
  const auto fail = [&](std::string_view why) {
    return MakeError(Reason::kFileUnwritable, base::StrCat(path.string(), ": ", why));
  };
  std::vector<std::string> contents;  // libzip reads them when it closes the archive
  contents.reserve(arrays.size());
  int code = 0;
  std::unique_ptr<zip_t, ZipCloser> zip(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (zip == nullptr) return fail("cannot be created");
  for (const auto& [key, tensor] : arrays) {
    GQ_ASSIGN_OR_RETURN(std::string bytes, NpyBytes(tensor));
    contents.push_back(std::move(bytes));
    zip_source_t* source =
        zip_source_buffer(zip.get(), contents.back().data(), contents.back().size(), 0);
    const zip_int64_t index =
        zip_file_add(zip.get(), base::StrCat(key, ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      return fail(zip_strerror(zip.get()));
    }
    zip_set_file_compression(zip.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  zip_t* raw = zip.release();
  if (zip_close(raw) != 0) {
    const std::string why = zip_strerror(raw);
    zip_discard(raw);
    return fail(why);
  }
  return absl::OkStatus();
}

}  // namespace gq::runtime
