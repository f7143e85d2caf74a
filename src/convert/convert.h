// Converts a model from Hugging Face's layout to a GGUF file. The input is safetensors, config.json
// and the vocabulary files. Supported are the encoders and language models in the family tables.
// Names and keys equal those of llama.cpp's converter, so both files load alike. The converter
// validates the whole model, except the numbers of tensors, before it writes the first byte. A
// number that is NaN, infinite or too large for its type is an Error. One thread runs a conversion;
// several conversions may run at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "convert/sources.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::convert {

// Returns the weight type with this name: F32, F16, BF16 or Q8_0. Ignores case. Returns nullopt for
// other names.
std::optional<quant::Type> find_weight_type(std::string_view name);

// Which part of a model becomes a file.
enum class Part : uint8_t {
  kText,      // the language model or the encoder
  kPictures,  // the projector, the part of a vision-language model that reads pictures
};

struct Options {
  std::string name;  // general.name
  // Type of matrices. Norms, biases, position tables and token type tables stay in F32. Rows whose
  // length does not fit Q8_0 become F16.
  // Projectors have no Q8_0: their matrices become F16.
  quant::Type weight_type = quant::Type::kF16;
  Part part = Part::kText;
  bool with_projector = false;  // kText: the caller also converts the projector
  double adapter_scale = 1.0;   // adapters only: a factor for the adapter's whole effect
};

struct Listener {
  std::function<void(const std::string& line)> note;  // choices that the user should know
  // Reports progress after each piece. An exception from this function ends the conversion.
  std::function<void(uint64_t n_done, uint64_t n_total)> progress;
};

// Converts a model and passes the GGUF file to `sink` piece by piece. Memory is limited to one
// piece and the vocabulary, whatever the size of the weights. Throws Error with one line that names
// the file or the tensor.
void convert(std::span<const SourceFile> files, const Options& options, const Listener& listener,
             const gguf::Writer::Sink& sink);

// Returns whether convert() can make a projector of the model: config.json has a vision part of a
// known class, and the weights have tensors of it. Reads config.json and the headers of the
// weights. Throws Error if they are malformed.
bool has_projector(std::span<const SourceFile> files);

// Converts a LoRA adapter of the peft library: adapter_config.json and its safetensors. `base` is
// the model that the adapter was trained for; only its config.json is read. src/arch/adapter.h
// describes the file. Throws Error also for an adapter that GGUF cannot express.
void convert_adapter(std::span<const SourceFile> files, std::span<const SourceFile> base,
                     const Options& options, const Listener& listener,
                     const gguf::Writer::Sink& sink);
// Converts an adapter whose base model is a GGUF file. The keys of that file replace config.json.
void convert_adapter(std::span<const SourceFile> files, const gguf::File& base,
                     const Options& options, const Listener& listener,
                     const gguf::Writer::Sink& sink);

}  // namespace billow::convert
