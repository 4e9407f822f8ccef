// libcuda.so.1 and libnvidia-ml.so.1: names only. Their functions are libgpuplan_shadow.so's.
extern const int kGpuplanShadowStandIn;
const int kGpuplanShadowStandIn = 1;
