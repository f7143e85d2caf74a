// Measures how long llama.cpp's grammar takes to compute the tokens that may come next. The
// counterpart for Billow is billow_masks. Not part of the build. If LLAMA is the folder of a built
// llama.cpp, build and run it with:
//   g++ -O2 -std=c++17 -ILLAMA/src/include -ILLAMA/src/ggml/include -ILLAMA/src/common
//     -ILLAMA/src/vendor llama_masks.cpp -LLLAMA/build/bin -lllama -lllama-common -lggml-base
//     -Wl,-rpath,LLAMA/build/bin -o llama_masks
//   billow_masks --write DIR MODEL.gguf; llama_masks MODEL.gguf DIR/*.schema DIR/*.gbnf
// The folder has a text for each grammar, with the ending .txt. The text follows the grammar.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "json-schema-to-grammar.h"
#include "llama.h"

namespace {

using Clock = std::chrono::steady_clock;

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

double micros(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double at(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void measure(const llama_vocab* vocab, const std::string& path) {
  const size_t dot = path.rfind('.');
  const std::string text = read(path.substr(0, dot) + ".txt");
  const auto start = Clock::now();
  std::string gbnf = read(path);
  if (path.substr(dot) == ".schema") gbnf = json_schema_to_grammar(common_json::parse(gbnf), true);
  llama_sampler* grammar = llama_sampler_init_grammar(vocab, gbnf.c_str(), "root");
  if (grammar == nullptr) return void(std::printf("  %s: refused\n", path.c_str()));
  const double compiled = micros(Clock::now() - start);

  std::vector<llama_token> tokens(text.size() + 8);
  tokens.resize(static_cast<size_t>(llama_tokenize(vocab, text.data(),
                                                   static_cast<int>(text.size()), tokens.data(),
                                                   static_cast<int>(tokens.size()), false, false)));
  std::vector<llama_token_data> all(static_cast<size_t>(llama_vocab_n_tokens(vocab)));
  std::vector<double> masks;
  for (const llama_token token : tokens) {
    for (size_t i = 0; i < all.size(); ++i) all[i] = {static_cast<llama_token>(i), 0.0f, 0.0f};
    llama_token_data_array array{all.data(), all.size(), -1, false};
    const auto begin = Clock::now();
    llama_sampler_apply(grammar, &array);
    masks.push_back(micros(Clock::now() - begin));
    if (array.data[token].logit != 0.0f) break;  // the text leaves the grammar
    llama_sampler_accept(grammar, token);
  }
  std::sort(masks.begin(), masks.end());
  std::printf("  %-24s %8.2f ms %6zu masks %10.1f %10.1f %10.1f us\n",
              path.substr(path.rfind('/') + 1).c_str(), compiled / 1000, masks.size(),
              at(masks, 0.5), at(masks, 0.99), masks.back());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("usage: llama_masks MODEL.gguf GRAMMAR...\n", stderr), 2;
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = llama_model_load_from_file(argv[1], params);
  if (model == nullptr) return std::fputs("the model does not load\n", stderr), 1;
  std::printf("%s\n  %-24s %11s %12s %10s %10s %10s\n", argv[1], "grammar", "compile", "", "median",
              "p99", "max");
  for (int i = 2; i < argc; ++i) measure(llama_model_get_vocab(model), argv[i]);
  llama_model_free(model);
}
