// Work folders for `gq-worker step`, as the session of a worker lays them out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gq/v1/agent_service.pb.h"
#include "tests/server/worker/worker_process.h"

namespace gq::worker {

class StepProcessTest : public WorkerTest {
 protected:
  // The work folder of a step on m.onnx and x.npy, with the results of the steps before.
  void Prepare(const std::string& work, gq::v1::StepKind kind,
               const std::vector<gq::v1::Iteration>& earlier = {}) {
    namespace fs = std::filesystem;
    for (const char* folder : {"in/model", "in/calibration", "tmp", "out", "in/artifacts"}) {
      fs::create_directories(Path(work) / folder);
    }
    fs::copy_file(Path("m.onnx"), Path(work) / "in/model/m.onnx");
    fs::copy_file(Path("x.npy"), Path(work) / "in/calibration/0_x.npy");
    gq::v1::Lease lease;
    lease.set_lease_id("lease");
    lease.set_kind(kind);
    lease.set_title("Some Step");
    lease.set_step_index(step_index_);
    *lease.mutable_spec() = spec_;
    for (const std::string& report : reports_) lease.add_earlier_reports(report);
    for (const auto& [path, file] : artifacts_) {
      lease.add_inputs()->set_path(path);
      fs::copy_file(file, Path(work) / "in/artifacts" / path);
    }
    for (const gq::v1::Iteration& iteration : earlier) *lease.add_iterations() = iteration;
    Write(work + "/lease.pb", lease.SerializeAsString());
  }

  gq::v1::StepResult Result(const std::string& work) {
    gq::v1::StepResult result;
    EXPECT_TRUE(result.ParseFromString(Text(work + "/result.pb")));
    return result;
  }

  // Runs a step in a work folder of its own; what it made is handed on to the next ones.
  gq::v1::StepResult RunStep(gq::v1::StepKind kind, const std::string& work) {
    Prepare(work, kind);
    outcome_ = Run({"step", work});
    EXPECT_EQ(outcome_.code, 0) << outcome_.out << outcome_.err;
    gq::v1::StepResult result = Result(work);
    for (const auto& artifact : result.artifacts()) {
      artifacts_.emplace_back(artifact.path(), Path(work) / "out" / artifact.path());
    }
    if (!result.report_json().empty()) reports_.push_back(result.report_json());
    return result;
  }

  gq::v1::JobSpec spec_;
  int step_index_ = 0;
  std::vector<std::pair<std::string, std::filesystem::path>> artifacts_;
  std::vector<std::string> reports_;
  Outcome outcome_;  // of the last RunStep
};

}  // namespace gq::worker
