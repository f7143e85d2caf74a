// The table of architectures whose files have a projector: names and keys of Ollama, and those of a
// projector. Static data; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gguf/file.h"
#include "vision/embedded_projector.h"

namespace billow::vision {

struct Renaming {
  std::string_view from;
  std::string_view to;
};

// The value of a key that a file may lack.
struct DefaultNumber {
  std::string_view key;  // without "clip.vision."
  uint32_t number = 0;
  float real = 0.0f;  // instead of `number`, if it is not 0
};

struct EmbeddedFamily {
  std::string_view architecture;  // general.architecture
  std::string_view projector;     // clip.projector_type
  std::string_view activation;    // the flag of the projector that is true; empty: none
  std::array<float, 3> mean;      // if the file has none
  std::array<float, 3> std;
  // Beginnings of tensor names, of whole words between dots. All other names stay.
  std::span<const Renaming> tensors;
  std::span<const Renaming> layer_tensors;  // after "v.blk.N."
  // Keys without "ARCHITECTURE." and without "clip.vision.". The other keys "ARCHITECTURE.vision.X"
  // become "clip.vision.X".
  std::span<const Renaming> keys;
  std::span<const DefaultNumber> defaults;
  // Completes what the other columns cannot say. May be null.
  void (*complete)(const gguf::File& model, EmbeddedProjector& projector) = nullptr;
};

std::span<const EmbeddedFamily> embedded_families() noexcept;

// For EmbeddedFamily::complete: how some files differ from projectors. Each throws Error that names
// the file and the key or tensor.

// Qwen2.5-VL: the layers that see everything, as a period.
void complete_qwen25(const gguf::File& model, EmbeddedProjector& projector);
// Qwen3-VL and Qwen3.5: frames of the patch embedding, numbers of layers, limits of pixels.
void complete_qwen3(const gguf::File& model, EmbeddedProjector& projector);
// Mistral Small 3: the order of rows of Q and K.
void complete_mistral3(const gguf::File& model, EmbeddedProjector& projector);
// Llama 4: the patches of a token.
void complete_llama4(const gguf::File& model, EmbeddedProjector& projector);
// Gemma 4: limits around products in one tensor.
void complete_gemma4(const gguf::File& model, EmbeddedProjector& projector);
// LFM2-VL: limits of tokens.
void complete_lfm2(const gguf::File& model, EmbeddedProjector& projector);

}  // namespace billow::vision
