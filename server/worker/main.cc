#include <string>
#include <vector>

#include "server/worker/command_line.h"

int main(int argc, char** argv) {
  return gq::worker::RunCommandLine(std::vector<std::string>(argv + 1, argv + argc));
}
