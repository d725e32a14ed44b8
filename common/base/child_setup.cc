#include "common/base/child_setup.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "common/base/text.h"

namespace gq::base {

std::vector<char*> PointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void BecomeGroupLeader() {
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::signal(signal, SIG_DFL);
}

void ReportExecError(int descriptor) {
  const int error = errno;
  (void)!::write(descriptor, &error, sizeof error);
  ::_exit(kExecFailed);
}

int ReadExecError(int descriptor) {
  int error = 0;
  ssize_t n;
  do {
    n = ::read(descriptor, &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  return n == sizeof error ? error : 0;
}

std::string DescribeWaitStatus(int status) {
  if (WIFEXITED(status)) return StrCat("ended with status ", WEXITSTATUS(status));
  const char* name = ::sigabbrev_np(WTERMSIG(status));
  return StrCat("was ended by signal SIG", name != nullptr ? name : "?");
}

}  // namespace gq::base
