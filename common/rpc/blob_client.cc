#include "common/rpc/blob_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/backoff.h"
#include "common/rpc/external_data.h"
#include "common/rpc/random_id.h"
#include "common/rpc/status_mapping.h"
#include "common/rpc/step_layout.h"
#include "common/rpc/transfer_watch.h"

namespace gq::rpc {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;

constexpr size_t kDigestsInOneCall = 10000;

absl::StatusOr<base::FileDescriptor> OpenForReading(const fs::path& path) {
  base::FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.valid()) return fd;
  return MakeError(errno == ENOENT ? Reason::kFileNotFound : Reason::kFileUnreadable,
                   base::StrCat(path.string(), ": ", std::strerror(errno)));
}

absl::Status ReadError(std::string_view name) {
  return MakeError(Reason::kFileUnreadable, base::StrCat(name, ": ", std::strerror(errno)));
}

absl::Status Cancelled() { return MakeError(Reason::kCancelled, "the transfer was cancelled"); }

// Hashes what is left of `fd` from its current position; the number of bytes.
absl::StatusOr<int64_t> HashFile(int fd, std::string_view name, base::Sha256& hash,
                                 std::stop_token stop) {
  std::string buffer(kBlobChunkBytes, '\0');
  int64_t size = 0;
  while (true) {
    if (stop.stop_requested()) return Cancelled();
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ReadError(name);
    if (n == 0) return size;
    hash.Update({buffer.data(), static_cast<size_t>(n)});
    size += n;
  }
}

absl::Status Mismatch(std::string_view name) {
  return MakeError(Reason::kDigestMismatch,
                   base::StrCat(name, ": the content is not the one its digest names"),
                   "The file may have changed meanwhile; try again.");
}

}  // namespace

absl::StatusOr<gq::v1::Digest> DigestOfFile(const fs::path& path, std::stop_token stop) {
  GQ_ASSIGN_OR_RETURN(const base::FileDescriptor fd, OpenForReading(path));
  base::Sha256 hash;
  GQ_ASSIGN_OR_RETURN(const int64_t size, HashFile(fd.get(), path.string(), hash, stop));
  gq::v1::Digest digest;
  digest.set_sha256(hash.Finish());
  digest.set_size_bytes(size);
  return digest;
}

gq::v1::Digest DigestOfBytes(std::string_view bytes) {
  gq::v1::Digest digest;
  digest.set_sha256(base::Sha256Hex(bytes));
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return digest;
}

// What is uploaded: a file, or bytes in memory.
class BlobClient::Source {
 public:
  explicit Source(std::string_view bytes) : bytes_(bytes) {}
  explicit Source(base::FileDescriptor fd) : fd_(std::move(fd)) {}

