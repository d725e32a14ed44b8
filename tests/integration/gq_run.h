// Runs the real gq in a folder of its own, on a net that takes a second.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/base/text.h"

namespace gq {

inline std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::filesystem::path ProgramFolder() {
  const char* folder = std::getenv("GQ_BIN_DIR");
  return std::filesystem::absolute(folder == nullptr ? "." : folder);
}

struct GqOutcome {
  int code = -1;  // exit code; -1 when a signal ended it
  std::string out;
  std::string err;
};

// `environment` and `arguments` are words for the shell: "HOME=/x GQ_SERVER=unix:/s", "run --json".
inline GqOutcome RunGq(const std::filesystem::path& folder, const std::string& environment,
                       const std::string& arguments) {
  const std::string command =
      base::StrCat("cd ", folder.string(), " && ", environment, " ",
                   (ProgramFolder() / "gq").string(), " ", arguments, " > out 2> err");
  const int status = std::system(command.c_str());
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = ReadAll(folder / "out"),
          .err = ReadAll(folder / "err")};
}

// Multiplies what it gets, so that a zero is a wrong result.
inline constexpr char kSmallNet[] = R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[1,2,8,8] x) => (float[1,2,8,8] y)
<float[2,2,1,1] w1 = {0.5, -0.25, 0.125, 0.75}, float[2] b1 = {0.1, -0.1},
 float[2,2,1,1] w2 = {1.0, 0.5, -0.5, 0.25}, float[2] b2 = {0.0, 0.2}>
{
  a = Conv(x, w1, b1)
  r = Relu(a)
  y = Conv(r, w2, b2)
}
)";

}  // namespace gq
