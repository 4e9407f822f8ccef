// Which GPUs this process sees.
#pragma once

namespace gpuplan::shadow {

/// GPUs that this process sees: the session's, chosen and ordered by CUDA_VISIBLE_DEVICES as CUDA reads it.
int visible_devices();
/// The session's number of the visible device `device`.
int physical_device(int device);
/// Makes `device` the calling thread's; false where there is none of that number.
bool set_current_device(int device);

}  // namespace gpuplan::shadow
