#include "common/rpc/step_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "common/base/file.h"
#include "common/base/status.h"
#include "google/protobuf/any.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/temporary_folder.h"

namespace gq::rpc {
namespace {

using base::Reason;
using testing::ElementsAre;

gq::v1::StepResult ReadResult(const std::filesystem::path& work) {
  gq::v1::StepResult result;
  EXPECT_TRUE(result.ParseFromString(base::ReadFile(work / "result.pb").value()));
  return result;
}

class StepProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv(kStepEventFdVariable);
    lease_.set_lease_id("a");
    lease_.mutable_spec()->mutable_model()->mutable_file()->set_name("m.onnx");
    lease_.mutable_spec()->add_calibration_data()->set_name("c.npy");
    lease_.add_inputs()->set_path("compile/x.json");
    EXPECT_TRUE(
        base::WriteFileAtomically(folder_.path() / "lease.pb", lease_.SerializeAsString()).ok());
  }

  tests::TemporaryFolder folder_;
  gq::v1::Lease lease_;
};

TEST_F(StepProgramTest, WritesTheResultWithTheFilesThatAreThere) {
  EXPECT_EQ(RunStepProgram(folder_.path(),
                           [](StepContext& context) -> absl::StatusOr<gq::v1::StepResult> {
                             GQ_ASSIGN_OR_RETURN(const auto b, context.files.output("b/2.txt"));
                             GQ_ASSIGN_OR_RETURN(const auto a, context.files.output("a.txt"));
                             GQ_RETURN_IF_ERROR(base::WriteFileAtomically(b, "2"));
                             GQ_RETURN_IF_ERROR(base::WriteFileAtomically(a, "1"));
                             return gq::v1::StepResult();
                           }),
            0);
  const gq::v1::StepResult result = ReadResult(folder_.path());
  EXPECT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED);
  ASSERT_EQ(result.artifacts_size(), 2);
  EXPECT_EQ(result.artifacts(0).path(), "a.txt");
  EXPECT_EQ(result.artifacts(1).path(), "b/2.txt");
}

TEST_F(StepProgramTest, AnErrorBecomesAFailedResult) {
  RunStepProgram(folder_.path(), [](StepContext&) -> absl::StatusOr<gq::v1::StepResult> {
    return base::MakeError(Reason::kModelInvalid, "m.onnx: truncated", "Export it again.");
  });
  const gq::v1::StepResult result = ReadResult(folder_.path());
  EXPECT_EQ(result.state(), gq::v1::ATTEMPT_STATE_FAILED);
  EXPECT_EQ(result.failure().reason(), "MODEL_INVALID");
  EXPECT_EQ(result.failure().hint(), "Export it again.");
  EXPECT_EQ(result.failure().failure_class(), gq::v1::FAILURE_CLASS_USER);
}

TEST_F(StepProgramTest, ExceptionsOfLibrariesDoNotEscape) {
  RunStepProgram(folder_.path(), [](StepContext&) -> absl::StatusOr<gq::v1::StepResult> {
    throw std::runtime_error("surprise");
  });
  EXPECT_EQ(ReadResult(folder_.path()).failure().reason(), "INTERNAL");
}

TEST_F(StepProgramTest, WithoutALeaseThereIsNoResult) {
  EXPECT_NE(
      RunStepProgram(folder_.path() / "none", [](StepContext&) { return gq::v1::StepResult(); }),
      0);
}

TEST_F(StepProgramTest, FilesAreWhereTheLayoutSays) {
  const StepFiles files("/w", lease_);
  EXPECT_EQ(files.model(), "/w/in/model/m.onnx");
  EXPECT_THAT(files.calibration(), ElementsAre("/w/in/calibration/0_c.npy"));
  EXPECT_EQ(files.artifact("compile/x.json"), "/w/in/artifacts/compile/x.json");
  EXPECT_EQ(files.artifact("y"), std::nullopt);
  EXPECT_EQ(files.reference(), std::nullopt);
}

