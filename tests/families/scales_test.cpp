// Tests separate scales of weights, which NVFP4 files have, on a model of every family. With all
// matrices doubled and scales of one half, no bit of the logits changes.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/tiny_engine.h"
#include "families/family_files.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::families {
namespace {

std::vector<std::byte> twice(std::span<const std::byte> floats) {
  std::vector<std::byte> out(floats.begin(), floats.end());
  for (size_t i = 0; i + sizeof(float) <= out.size(); i += sizeof(float)) {
    float value = 0.0f;
    std::memcpy(&value, &out[i], sizeof value);
    value *= 2.0f;
    std::memcpy(&out[i], &value, sizeof value);
  }
  return out;
}

std::string scale_of(std::string_view weight) {
  return std::string(weight.substr(0, weight.rfind('.'))) + ".scale";
}

// Returns the file with scales for all matrices except those in `without`.
std::vector<std::byte> scaled(const gguf::File& file, const std::set<std::string>& without) {
  gguf::Writer writer;
  for (const gguf::Entry& entry : file.metadata()) writer.set(entry.key, entry.value);
  std::vector<std::vector<std::byte>> kept;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims);
    const std::string name(tensor.name);
    const bool is_scaled = tensor.n_dims > 1 && name.ends_with(".weight") &&
                           tensor.type == static_cast<uint32_t>(quant::Type::kF32) &&
                           file.find_tensor(scale_of(name)) == nullptr && !without.contains(name);
    if (!is_scaled) {
      writer.add_tensor(name, tensor.type, shape, tensor.data);
      continue;
    }
    writer.add_tensor(name, tensor.type, shape, kept.emplace_back(twice(tensor.data)));
    const std::vector<float> halves(tensor.shape[2], 0.5f);
    const auto bytes = std::as_bytes(std::span(halves));
    const std::array<uint64_t, 1> n = {halves.size()};
    writer.add_tensor(scale_of(name), tensor.type, n,
                      kept.emplace_back(bytes.begin(), bytes.end()));
  }
  return writer.to_bytes();
}

class ScaledFamily : public testing::TestWithParam<std::string> {};

TEST_P(ScaledFamily, HasTheSameLogits) {
  const Family family = read_family(GetParam(), BILLOW_FLOAT_FAMILIES);
  const gguf::File file = gguf::File::open(family.path);
  engine::Engine plain(family.path, {.n_threads = 1});
  const std::vector<float> expected = engine::logits_of(plain, family.tokens);
  std::set<std::string> refused;  // tables, and weights that no product uses
  for (;;) {
    const std::vector<std::byte> bytes = scaled(file, refused);
    try {
      engine::Engine engine(gguf::File::parse(bytes, "scaled.gguf"), {.n_threads = 1});
      EXPECT_EQ(engine::logits_of(engine, family.tokens), expected);
      break;
    } catch (const Error& error) {
      const std::string message = error.what();
      const std::string begin = "tensor ";
      const size_t at = message.find(begin);
      const size_t end = message.find(" has a scale, which");
      ASSERT_TRUE(at < end && end != message.npos) << message;
      const std::string name = message.substr(at + begin.size(), end - at - begin.size());
      ASSERT_TRUE(refused.insert(name).second) << message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScaledFamily, testing::ValuesIn(family_names()), test_name);

}  // namespace
}  // namespace billow::families
