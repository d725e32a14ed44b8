#include "tests/hard/program_run.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace gq::hard {
namespace {

[[noreturn]] void Execute(std::vector<char*> arguments, const std::string& folder, int out) {
  const int in = open("/dev/null", O_RDONLY);
  if (in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(126);
  if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(126);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

std::string ReadToEnd(int in) {
  std::string text;
  char part[4096];
  for (ssize_t count; (count = read(in, part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(count));
  }
  return text;
}

}  // namespace

ProgramRun RunProgram(const std::vector<std::string>& arguments,
                      const std::filesystem::path& folder) {
  std::vector<std::string> copies = arguments;
  std::vector<char*> pointers;
  pointers.reserve(copies.size() + 1);
  for (auto& argument : copies) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const std::string where = folder.string();
  ProgramRun run;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return run;
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) Execute(std::move(pointers), where, ends[1]);
  close(ends[1]);
  if (child > 0) {
    run.text = ReadToEnd(ends[0]);
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    run.peak_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  }
  close(ends[0]);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return run;
}

}  // namespace gq::hard