TEST(StepLayoutTest, StepsFetchOnlyWhatTheyNeed) {
  gq::v1::Lease lease;
  lease.mutable_spec()->mutable_model()->mutable_file()->set_name("m.onnx");
  lease.mutable_spec()->mutable_model()->add_external_data()->set_name("w/m.data");
  lease.mutable_spec()->add_calibration_data()->set_name("c.npy");
  lease.mutable_spec()->add_calibration_data()->set_name("c.npy");
  lease.mutable_spec()->mutable_labels()->set_name("l.npy");
  lease.add_inputs()->set_path("model_quantized.onnx");
  const auto paths = [&](gq::v1::StepKind kind) {
    lease.set_kind(kind);
    std::vector<std::string> list;
    const std::vector<StepInput> inputs = StepInputs(lease).value();
    for (const StepInput& input : inputs) list.push_back(input.path.string());
    return list;
  };
  EXPECT_THAT(
      paths(gq::v1::STEP_KIND_COMPILE),
      ElementsAre("in/artifacts/model_quantized.onnx", "in/model/m.onnx", "in/model/w/m.data"));
  EXPECT_THAT(
      paths(gq::v1::STEP_KIND_EVALUATE),
      ElementsAre("in/artifacts/model_quantized.onnx", "in/model/m.onnx", "in/model/w/m.data",
                  "in/calibration/0_c.npy", "in/calibration/1_c.npy", "in/labels/l.npy"));
}

TEST(StepLayoutTest, PathsThatLeaveTheirFolderAreUnsafe) {
  for (const char* path : {"a", "a/b.txt", "iterations/03/x", "...", "a..b"}) {
    EXPECT_TRUE(IsSafeRelativePath(path)) << path;
  }
  for (const char* path : {"", "/a", "a/", "..", "../a", "a/../b", "a//b", "./a", "a\nb", "a\\b"}) {
    EXPECT_FALSE(IsSafeRelativePath(path)) << path;
  }
}

TEST(StepChannelTest, FramesComeApartAsTheyWerePut) {
  std::string buffer = EncodeFrame("one") + EncodeFrame("") + EncodeFrame(std::string(300, 'x'));
  std::string message;
  bool bad = false;
  std::string half = buffer.substr(0, 2);
  EXPECT_FALSE(DecodeFrame(half, message, bad));
  EXPECT_FALSE(bad);
  ASSERT_TRUE(DecodeFrame(buffer, message, bad));
  EXPECT_EQ(message, "one");
  ASSERT_TRUE(DecodeFrame(buffer, message, bad));
  EXPECT_EQ(message, "");
  ASSERT_TRUE(DecodeFrame(buffer, message, bad));
  EXPECT_EQ(message, std::string(300, 'x'));
  EXPECT_TRUE(buffer.empty());
  std::string nonsense(10, '\xff');
  EXPECT_FALSE(DecodeFrame(nonsense, message, bad));
  EXPECT_TRUE(bad);
}

TEST(StepChannelTest, AnIterationWaitsForItsAnswer) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  StepChannel channel(fds[0]);
  std::thread parent([fd = fds[1]] {
    for (const int code : {0, 10}) {
      std::string buffer;
      std::string message;
      bool bad = false;
      while (!DecodeFrame(buffer, message, bad)) {
        char bytes[1024];
        const ssize_t n = ::read(fd, bytes, sizeof bytes);
        ASSERT_GT(n, 0);
        buffer.append(bytes, static_cast<size_t>(n));
      }
      google::protobuf::Any any;
      gq::v1::Iteration iteration;
      ASSERT_TRUE(any.ParseFromString(message) && any.UnpackTo(&iteration));
      EXPECT_EQ(iteration.number(), 5);
      google::rpc::Status answer;
      answer.set_code(code);
      const std::string frame = EncodeFrame(answer.SerializeAsString());
      ASSERT_EQ(::write(fd, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
    }
    ::close(fd);
  });
  gq::v1::Iteration iteration;
  iteration.set_number(5);
  EXPECT_TRUE(channel.SendIteration(iteration).ok());
  EXPECT_EQ(base::GetReason(channel.SendIteration(iteration)), Reason::kLeaseLost);
  parent.join();
  EXPECT_EQ(base::GetReason(channel.SendIteration(iteration)), Reason::kLeaseLost);
}

}  // namespace
}  // namespace gq::rpc