  absl::Status Read(int64_t offset, size_t size, std::string_view name, std::string* out) const {
    if (!fd_.valid()) {
      out->assign(bytes_.substr(static_cast<size_t>(offset), size));
      return absl::OkStatus();
    }
    out->resize(size);
    size_t done = 0;
    while (done < size) {
      const ssize_t n = ::pread(fd_.get(), out->data() + done, size - done,
                                static_cast<off_t>(offset) + static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ReadError(name);
      if (n == 0) return Mismatch(name);
      done += static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

 private:
  base::FileDescriptor fd_;
  std::string_view bytes_;
};

BlobClient::BlobClient(std::shared_ptr<Channel> channel, BlobOptions options)
    : channel_(std::move(channel)),
      options_(std::move(options)),
      stub_(gq::v1::BlobService::NewStub(channel_->grpc())) {}

absl::StatusOr<std::vector<gq::v1::Digest>> BlobClient::FindMissing(
    std::span<const gq::v1::Digest> digests) {
  std::vector<gq::v1::Digest> missing;
  Backoff backoff;
  int tries = 0;
  for (size_t first = 0; first < digests.size();) {
    const size_t count = std::min(kDigestsInOneCall, digests.size() - first);
    gq::v1::FindMissingBlobsRequest request;
    for (const gq::v1::Digest& digest : digests.subspan(first, count))
      *request.add_digests() = digest;
    gq::v1::FindMissingBlobsResponse response;
    grpc::ClientContext context;
    channel_->Prepare(context, kUnaryTimeout);
    const grpc::Status status = stub_->FindMissingBlobs(&context, request, &response);
    if (!status.ok()) {
      const absl::Status error = FromGrpcStatus(status);
      // A person is told at once that the server is down.
      const bool again = channel_->use() == ChannelUse::kAgent && IsTransient(error) &&
                         ++tries < options_.max_tries;
      if (!again) return error;
      const auto delay = backoff.Next(RetryDelay(status).value_or(absl::ZeroDuration()));
      if (!SleepFor(delay, options_.stop)) return Cancelled();
      continue;
    }
    missing.insert(missing.end(), response.missing().begin(), response.missing().end());
    first += count;
  }
  return missing;
}

absl::StatusOr<gq::v1::FileRef> BlobClient::UploadFile(const fs::path& path,
                                                       std::string_view name) {
  const fs::path paths[] = {path};
  GQ_ASSIGN_OR_RETURN(std::vector<gq::v1::FileRef> files, UploadFiles(paths));
  if (!name.empty()) files.front().set_name(std::string(name));
  return files.front();
}

absl::StatusOr<std::vector<gq::v1::FileRef>> BlobClient::UploadFiles(
    std::span<const fs::path> paths) {
  std::vector<gq::v1::FileRef> files;
  std::vector<gq::v1::Digest> digests;
  for (const fs::path& path : paths) {
    GQ_ASSIGN_OR_RETURN(gq::v1::Digest digest, DigestOfFile(path, options_.stop));
    digests.push_back(digest);
    gq::v1::FileRef& file = files.emplace_back();
    file.set_name(path.filename().string());
    *file.mutable_digest() = std::move(digest);
  }
  GQ_ASSIGN_OR_RETURN(const std::vector<gq::v1::Digest> missing, FindMissing(digests));
  for (const gq::v1::Digest& digest : missing) {
    const auto file = std::find_if(files.begin(), files.end(), [&](const gq::v1::FileRef& f) {
      return f.digest().sha256() == digest.sha256();
    });
    if (file == files.end()) continue;
    const fs::path& path = paths[static_cast<size_t>(file - files.begin())];
    GQ_ASSIGN_OR_RETURN(base::FileDescriptor fd, OpenForReading(path));
    GQ_RETURN_IF_ERROR(Upload(digest, path.string(), Source(std::move(fd))));
  }
  return files;
}

absl::StatusOr<gq::v1::Digest> BlobClient::UploadBytes(std::string_view bytes) {
  const gq::v1::Digest digest = DigestOfBytes(bytes);
  GQ_ASSIGN_OR_RETURN(const auto missing, FindMissing(std::span(&digest, 1)));
  if (!missing.empty()) GQ_RETURN_IF_ERROR(Upload(digest, "data", Source(bytes)));
  return digest;
}

absl::StatusOr<gq::v1::ModelRef> BlobClient::UploadModel(const fs::path& path) {
  GQ_ASSIGN_OR_RETURN(const std::vector<std::string> external, ListExternalDataFiles(path));
  std::vector<fs::path> paths = {path};
  for (const std::string& location : external) {
    const fs::path file = path.parent_path() / location;
    std::error_code error;
    if (!fs::is_regular_file(file, error)) {
      return MakeError(Reason::kExternalDataInvalid,
                       base::StrCat(path.string(), ": its external data file ", file.string(),
                                    " does not exist"),
                       "Keep the model and its external data together.");
    }
    const fs::path folder = fs::weakly_canonical(
        path.parent_path().empty() ? fs::path(".") : path.parent_path(), error);
    const fs::path inside = fs::weakly_canonical(file, error).lexically_relative(folder);
    if (error || !IsSafeRelativePath(inside.string())) {
      return MakeError(Reason::kExternalDataInvalid,
                       base::StrCat(file.string(), ": leads outside the folder of the model"),
                       "Replace the link by the file itself.");
    }
    paths.push_back(file);
  }
  GQ_ASSIGN_OR_RETURN(std::vector<gq::v1::FileRef> files, UploadFiles(paths));
  gq::v1::ModelRef model;
  *model.mutable_file() = files.front();
  for (size_t i = 0; i < external.size(); ++i) {
    gq::v1::FileRef& data = *model.add_external_data();
    data = files[i + 1];
    data.set_name(external[i]);
  }
  return model;
}

absl::Status BlobClient::Upload(const gq::v1::Digest& digest, std::string_view name,
                                const Source& source) {
  const std::string upload_id = RandomUuid();
  Backoff backoff;
  int64_t committed = 0;
  for (int tries = 1;; ++tries) {
    absl::StatusOr<int64_t> written = WriteOnce(upload_id, digest, name, source, committed);
    if (written.ok() && *written == digest.size_bytes()) return absl::OkStatus();
    if (options_.stop.stop_requested()) return Cancelled();
    absl::Status error = written.ok() ? MakeError(Reason::kServerUnreachable,
                                                  base::StrCat(name, ": the upload was cut short"))
                                      : written.status();
    // A watch that found a stall reports the call as cancelled.
    const Reason reason = base::GetReason(error);
    const bool again =
        IsTransient(error) || reason == Reason::kUploadOffset || reason == Reason::kCancelled;
    if (!again) return base::AddContext(error, name);

    gq::v1::QueryWriteStatusRequest request;
    request.set_upload_id(upload_id);
    *request.mutable_digest() = digest;
    gq::v1::QueryWriteStatusResponse response;
    grpc::ClientContext context;
    channel_->Prepare(context, kUnaryTimeout);
    const grpc::Status status = stub_->QueryWriteStatus(&context, request, &response);
    if (status.ok()) {
      if (response.complete()) return absl::OkStatus();
      if (response.committed_size() > committed) {
        tries = 0;
        backoff.Reset();
      }
      committed = response.committed_size();
    }
    if (tries >= options_.max_tries) return base::AddContext(error, name);
    if (!SleepFor(backoff.Next(), options_.stop)) return Cancelled();
  }
}

absl::StatusOr<int64_t> BlobClient::WriteOnce(const std::string& upload_id,
                                              const gq::v1::Digest& digest, std::string_view name,
                                              const Source& source, int64_t offset) {
  grpc::ClientContext context;
  channel_->Prepare(context, kBlobTimeout);
  TransferWatch watch(context, options_.stall_timeout, options_.stop);
  gq::v1::WriteResponse response;
  const auto writer = stub_->Write(&context, &response);
  absl::Status read_status;
  gq::v1::WriteRequest request;
  request.set_upload_id(upload_id);
  *request.mutable_digest() = digest;
  const int64_t size = digest.size_bytes();
  for (bool last = false; !last;) {
    const int64_t chunk = std::min(kBlobChunkBytes, size - offset);
    last = offset + chunk == size;
    request.set_offset(offset);
    request.set_finish(last);
    read_status = source.Read(offset, static_cast<size_t>(chunk), name, request.mutable_data());
    if (!read_status.ok()) {
      context.TryCancel();
      break;
    }
    // False: the server has ended the call, because it has the blob already or with an error.
    if (!writer->Write(request)) break;
    watch.Touch();
    offset += chunk;
    request.clear_upload_id();
    request.clear_digest();
    if (options_.progress) options_.progress(name, offset, size);
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  GQ_RETURN_IF_ERROR(read_status);
  if (!status.ok()) return FromGrpcStatus(status);
  return response.committed_size();
}

absl::Status BlobClient::ReadOnce(const gq::v1::Digest& digest, int64_t offset,
                                  std::string_view name,
                                  const std::function<absl::Status(std::string_view)>& sink) {
  gq::v1::ReadRequest request;
  *request.mutable_digest() = digest;
  request.set_offset(offset);
  grpc::ClientContext context;
  channel_->Prepare(context, kBlobTimeout);
  TransferWatch watch(context, options_.stall_timeout, options_.stop);
  const auto reader = stub_->Read(&context, request);
  absl::Status problem;
  gq::v1::ReadResponse response;
  while (problem.ok() && reader->Read(&response)) {
    watch.Touch();
    const auto bytes = static_cast<int64_t>(response.data().size());
    if (response.offset() != offset || offset + bytes > digest.size_bytes()) {
      problem = Mismatch(name);
    } else {
      problem = sink(response.data());
      offset += bytes;
      if (options_.progress) options_.progress(name, offset, digest.size_bytes());
    }
  }
  if (!problem.ok()) context.TryCancel();
  const grpc::Status status = reader->Finish();
  GQ_RETURN_IF_ERROR(problem);
  if (!status.ok()) return FromGrpcStatus(status);
  if (offset == digest.size_bytes()) return absl::OkStatus();
  return MakeError(Reason::kServerUnreachable, base::StrCat(name, ": the download was cut short"));
}

absl::Status BlobClient::ReadAll(const gq::v1::Digest& digest, int64_t offset,
                                 std::string_view name,
                                 const std::function<absl::Status(std::string_view)>& sink) {
  Backoff backoff;
  for (int tries = 1;; ++tries) {
    const int64_t before = offset;
    const absl::Status status = ReadOnce(digest, offset, name, [&](std::string_view bytes) {
      GQ_RETURN_IF_ERROR(sink(bytes));
      offset += static_cast<int64_t>(bytes.size());
      return absl::OkStatus();
    });
    if (status.ok()) return status;
    if (options_.stop.stop_requested()) return Cancelled();
    if (!IsTransient(status) && base::GetReason(status) != Reason::kCancelled) {
      return base::AddContext(status, name);
    }
    if (offset > before) {
      tries = 0;
      backoff.Reset();
    }
    if (tries >= options_.max_tries) return base::AddContext(status, name);
    if (!SleepFor(backoff.Next(), options_.stop)) return Cancelled();
  }
}

absl::Status BlobClient::Download(const gq::v1::Digest& digest, const fs::path& path) {
  const std::string part = path.string() + ".part";
  for (bool fresh = false;; fresh = true) {
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | (fresh ? O_TRUNC : 0);
    base::FileDescriptor fd(::open(part.c_str(), flags, 0644));
    if (!fd.valid()) {
      return MakeError(Reason::kFileUnwritable, base::StrCat(part, ": ", std::strerror(errno)));
    }
    base::Sha256 hash;
    GQ_ASSIGN_OR_RETURN(int64_t have, HashFile(fd.get(), part, hash, options_.stop));
    if (have > digest.size_bytes()) continue;
    const bool resumed = have > 0;
    // Even when all is there: the server decides whether the caller may have it.
    GQ_RETURN_IF_ERROR(ReadAll(digest, have, path.string(), [&](std::string_view bytes) {
      hash.Update(bytes);
      return base::WriteAll(fd.get(), bytes, part);
    }));
    if (hash.Finish() == digest.sha256()) break;
    ::unlink(part.c_str());
    // What was left from an earlier try may have been damaged.
    if (!resumed) return Mismatch(path.string());
  }
  if (::rename(part.c_str(), path.c_str()) != 0) {
    return MakeError(Reason::kFileUnwritable,
                     base::StrCat(path.string(), ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> BlobClient::ReadBytes(const gq::v1::Digest& digest, int64_t limit) {
  if (digest.size_bytes() > limit) {
    return MakeError(Reason::kResourceLimit,
                     base::StrCat("the blob has ", digest.size_bytes(), " bytes, at most ", limit,
                                  " are read into memory"));
  }
  std::string bytes;
  GQ_RETURN_IF_ERROR(ReadAll(digest, 0, "blob", [&](std::string_view chunk) {
    bytes.append(chunk);
    return absl::OkStatus();
  }));
  if (base::Sha256Hex(bytes) != digest.sha256()) return Mismatch("blob");
  return bytes;
}

}  // namespace gq::rpc
