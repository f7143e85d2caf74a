// A family of vision-language models whose part for pictures the converter supports: its classes in
// Hugging Face's library, its projector type, its tensor names and its metadata. The file is what
// arch/vision reads: a picture encoder with a projector, which llama.cpp calls mmproj. Each family
// is data in a file of projectors/. projector_families.cpp lists the families. Plain data,
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "convert/key_writer.h"
#include "convert/model_config.h"
#include "convert/tensor_rules.h"

namespace billow::convert {

// Input of a family's functions.
struct ProjectorModel {
  ModelConfig whole;      // config.json without regard to its parts
  ModelConfig text;       // config.json with the fields of the text part over the others
  ModelConfig vision;     // vision_config over the defaults of its class
  ModelConfig processor;  // preprocessor_config.json and processor_config.json
  std::function<void(const std::string& line)> note;  // never empty
};

struct ProjectorSizes {
  uint32_t image_size = 0;  // pixels of a side
  uint32_t patch_size = 0;  // pixels of a side
  uint32_t n_embd = 0;
  uint32_t n_ff = 0;
  uint32_t n_layers = 0;
  uint32_t n_heads = 0;
  uint32_t merge = 1;  // patches per token, in each direction
  double norm_epsilon = 0;
};

struct ProjectorFamily {
  std::span<const std::string_view> classes;  // of the whole model
  std::string_view projector;                 // clip.projector_type
  std::array<TensorRules, 2> rules;           // the first rules that match a name apply
  ProjectorSizes (*sizes)(const ProjectorModel& model);
  // Writes the keys that not all families have. Refuses values that GGUF cannot express.
  void (*keys)(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys);
  std::string_view output;  // the tensor whose rows are those of the text model
  // Defaults of Hugging Face's library for fields that vision_config omits: a JSON object.
  std::string_view defaults = "{}";
  std::string_view activations = "gelu_pytorch_tanh";  // of the feed-forward part
  uint32_t resample = 3;  // the filter that Billow resizes with, as a number of Pillow
  std::string_view type_key = "projector_type";
  std::string_view vision_type = "";  // vision_config's model_type; empty: any
  bool keeps_patches_in_f32 = false;  // the embedding of patches
  bool keeps_output_in_f16 = false;   // `output`, in all files
  bool turns_output = false;          // the columns of `output` are those of the text model
  bool has_break = false;             // the embedding of [IMG_BREAK] is a part of the file
  // Returns the tensor name that the rules expect.
  std::string (*rename)(const ProjectorModel& model, std::string name) = nullptr;
};

// Returns all families, in the order of the documents.
std::span<const ProjectorFamily* const> projector_families() noexcept;
// Returns the family of a class whose vision_config has this model_type, or null if there is none.
const ProjectorFamily* find_projector_family(std::string_view class_name,
                                             std::string_view vision_type) noexcept;

}  // namespace billow::convert
