// Tests damaged files of every family: a key or a tensor is missing, a number is invalid, a matrix
// has another shape or format. The engine refuses such a file with a one-line error or runs it, but
// never crashes. The changes are random, with a seed per family.
// BILLOW_DAMAGES is the number of changes per family (12), BILLOW_DAMAGE_SEED the seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/changed_file.h"
#include "engine/tiny_engine.h"
#include "families/family_files.h"

namespace billow::families {
namespace {

using engine::Change;

unsigned setting(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

struct Damage {
  Change change;
  std::string what;  // description for messages
};

class Damages {
 public:
  Damages(const gguf::File& file, const std::string& family)
      : file_(file),
        random_(setting("BILLOW_DAMAGE_SEED", 1) +
                static_cast<unsigned>(std::hash<std::string>{}(family))) {
    const std::string prefix = std::string(*file.get_string("general.architecture")) + ".";
    for (const gguf::Entry& entry : file.metadata())
      if (entry.key.starts_with(prefix)) keys_.emplace_back(entry.key);
  }

  Damage next() {
    switch (pick(6)) {
      case 0: {
        const std::string key = keys_[pick(keys_.size())];
        return {{.drop_key = key}, "without the key " + key};
      }
      case 1: {
        const std::string tensor = any_tensor();
        return {{.drop_tensor = tensor}, "without the tensor " + tensor};
      }
      case 2: {
        const std::string tensor = any_tensor();
        return {{.reshape_tensor = tensor}, "with the tensor " + tensor + " turned"};
      }
      case 3: {
        const std::string tensor = any_tensor();
        return {{.retype_tensor = tensor}, "with the tensor " + tensor + " in another format"};
      }
      default:
        return other_number();
    }
  }

 private:
  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  std::string any_tensor() {
    return std::string(file_.tensors()[pick(file_.tensors().size())].name);
  }

  // Returns a change of one key of the architecture to a number that no such model has.
  Damage other_number() {
    const std::string key = keys_[pick(keys_.size())];
    const gguf::Value* value = file_.find(key);
    if (value->type == gguf::ValueType::kF32) {
      constexpr std::array<float, 6> kFloats = {0.0f, -1.0f, 1e30f, 1e-30f, NAN, INFINITY};
      const float number = kFloats[pick(kFloats.size())];
      return {{.set = [key, number](gguf::Writer& w) { w.set_float(key, number); }},
              key + " = " + std::to_string(number)};
    }
    const uint64_t old = gguf::as_uint(*value).value_or(2);
    const std::array<uint64_t, 10> numbers = {0,       1,       3,          old + 1,    old - 1,
                                              old * 2, old / 2, 0x7FFFFFFF, 0xFFFFFFFF, random_()};
    const auto number = static_cast<uint32_t>(numbers[pick(numbers.size())]);
    return {{.set = [key, number](gguf::Writer& w) { w.set_uint(key, number); }},
            key + " = " + std::to_string(number)};
  }

  const gguf::File& file_;
  std::mt19937 random_;
  std::vector<std::string> keys_;
};

// Loads the file and evaluates a few tokens. Returns the error, or an empty string on success.
std::string tried(const std::vector<std::byte>& bytes) {
  try {
    engine::Engine engine(gguf::File::parse(bytes, "changed.gguf"),
                          {.n_threads = 1, .max_context = 64, .memory_budget = size_t{1} << 30});
    std::vector<int32_t> tokens(9);
    std::iota(tokens.begin(), tokens.end(), 1);
    const auto sequence = engine.start(tokens, engine::greedy(3));
    while (!engine.idle()) engine.step();
    return sequence->error();
  } catch (const Error& error) {
    return error.what();
  }
}

class DamagedFamily : public testing::TestWithParam<std::string> {};

TEST_P(DamagedFamily, IsRefusedWithOneLineErrorOrRuns) {
  const Family family = read_family(GetParam(), BILLOW_FLOAT_FAMILIES);
  const gguf::File file = gguf::File::open(family.path);
  ASSERT_EQ(tried(engine::changed(file, {})), "");
  Damages damages(file, family.name);
  for (unsigned i = 0; i < setting("BILLOW_DAMAGES", 12); ++i) {
    const Damage damage = damages.next();
    SCOPED_TRACE(damage.what);
    const std::string message = tried(engine::changed(file, damage.change));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 1000u) << message;
  }
}

// Returns whether some models of an architecture lack this tensor. A file does not say whether its
// model should have the tensor.
bool is_optional(std::string_view tensor) {
  constexpr std::array<std::string_view, 14> kEnds = {
      ".bias",
      "output.weight",               // if missing, token_embd is used
      "rope_freqs.weight",           // if missing, positions are not scaled
      ".layer_output_scale.weight",  // Gemma 4
      ".ffn_down_exps.scale",        // Gemma 4
      ".attn_v.weight",              // Gemma 4: if missing, keys are used
      ".ffn_norm.weight",            // StableLM 2 12B
      ".attn_norm_2.weight",         // only Falcon 40B has this tensor
      ".attn_q_norm.weight",         // GLM 4.5 Air lacks this tensor
      ".attn_k_norm.weight",
      ".time_mix_ln.weight",  // ARWKV 7 lacks this tensor
      ".time_mix_v0.weight",  // unused in layer 0
      ".time_mix_v1.weight",
      ".time_mix_v2.weight",
  };
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return tensor.ends_with(end); });
}

TEST_P(DamagedFamily, IsRefusedWithoutARequiredTensor) {
  const Family family = read_family(GetParam(), BILLOW_FLOAT_FAMILIES);
  const gguf::File file = gguf::File::open(family.path);
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::string name(tensor.name);
    const std::string message = tried(engine::changed(file, {.drop_tensor = name}));
    EXPECT_TRUE(message.find("tensor ") != std::string::npos || is_optional(name))
        << name << ": " << message;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedFamily, testing::ValuesIn(family_names()), test_name);

}  // namespace
}  // namespace billow::families
