// Reads checkpoints with quantised weights ("quantization_config" of config.json). FP8, the
// integers of compressed-tensors, GPTQ and ModelOpt's FP8 become floats, like in llama.cpp's
// converter. NVFP4 becomes GGUF's NVFP4 without loss. Not thread-safe.
#pragma once

#include <unordered_map>
#include <vector>

#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "convert/weights.h"

namespace billow::convert {

// The factors of an NVFP4 tensor in addition to its group scales: one for the weights, and one that
// the input was multiplied with when the model was quantised.
struct Nvfp4Scales {
  float weight = 1;
  float input = 1;
};

// The weights that stay quantised.
struct QuantisedCheckpoint {
  std::unordered_map<const SafeTensor*, Nvfp4Scales> nvfp4;  // tensors of dtype "NVFP4"

  // Returns whether all rows of the tensor come from such weights.
  bool keeps(const PlannedTensor& tensor) const;
  // Adds NAME.scale and NAME.input_scale for each tensor of `plan` whose scales differ from 1.
  void add_scales(std::vector<PlannedTensor>& plan) const;
};

// Replaces the quantised weights and their scales in `weights`. Puts float or NVFP4 tensors under
// the plain names. Leaves MXFP4 to the model's family. Throws Error kUnsupported that names an
// unsupported quantisation, and kInvalidInput for tensors that do not fit together. REQUIRES:
// `weights` outlives its readers.
QuantisedCheckpoint open_quantised(const Sources& sources, Weights& weights);

}  // namespace billow::convert
