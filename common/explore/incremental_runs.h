// Candidates of a search run many times over the same samples. What two of them compute alike is
// computed once: a candidate starts behind the last tensors it shares with the one it builds on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "common/accuracy/evaluate.h"
#include "common/graph/model.h"
#include "common/runtime/tensor.h"

namespace gq::explore {

struct IncrementalOptions {
  int64_t samples = 0;  // of the data set; 0: nothing is kept between candidates
  // Bytes that the kept tensors of one candidate may take; twice as much while another runs.
  int64_t max_bytes = int64_t{256} << 20;
};

// Outputs are bit for bit those of a session over the candidate's file with basic optimization,
// Q/DQ in float arithmetic and one thread: the same kernels run, and tensors are told apart by a
// digest of all that they are computed from (operators, constants, roundings), not by their names.
// One candidate at a time; not thread-safe but for the runner's Run.
class IncrementalRuns {
 public:
  explicit IncrementalRuns(const IncrementalOptions& options) : options_(options) {}

  // Prepares the runs of a candidate: an emitted model, or its reference for the CPU. The runner
  // must not outlive this object. Null for models that this does not fit (control flow). Errors of
  // Session::Create.
  absl::StatusOr<std::unique_ptr<accuracy::CandidateRunner>> Start(const graph::Model& model);

  // The runs of the last candidate are over; with `complete` each sample was run that will ever be.
  void Finish(bool complete);
  // Later candidates build on the last one: what only others share is forgotten.
  void Accept();
  // Later candidates build on the one accepted before: what only the last one has is forgotten.
  void Reject();

  // Of the last candidate: nodes with a session's work, and those that were spared.
  int nodes_run() const { return nodes_run_; }
  int nodes_spared() const { return nodes_spared_; }

 private:
  friend class IncrementalRunner;
  friend class CandidatePlan;
  struct Kept {
    std::vector<runtime::Tensor> samples;
    bool complete = false;
  };

  const IncrementalOptions options_;
  std::unordered_map<uint64_t, Kept> kept_;  // by digest
  // Digests of all tensors of the candidate that others build on, and of the last one.
  std::unordered_set<uint64_t> base_, last_;
  std::vector<std::string> cuts_;  // layers before which tensors are kept; chosen once
  bool cuts_chosen_ = false;
  int nodes_run_ = 0, nodes_spared_ = 0;
};

}  // namespace gq::explore
