// A library that has nothing to do with CUDA, but a function named as if it had.
extern "C" int cuSomething();
extern "C" int cuSomething() { return 5; }
