#include <string>
#include <vector>

#include "client/cli/cli.h"

int main(int argc, char** argv) {
  return gq::cli::RunCli(std::vector<std::string>(argv + 1, argv + argc));
}
