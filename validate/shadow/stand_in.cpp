// libcuda.so.1 and libnvidia-ml.so.1: names only. Their functions are libgpuplan_shadow.so's.
extern const int gpuplan_shadow_stand_in;
const int gpuplan_shadow_stand_in = 1;
