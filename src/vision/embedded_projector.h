// The projector within a model's file. Files of Ollama's library have the tensors of the text and
// of the picture encoder together, with names and keys of Ollama. A table has a row for each
// architecture. From the header of such a file it follows how the file of a projector ("mmproj")
// would look: its keys and its tensors. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "gguf/writer.h"

namespace billow::vision {

struct EmbeddedTensor {
  std::string name;  // in a projector
  uint32_t type = 0;
  std::vector<uint64_t> shape;
  // The tensor of the model's file with the data.
  const gguf::TensorInfo* source = nullptr;
  // Writes data that the model's file does not have in this form. REQUIRES: the source has data,
  // and `out` has exactly the tensor's bytes. Empty: the data is the source's.
  std::function<void(std::span<std::byte> out)> make = {};

  uint64_t n_bytes() const;  // of its data
};

struct EmbeddedProjector {
  gguf::Writer keys;
  std::vector<EmbeddedTensor> tensors;
};

// Returns whether the file is a language model of an architecture in the table and has tensors of a
// picture encoder.
bool has_embedded_projector(const gguf::File& model);

// Returns the projector within the model's file, which must outlive the result. The file may be
// open without data. Throws Error that names the file and the key or tensor: kUnsupported if
// has_embedded_projector() is false and for what Billow does not support; kInvalidInput for values
// that do not fit together.
EmbeddedProjector embedded_projector(const gguf::File& model);

}  // namespace billow::vision
