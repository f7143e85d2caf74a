// The tiny models of many families in tests/families/data and, where it is there, in
// ../shared/data/families: a GGUF file, tokens, and the logits that Hugging Face transformers gives
// for those tokens. Any thread.
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
  std::optional<double> kl_llama_cpp;  // mean KL of transformers' logits against llama.cpp's
  std::vector<int32_t> tokens;         // from position 0
  Matrix logits;                       // of transformers, [tokens.size()][vocabulary]
};

// The folder beside the project, whether it is there or not.
std::string shared_folder();

// The names of all families of both folders, sorted.
std::vector<std::string> family_names();

// A family's name as GoogleTest takes it.
std::string test_name(const testing::TestParamInfo<std::string>& info);

// A model whose matrices are in BF16 is written again with the same values in F32, below `scratch`.
// Throws std::runtime_error that names the file where one is missing or malformed.
Family read_family(const std::string& name, const std::string& scratch);

// A little-endian array of float32 by rows in a .npy file. Throws std::runtime_error.
Matrix read_npy(const std::string& path);

}  // namespace billow::families
