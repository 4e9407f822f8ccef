// A library by the name of one of NVIDIA's, with a function that the shadow runtime does not have.
extern "C" int cusolverDnOfALaterRelease();
extern "C" int cusolverDnOfALaterRelease() { return 77; }
extern "C" const char* cusolverDnGetErrorString();
extern "C" const char* cusolverDnGetErrorString() { return "the vendor's"; }
