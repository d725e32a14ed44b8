// What a job asks of the compiler; the same for Compile and Board Run.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "board_agent/backends/backend.h"
#include "common/compile/classification.h"
#include "common/compile/compiler_options.h"
#include "common/rpc/step_program.h"
#include "gq/v1/agent_service.pb.h"
#include "gq/v1/job_service.pb.h"

namespace gq::agent {

// Stem of the files of a compile: a name that is safe in a path and means the model to a person.
std::string CompileKey(const gq::v1::JobSpec& spec);

// Folders among the results of Compile: with the model, and with the float model, compiled to be
// measured beside it.
inline constexpr char kCompileFolder[] = "compile";
inline constexpr char kFloatCompile[] = "compile_float";

// Such a folder of an earlier step, with KEY/... in it; empty when there is none.
std::filesystem::path CompiledFolder(const rpc::StepContext& context, std::string_view name);

// The latest part of the report of an earlier step that has all of these keys; null for none.
nlohmann::ordered_json EarlierPart(const gq::v1::Lease& lease,
                                   std::initializer_list<const char*> keys);

// The job's model as a binary file with the shapes that --input-shape and a batch of 1 give its
// inputs: a file in `folder`, or `model` itself when nothing changes. Results of earlier steps are
// static already. Fails with kInvalidFlag and as LoadModel and SaveModel do.
absl::StatusOr<std::filesystem::path> PinnedModel(const gq::v1::JobSpec& spec,
                                                  const std::filesystem::path& model,
                                                  const std::filesystem::path& folder);

// FP16 where scheme or fp_precision ask for it.
compile::FloatForm FloatFormOf(const gq::v1::JobSpec& spec);

// The options of the class for the job's device, or for the board's where the job names a family,
// with the job's --compiler-option applied. Fails as compile::ApplyOption and CheckOptions.
absl::StatusOr<compile::CompilerOptions> OptionsFor(const gq::v1::JobSpec& spec,
                                                    const BoardSpec& board,
                                                    const compile::Classification& classification);

}  // namespace gq::agent
