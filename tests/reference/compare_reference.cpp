// compare_reference MODEL TOKENS LOGITS [N_CONTEXT]: compares another program's logits with the
// reference's. TOKENS holds int32, LOGITS float32 [n_tokens][n_vocab], both little-endian. Prints
// one row of a markdown table.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "reference/reference_model.h"

namespace {

using billow::Error;
using billow::ErrorCode;
using billow::reference::ReferenceModel;

template <class T>
std::vector<T> read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) throw Error(ErrorCode::kNotFound, "cannot read " + path);
  std::vector<T> values(static_cast<size_t>(in.tellg()) / sizeof(T));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(values.data()),
          static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

struct Difference {
  size_t n = 0;
  size_t n_same_best = 0;
  double kl_sum = 0;  // KL of the other program's distribution from ours
  double kl_max = 0;
  double largest = 0;  // largest difference of two logits
  double squares = 0;  // sum of squared differences
  double spread = 0;   // sum of squared deviations of our logits
};

double log_sum_exp(std::span<const float> x) {
  double largest = -INFINITY;
  for (const float value : x) largest = std::fmax(largest, static_cast<double>(value));
  double sum = 0;
  for (const float value : x) sum += std::exp(static_cast<double>(value) - largest);
  return largest + std::log(sum);
}

size_t best(std::span<const float> x) {
  size_t at = 0;
  for (size_t i = 1; i < x.size(); ++i) at = x[i] > x[at] ? i : at;
  return at;
}

void add(std::span<const float> theirs, std::span<const float> ours, Difference& d) {
  const double norm_theirs = log_sum_exp(theirs);
  const double norm_ours = log_sum_exp(ours);
  double mean = 0;
  for (const float value : ours) mean += static_cast<double>(value);
  mean /= static_cast<double>(ours.size());
  double kl = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double a = static_cast<double>(theirs[i]);
    const double b = static_cast<double>(ours[i]);
    kl += std::exp(a - norm_theirs) * ((a - norm_theirs) - (b - norm_ours));
    d.largest = std::fmax(d.largest, std::fabs(a - b));
    d.squares += (a - b) * (a - b);
    d.spread += (b - mean) * (b - mean);
  }
  d.n += 1;
  d.n_same_best += best(theirs) == best(ours);
  d.kl_sum += kl;
  d.kl_max = std::fmax(d.kl_max, kl);
}

Difference compare(const std::string& model_path, const std::vector<int32_t>& tokens,
                   const std::vector<float>& theirs, uint64_t n_context) {
  const auto file = billow::gguf::File::open(model_path);
  const ReferenceModel model(file, n_context);
  if (theirs.size() != tokens.size() * model.n_vocab()) {
    throw Error(ErrorCode::kInvalidInput, "the logits are not of these tokens and this model");
  }
  const std::vector<float> ours = model.logits(tokens);
  Difference d;
  for (size_t start = 0; start < ours.size(); start += model.n_vocab()) {
    add({&theirs[start], model.n_vocab()}, {&ours[start], model.n_vocab()}, d);
  }
  return d;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: compare_reference MODEL TOKENS LOGITS [N_CONTEXT]\n");
    return 2;
  }
  try {
    const uint64_t n_context = argc == 5 ? std::stoull(argv[4]) : 0;
    const Difference d =
        compare(argv[1], read_all<int32_t>(argv[2]), read_all<float>(argv[3]), n_context);
    const double n = static_cast<double>(d.n);
    std::printf("| %s | %zu | %.2e | %.2e | %.1f %% | %.2e | %.2e |\n", argv[1], d.n, d.kl_sum / n,
                d.kl_max, 100 * static_cast<double>(d.n_same_best) / n,
                std::sqrt(d.squares / d.spread), d.largest);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compare_reference: %s\n", error.what());
    return 1;
  }
}
