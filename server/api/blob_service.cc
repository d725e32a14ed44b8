#include "server/api/blob_service.h"

#include <atomic>
#include <exception>

#include "common/base/status.h"
#include "common/base/text.h"
#include "server/api/pull_stream.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr int kMaxDigests = 10'000;
constexpr size_t kMaxChunk = size_t{1} << 20;
constexpr size_t kMaxUploadId = 100;

absl::Status RequireUploader(const Caller& caller) {
  if (caller.principal.role == Role::kAgent) return absl::OkStatus();
  return RequireRole(caller.principal, Role::kSubmitter);
}

// One upload: a chunk is asked for when the one before is written.
class WriteCall final : public grpc::ServerReadReactor<gq::v1::WriteRequest>,
                        public std::enable_shared_from_this<WriteCall> {
 public:
  WriteCall(const Backend& backend, gq::v1::WriteResponse* response)
      : backend_(backend), response_(response) {}

  void Start(const absl::StatusOr<Caller>& caller) {
    self_ = shared_from_this();
    absl::Status status = caller.ok() ? RequireUploader(*caller) : caller.status();
    if (!status.ok()) {
      End(status);
      return;
    }
    principal_ = caller->principal.name;
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    backend_.blob_executor.Post([call = shared_from_this(), ok] { call->Take(ok); });
  }

  void Take(bool ok) {
    // The sender went away or stopped early: what it sent is kept.
    if (!ok) {
      upload_.reset();
      return End(MakeError(Reason::kUploadOffset, "the upload ended before its last message",
                           "go on from the committed size"));
    }
    absl::StatusOr<bool> done = absl::InternalError("");
    try {
      done = TakeChunk();
    } catch (const std::exception& error) {
      done = MakeError(Reason::kInternal, error.what());
    }
    if (!done.ok()) return End(done.status());
    if (*done) return End(absl::OkStatus());
    StartRead(&request_);
  }

  // True when the blob is complete.
  absl::StatusOr<bool> TakeChunk() {
    if (request_.data().size() > kMaxChunk) {
      return MakeError(Reason::kInvalidFlag, "a chunk has at most 1 MiB");
    }
    if (!begun_) {
      begun_ = true;
      if (request_.upload_id().empty() || request_.upload_id().size() > kMaxUploadId) {
        return MakeError(Reason::kInvalidFlag, "upload_id is required, up to 100 bytes",
                         "use a UUID");
      }
      digest_ = request_.digest();
      GQ_ASSIGN_OR_RETURN(upload_, backend_.blobs.BeginUpload(principal_, request_.upload_id(),
                                                              digest_, request_.offset()));
      if (!upload_) {
        response_->set_committed_size(digest_.size_bytes());
        return true;
      }
    }
    if (request_.offset() != upload_->committed_size()) {
      return MakeError(Reason::kUploadOffset, StrCat("the data begins at ", request_.offset(),
                                                     ", expected ", upload_->committed_size()));
    }
    GQ_RETURN_IF_ERROR(upload_->Append(request_.data()));
    response_->set_committed_size(upload_->committed_size());
    if (!request_.finish()) return false;
    GQ_RETURN_IF_ERROR(upload_->Finish());
    return true;
  }

  void End(const absl::Status& status) {
    upload_.reset();
    Finish(Respond("BlobService.Write", status));
  }

  // A read that was under way fails and ends the call.
  void OnCancel() override {}
  void OnDone() override { self_.reset(); }

  const Backend& backend_;
  gq::v1::WriteResponse* const response_;
  std::string principal_;
  gq::v1::WriteRequest request_;
  gq::v1::Digest digest_;
  bool begun_ = false;
  std::unique_ptr<Upload> upload_;
  std::shared_ptr<WriteCall> self_;
};

class ReadStream final : public PullStream<gq::v1::ReadResponse> {
 public:
  ReadStream(const Backend& backend, const gq::v1::ReadRequest& request)
      : PullStream(backend, backend.blob_executor, "BlobService.Read"), request_(request) {}

 protected:
  absl::StatusOr<Pull> Next(gq::v1::ReadResponse* response, bool) override {
    if (!reader_) {
      GQ_RETURN_IF_ERROR(CheckDigest(request_.digest()));
      Viewer viewer = caller().AsViewer();
      viewer.sees_all |= caller().principal.role == Role::kAgent;
      GQ_ASSIGN_OR_RETURN(const bool may, backend().ledger.MayReadBlob(viewer, request_.digest()));
      if (!may) {
        return MakeError(Reason::kBlobMissing,
                         StrCat("there is no blob ", request_.digest().sha256(), " of yours"));
      }
      GQ_ASSIGN_OR_RETURN(reader_, backend().blobs.Open(request_.digest(), request_.offset()));
      if (reader_->AtEnd() && request_.digest().size_bytes() > 0) return Pull::kEnd;
    }
    response->set_offset(reader_->offset());
    GQ_ASSIGN_OR_RETURN(*response->mutable_data(), reader_->Next(kMaxChunk));
    return reader_->AtEnd() ? Pull::kSendLast : Pull::kSend;
  }

 private:
  const gq::v1::ReadRequest request_;
  std::unique_ptr<BlobReader> reader_;
};

}  // namespace

grpc::ServerUnaryReactor* BlobService::FindMissingBlobs(
    grpc::CallbackServerContext* context, const gq::v1::FindMissingBlobsRequest* request,
    gq::v1::FindMissingBlobsResponse* response) {
  return RunCall(backend_, context, "BlobService.FindMissingBlobs",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_RETURN_IF_ERROR(RequireUploader(caller));
                   if (request->digests_size() > kMaxDigests) {
                     return MakeError(Reason::kInvalidFlag, "at most 10,000 digests in one call");
                   }
                   for (const auto& digest : request->digests())
                     GQ_RETURN_IF_ERROR(CheckDigest(digest));
                   const std::vector<gq::v1::Digest> digests(request->digests().begin(),
                                                             request->digests().end());
                   GQ_ASSIGN_OR_RETURN(auto missing, backend_.ledger.FindMissingBlobs(
                                                         caller.principal.name, digests));
                   for (auto& digest : missing) *response->add_missing() = std::move(digest);
                   return absl::OkStatus();
                 });
}

grpc::ServerReadReactor<gq::v1::WriteRequest>* BlobService::Write(
    grpc::CallbackServerContext* context, gq::v1::WriteResponse* response) {
  auto call = std::make_shared<WriteCall>(backend_, response);
  call->Start(Identify(backend_, *context, "BlobService.Write"));
  return call.get();
}

grpc::ServerUnaryReactor* BlobService::QueryWriteStatus(
    grpc::CallbackServerContext* context, const gq::v1::QueryWriteStatusRequest* request,
    gq::v1::QueryWriteStatusResponse* response) {
  return RunCall(backend_, context, "BlobService.QueryWriteStatus",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_RETURN_IF_ERROR(RequireUploader(caller));
                   GQ_ASSIGN_OR_RETURN(
                       const UploadState state,
                       backend_.blobs.QueryUpload(caller.principal.name, request->upload_id(),
                                                  request->digest()));
                   response->set_committed_size(state.committed_size);
                   response->set_complete(state.complete);
                   return absl::OkStatus();
                 });
}

grpc::ServerWriteReactor<gq::v1::ReadResponse>* BlobService::Read(
    grpc::CallbackServerContext* context, const gq::v1::ReadRequest* request) {
  return ReadStream::Start(std::make_shared<ReadStream>(backend_, *request),
                           Identify(backend_, *context, "BlobService.Read"));
}

}  // namespace gq::server
