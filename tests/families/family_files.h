// The tiny models of many families in ../shared/data/families: a GGUF file in F32, tokens, and the
// logits that Hugging Face transformers gives for those tokens. Reads only; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
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
  std::string path;             // of the GGUF file
  std::string architecture;     // general.architecture
  double kl_llama_cpp = 0.0;    // mean KL of transformers' logits against llama.cpp's
  std::vector<int32_t> tokens;  // from position 0
  Matrix logits;                // of transformers, [tokens.size()][vocabulary]
};

// The folder, whether it is there or not.
std::string families_folder();

// The names of all families, sorted; empty where the folder is not there.
std::vector<std::string> family_names();

// Throws std::runtime_error that names the file where one is missing or malformed.
Family read_family(const std::string& name);

// A little-endian array of float32 by rows in a .npy file. Throws std::runtime_error.
Matrix read_npy(const std::string& path);

}  // namespace billow::families
