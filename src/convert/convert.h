// Makes a GGUF file of a model as Hugging Face's library keeps it: safetensors, config.json and the
// vocabulary's files. Encoders and language models of the families in the tables are known. Names
// and keys are those of llama.cpp's converter, so that its file and ours load alike. Everything
// about the model is checked before the first byte is written. One conversion is one thread's;
// several may run at once.
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

// The type for weights by its name, of any case: F32, F16, BF16 or Q8_0; nullopt for another.
std::optional<quant::Type> find_weight_type(std::string_view name);

struct Options {
  std::string name;  // general.name
  // Of matrices. Norms, biases, and the tables of positions and token types stay in F32, and rows
  // that Q8_0 cannot hold become F16.
  quant::Type weight_type = quant::Type::kF16;
  double adapter_scale = 1.0;  // of an adapter: a factor for all that it adds
};

struct Listener {
  std::function<void(const std::string& line)> note;  // what the user should know of the choices
  // After each piece. What it throws ends the conversion.
  std::function<void(uint64_t n_done, uint64_t n_total)> progress;
};

// Hands the GGUF file to `sink`, piece after piece; memory is bounded by a piece and the
// vocabulary, whatever the size of the weights. Throws Error in one line that names the file or the
// tensor.
void convert(std::span<const SourceFile> files, const Options& options, const Listener& listener,
             const gguf::Writer::Sink& sink);

// The same for an adapter (LoRA) of the peft library: adapter_config.json and its safetensors. Of
// `base`, the model that it was made for, only config.json is read. The file is one of
// src/arch/adapter.h. Throws Error also for an adapter that GGUF cannot express.
void convert_adapter(std::span<const SourceFile> files, std::span<const SourceFile> base,
                     const Options& options, const Listener& listener,
                     const gguf::Writer::Sink& sink);
// The same where the base is there as a GGUF file: its keys are read in place of config.json.
void convert_adapter(std::span<const SourceFile> files, const gguf::File& base,
                     const Options& options, const Listener& listener,
                     const gguf::Writer::Sink& sink);

}  // namespace billow::convert
