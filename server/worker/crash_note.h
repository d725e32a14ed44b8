// A last word of a program that crashes.
#pragma once

namespace gq::worker {

// From now on a signal that ends the program because of a fault (SIGSEGV, SIGFPE, SIGBUS, SIGILL,
// SIGABRT) first writes to standard error what that means for the user; the program still dies of
// the signal. ONNX Runtime computes users' models in this process, and some of them, such as an
// integer division that overflows, make it crash. Programs built with a sanitizer leave it to that.
void SayWhatACrashMeans();

}  // namespace gq::worker
