// Settings of the sanitizers, compiled into every program of a sanitizer build so that they hold
// however the program is started.

extern "C" {

const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:strict_init_order=1";
}

const char* __ubsan_default_options() { return "print_stacktrace=1"; }

const char* __tsan_default_options() { return "second_deadlock_stack=1:history_size=4"; }

// Libraries of the distribution that are built without ThreadSanitizer: it cannot see how they
// synchronize, so what they report about their own memory says nothing.
const char* __tsan_default_suppressions() {
  return "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libprotobuf.so\n"
         "called_from_lib:libonnxruntime.so\n"
         "race:libabsl_*\n";
}

// Process-wide tables of these libraries live until the end on purpose.
const char* __lsan_default_suppressions() {
  return "leak:libgrpc.so\n"
         "leak:libonnxruntime.so\n";
}
}  // extern "C"
