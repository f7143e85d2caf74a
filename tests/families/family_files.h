// Reads the tiny models of many families from tests/families/data and, if it exists, from
// ../shared/data/families: a GGUF file, tokens, and the logits of Hugging Face transformers for
// these tokens. Thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace billow::families {

// An array of float32, [n_rows][n_cols].
struct Matrix {
  size_t n_rows = 0;
  size_t n_cols = 0;
  std::vector<float> values;
};

struct Family {
  std::string name;
  std::string path;                    // of the GGUF file, with matrices in F32
  std::string architecture;            // general.architecture
  std::optional<double> kl_llama_cpp;  // mean KL of llama.cpp's logits from those of transformers
  std::vector<int32_t> tokens;         // at positions 0, 1, ...
  Matrix logits;                       // computed by transformers, [tokens.size()][vocabulary]
};

// Returns the path of ../shared/data/families. The folder may not exist.
std::string shared_folder();

// Returns the names of all families of both folders, sorted.
std::vector<std::string> family_names();

// Converts a family's name to a valid GoogleTest name.
std::string test_name(const testing::TestParamInfo<std::string>& info);

// Reads a family's files. If the model has BF16 matrices, writes a copy with the same values in F32
// below `scratch`. Throws std::runtime_error that names a missing or malformed file.
Family read_family(const std::string& name, const std::string& scratch);

// Reads a .npy file with a little-endian float32 array in row order. Throws std::runtime_error.
Matrix read_npy(const std::string& path);

}  // namespace billow::families
