// make_tiny_models DIR [--to-serve]: writes every tiny variant into DIR as NAME.gguf, for other
// programs. With --to-serve, writes the models for tests of the server, which need more memory for
// KV than for anything else.
#include <cstdio>
#include <exception>
#include <string>

#include "reference/tiny_encoder.h"
#include "reference/tiny_model.h"

namespace {

using billow::reference::TinyModelOptions;

void write_variants(const std::string& folder) {
  for (const auto& [name, options] : billow::reference::tiny_variants()) {
    const std::string path = folder + "/" + name + ".gguf";
    billow::reference::write_tiny_model(options, path);
    std::printf("%s\n", path.c_str());
  }
}

void write_served(const std::string& folder) {
  TinyModelOptions writer = {.type = billow::quant::Type::kQ8_0, .n_layers = 6, .n_head_kv = 4};
  writer.n_context = 4096;
  billow::reference::write_tiny_model(writer, folder + "/writer.gguf");
  TinyModelOptions large = writer;
  large.n_layers = 12;
  billow::reference::write_tiny_model(large, folder + "/large.gguf");
  TinyModelOptions vectors = writer;
  vectors.architecture = "qwen2";
  vectors.pooling = 3;
  billow::reference::write_tiny_model(vectors, folder + "/vectors.gguf");
  billow::reference::write_tiny_encoder({.n_context = 512, .n_labels = 1, .pooling = 4},
                                        folder + "/ranker.gguf");
  billow::reference::write_tiny_encoder({.type = billow::quant::Type::kQ8_0, .n_context = 512},
                                        folder + "/encoder.gguf");
}

}  // namespace

int main(int argc, char** argv) {
  const bool to_serve = argc == 3 && std::string(argv[2]) == "--to-serve";
  if (argc != 2 && !to_serve) {
    std::fprintf(stderr, "usage: make_tiny_models DIR [--to-serve]\n");
    return 2;
  }
  try {
    to_serve ? write_served(argv[1]) : write_variants(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_tiny_models: %s\n", error.what());
    return 1;
  }
}
