// A program's library that calls them.
extern "C" {
int cusolverDnOfALaterRelease();
const char* cusolverDnGetErrorString();
int cuSomething();
int cusolverDnNobodyHas() __attribute__((weak));

int call_vendor();
int call_vendor_by_pointer();
const char* call_text();
int call_namesake();
int has_weak();
}

namespace {
int (*volatile by_pointer)() = &cusolverDnOfALaterRelease;  // filled in by the loader
}

int call_vendor() { return cusolverDnOfALaterRelease(); }
int call_vendor_by_pointer() { return by_pointer(); }
const char* call_text() { return cusolverDnGetErrorString(); }
int call_namesake() { return cuSomething(); }
int has_weak() { return cusolverDnNobodyHas != nullptr ? 1 : 0; }
