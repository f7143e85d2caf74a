// Reads the tiny picture encoders of ../shared/data/vision, if the folder exists, and runs
// encoders. Source of the recorded pixels and features: Hugging Face transformers 5.12.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "arch/vision/picture_encoder.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "image/picture.h"
#include "kernels/kernel_table.h"
#include "nn/packed_weights.h"
#include "quant/type.h"
#include "vision/pixels.h"
#include "vision/rule.h"

namespace billow::pictures {

struct Family {
  std::string name;
  uint64_t min_pixels = 0;  // where the recording has other limits than the file
  uint64_t max_pixels = 0;
};

void PrintTo(const Family& family, std::ostream* out);

const std::vector<Family>& families();
// Converts a family's name to a valid GoogleTest name.
std::string test_name(const testing::TestParamInfo<Family>& info);

// Returns an empty string if the folder is there, or what is missing.
std::string missing_data();
std::string folder();

gguf::File open(const Family& family);
vision::Rule rule_of(const Family& family, const gguf::File& file);
std::vector<float> npy_floats(const std::string& path);

// Returns the recorded pixels as patches in the order of the plan.
vision::Pixels recorded_pixels(const Family& family, const vision::Rule& rule);
vision::Pixels pixels_of_picture(const vision::Rule& rule);
image::Picture drawn(image::Size size);  // any picture

// What to change in a file.
struct Change {
  std::string drop_key = {};
  std::string drop_tensor = {};
  std::string turn_tensor = {};    // swaps the tensor's first and last dimension
  std::string retype_tensor = {};  // changes the tensor's type to one that no weight can have
  std::function<std::string(const std::string&)> rename = {};
  std::function<void(gguf::Writer&)> add = {};  // sets keys and adds tensors
};
std::vector<std::byte> changed(const gguf::File& file, const Change& change);
// Returns the values of a tensor in F32 as bytes of another format.
std::vector<std::byte> encoded(const gguf::TensorInfo& tensor, quant::Type type);
// Returns the file with all matrices in this format, if their rows have whole groups.
std::vector<std::byte> with_matrices(const gguf::File& file, quant::Type type);

// An encoder with its packed weights.
struct Loaded {
  std::unique_ptr<nn::PackedWeights> packed;
  std::unique_ptr<arch::PictureEncoder> encoder;
};
Loaded load(const gguf::File& file, const kernels::KernelTable& kernels, bool packs = true);

// Runs all stages and returns the rows. Expects that the arena stays within scratch_bytes().
std::vector<float> run(const arch::PictureEncoder& encoder, const kernels::KernelTable& kernels,
                       const arch::PictureBatch& batch, int n_threads = 1);
std::vector<float> run(const arch::PictureEncoder& encoder, const kernels::KernelTable& kernels,
                       const vision::Pixels& pixels, int n_threads = 1);

// The root mean square of the difference over that of the expected values.
double relative_difference(const std::vector<float>& values, const std::vector<float>& expected);

}  // namespace billow::pictures
