// Makes invalid model files for tests, and returns the errors of loading them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "gguf/writer.h"

namespace billow::engine {

struct Change {
  std::string drop_key = {};
  std::string drop_tensor = {};
  std::string reshape_tensor = {};  // swaps the tensor's rows and columns
  std::string retype_tensor = {};   // changes the tensor's type to I16, with zeros as values
  std::function<void(gguf::Writer&)> set = {};
};

// Returns the bytes of the file with the change.
inline std::vector<std::byte> changed(const gguf::File& file, const Change& change) {
  gguf::Writer writer;
  for (const gguf::Entry& entry : file.metadata())
    if (entry.key != change.drop_key) writer.set(entry.key, entry.value);
  if (change.set) change.set(writer);
  std::vector<std::byte> zeros;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.name == change.drop_tensor) continue;
    std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims);
    if (tensor.name == change.reshape_tensor) std::swap(shape.front(), shape.back());
    if (tensor.name == change.retype_tensor) {
      constexpr uint32_t kI16 = 25;  // a type that no matrix can have
      zeros.resize(tensor.n_elements() * 2);
      writer.add_tensor(tensor.name, kI16, shape, zeros);
    } else {
      writer.add_tensor(tensor.name, tensor.type, shape, tensor.data);
    }
  }
  return writer.to_bytes();
}

// Returns the error of creating a LoadedModel from the changed file; empty if there is no error.
// Expects the error to be one line that names the file.
template <typename LoadedModel>
std::string refusal_of(std::span<const std::byte> bytes, const Change& change) {
  const std::vector<std::byte> made = changed(gguf::File::parse(bytes, "whole.gguf"), change);
  try {
    LoadedModel model(gguf::File::parse(made, "changed.gguf"), {.n_threads = 1});
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find("changed.gguf"), std::string::npos) << message;
    return message;
  }
  return "";
}

inline bool names(const std::string& message, const std::string& what) {
  return message.find(what) != std::string::npos;
}

}  // namespace billow::engine
