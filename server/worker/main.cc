#include <string>
#include <vector>

#include "server/worker/command_line.h"
#include "server/worker/crash_note.h"

int main(int argc, char** argv) {
  gq::worker::SayWhatACrashMeans();
  return gq::worker::RunCommandLine(std::vector<std::string>(argv + 1, argv + argc));
}
