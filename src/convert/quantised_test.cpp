// Quantised checkpoints: the decoded weights, and the errors for unsupported ones.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "convert/quantised_checkpoint.h"
#include "convert/sample_model.h"
#include "quant/type.h"

namespace billow::convert {
namespace {

struct RawTensor {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

template <typename Number>
std::string raw(const std::vector<Number>& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

RawTensor floats(const std::vector<uint64_t>& shape, const std::vector<float>& values) {
  return {"F32", shape, raw(values)};
}
RawTensor words(const std::vector<uint64_t>& shape, const std::vector<uint32_t>& values) {
  return {"I32", shape, raw(values)};
}
RawTensor bytes_of(const std::string& dtype, const std::vector<uint64_t>& shape,
                   const std::vector<uint8_t>& values) {
  return {dtype, shape, raw(values)};
}

class Quantised : public testing::Test {
 protected:
  // Opens the checkpoint with `tensors` and `config`.
  void open() {
    Json header = Json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    model.texts["model.safetensors"] = with_header(header.dump(), data);
    model.config = {{"quantization_config", config}};
    files = model.files();
    const Sources sources(files);
    weights.emplace(sources);
    checkpoint = open_quantised(sources, *weights);
  }

  std::string refusal() {
    try {
      open();
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      return error.what();
    }
    return "";
  }

  std::vector<float> values_of(const std::string& name) {
    const SafeTensor* tensor = weights->find(name);
    if (tensor == nullptr || tensor->dtype != "F32") return {};
    std::vector<float> values(tensor->n_bytes / sizeof(float));
    weights->read(*tensor, 0, std::as_writable_bytes(std::span(values)));
    // A range that begins and ends within rows gives the same values.
    if (values.size() > 2) {
      std::vector<float> part(values.size() - 2);
      weights->read(*tensor, sizeof(float), std::as_writable_bytes(std::span(part)));
      EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + 1));
    }
    return values;
  }

  SampleModel model;
  Json config;
  std::map<std::string, RawTensor> tensors;
  std::vector<SourceFile> files;
  std::optional<Weights> weights;
  QuantisedCheckpoint checkpoint;
};

// In FP8 with 4 exponent bits, 0x38 is 1, 0x40 is 2, 0xB8 is -1, and 0x01 is 2^-9.
const std::vector<uint8_t> kCodes = {0x38, 0x40, 0xB8, 0x01, 0x00, 0x7E};
const std::vector<float> kNumbers = {1, 2, -1, 1 / 512.0F, 0, 448};

TEST_F(Quantised, Fp8HasBlockScales) {
  config = {{"quant_method", "fp8"}, {"weight_block_size", {1, 2}}};
  tensors["a.weight"] = bytes_of("F8_E4M3", {2, 3}, kCodes);
  tensors["a.weight_scale_inv"] = floats({2, 2}, {2, 10, 0.5, 3});
  tensors["a.activation_scale"] = floats({}, {1});
  open();
  EXPECT_EQ(values_of("a.weight"), (std::vector<float>{2, 4, -10, 1 / 1024.0F, 0, 1344}));
  EXPECT_EQ(weights->left(), (std::vector<std::string>{"a.weight"}));
  config["weight_block_size"] = {2, 2};
  EXPECT_NE(refusal().find("'a.weight_scale_inv': its shape does not fit"), std::string::npos);
  config["weight_block_size"] = {0, 2};
  EXPECT_NE(refusal().find("'a.weight_scale_inv': it does not fit blocks"), std::string::npos);
  tensors.erase("a.weight");
  EXPECT_EQ(refusal(), "tensor 'a.weight' is missing");
}

TEST_F(Quantised, Fp8MayHaveOneScale) {
  config = {{"quant_method", "fp8"}};
  tensors["a.weight"] = bytes_of("F8_E5M2", {2, 2}, {0x3C, 0x40, 0xBC, 0x00});
  tensors["a.weight_scale_inv"] = floats({}, {3});
  open();
  EXPECT_EQ(values_of("a.weight"), (std::vector<float>{3, 6, -3, 0}));
}

Json compressed(const std::string& format, const Json& of_weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups", {{"group_0", {{"weights", of_weights}}}}}};
}

TEST_F(Quantised, CompressedTensorsHaveRowScales) {
  config = compressed("float-quantized", {{"num_bits", 8}, {"type", "float"}});
  tensors["a.weight"] = bytes_of("F8_E4M3", {2, 3}, kCodes);
  tensors["a.weight_scale"] = floats({2, 1}, {1, 2});
  open();
  EXPECT_EQ(values_of("a.weight"), (std::vector<float>{1, 2, -1, 1 / 256.0F, 0, 896}));
  config = compressed("int-quantized", {{"num_bits", 8}, {"type", "int"}});
  tensors["a.weight"] = bytes_of("I8", {2, 3}, {1, 255, 2, 128, 127, 0});
  open();
  EXPECT_EQ(values_of("a.weight"), (std::vector<float>{1, -1, 2, -256, 254, 0}));
  tensors["a.weight_scale"] = floats({3, 1}, {1, 2, 3});
  EXPECT_NE(refusal().find("its shape does not fit"), std::string::npos);
  config["format"] = "marlin-24";
  EXPECT_NE(refusal().find("of the format 'marlin-24' are not supported"), std::string::npos);
}

TEST_F(Quantised, PackedIntegersHaveGroupScales) {
  config = compressed("pack-quantized",
                      {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 2}});
  tensors["a.weight_packed"] = words({2, 1}, {0x8F0A, 0x0123});
  tensors["a.weight_scale"] = floats({2, 2}, {1, 2, 10, 100});
  tensors["a.weight_shape"] = {"I64", {2}, raw(std::vector<int64_t>{2, 4})};
  open();
  EXPECT_EQ(values_of("a.weight"), (std::vector<float>{2, -8, 14, 0, -50, -60, -700, -800}));
  tensors["a.weight_zero_point"] = words({1, 2}, {0x10, 0x32});
  open();
  EXPECT_EQ(values_of("a.weight"), (std::vector<float>{10, 0, 26, 12, 20, 10, -200, -300}));
  EXPECT_EQ(weights->left(), (std::vector<std::string>{"a.weight"}));
  // With "actorder": "group", the file names the group of each column.
  const std::vector<float> in_order = values_of("a.weight");
  tensors["a.weight_g_idx"] = words({4}, {1, 0, 0, 1});
  open();
  EXPECT_EQ(values_of("a.weight"), (std::vector<float>{16, 0, 15, 12, 0, 10, 0, -300}));
  EXPECT_EQ(weights->left(), (std::vector<std::string>{"a.weight"}));
  tensors["a.weight_g_idx"] = words({4}, {0, 0, 2, 1});
  EXPECT_NE(refusal().find("it names a group that does not exist"), std::string::npos);
  tensors["a.weight_g_idx"] = words({4}, {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX});
  open();
  EXPECT_EQ(values_of("a.weight"), in_order);
  tensors["a.weight_shape"].bytes = raw(std::vector<int64_t>{2, 400});
  EXPECT_NE(refusal().find("'a.weight_packed': its shape does not fit"), std::string::npos);
  config["config_groups"]["group_0"]["weights"]["num_bits"] = 9;
  EXPECT_NE(refusal().find("integers of 9 bits"), std::string::npos);
}

TEST_F(Quantised, GptqIsTransposedAndStoresZerosMinusOne) {
  config = {{"quant_method", "gptq"}, {"bits", 8}};
  // 4 inputs, 4 outputs, 2 groups.
  tensors["a.qweight"] = words({1, 4}, {0x04030201, 0x08070605, 0x0C0B0A09, 0x100F0E0D});
  tensors["a.qzeros"] = words({2, 1}, {0, 0x01010101});
  tensors["a.scales"] = floats({2, 4}, {1, 1, 1, 2, 10, 10, 10, 20});
  tensors["a.g_idx"] = words({4}, {0, 1, 0, 1});
  open();
  EXPECT_EQ(weights->find("a.weight")->shape, (std::vector<uint64_t>{4, 4}));
  EXPECT_EQ(values_of("a.weight"),
            (std::vector<float>{0, 0, 2, 20, 4, 40, 6, 60, 8, 80, 10, 100, 24, 240, 28, 280}));
  config["checkpoint_format"] = "gptq_v2";
  open();
  EXPECT_EQ(values_of("a.weight").front(), 1);
  tensors["a.g_idx"] = words({4}, {0, 2, 0, 1});
  open();
  EXPECT_THROW(values_of("a.weight"), Error);
  config["bits"] = 3;
  EXPECT_NE(refusal().find("GPTQ with 3 bits"), std::string::npos);
}

TEST_F(Quantised, Nvfp4KeepsItsCodesAndScales) {
  config = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  std::vector<uint8_t> codes(32);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 37);
  tensors["a.weight"] = bytes_of("U8", {1, 32}, codes);
  tensors["a.weight_scale"] = bytes_of("F8_E4M3", {1, 4}, {0x38, 0x40, 0x30, 0x38});
  tensors["a.weight_scale_2"] = floats({}, {0.5});
  tensors["a.input_scale"] = floats({}, {1});
  // Other tensors of the same checkpoint are in FP8.
  tensors["b.weight"] = bytes_of("F8_E4M3", {2, 3}, kCodes);
  tensors["b.weight_scale"] = floats({}, {1});
  open();
  EXPECT_EQ(values_of("b.weight"), kNumbers);
  const SafeTensor* tensor = weights->find("a.weight");
  ASSERT_EQ(tensor->dtype, "NVFP4");
  EXPECT_EQ(tensor->shape, (std::vector<uint64_t>{1, 64}));
  std::vector<std::byte> row(tensor->n_bytes);
  weights->read(*tensor, 0, row);
  std::vector<float> values(64);
  quant::row(quant::Type::kNVFP4).decode(row.data(), values.size(), values.data());
  constexpr float kFp4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6};
  constexpr float kScales[] = {1, 2, 0.5, 1};
  for (size_t i = 0; i < 64; ++i) {
    const unsigned code = codes[i / 2] >> (i % 2 * 4) & 15u;
    ASSERT_EQ(values[i], kFp4[code] * kScales[i / 16]) << i;
  }
  std::vector<PlannedTensor> plan(1);
  plan[0].name = "blk.0.ffn_up.weight";
  plan[0].source = tensor;
  EXPECT_TRUE(checkpoint.keeps(plan[0]));
  checkpoint.add_scales(plan);
  ASSERT_EQ(plan.size(), 2u) << "a scale of 1 is not written";
  EXPECT_EQ(plan[1].name, "blk.0.ffn_up.scale");
  EXPECT_EQ(plan[1].values, (std::vector<float>{0.5}));
  tensors["a.weight"] = bytes_of("U8", {1, 24}, std::vector<uint8_t>(24));
  EXPECT_NE(refusal().find("not a multiple of 64"), std::string::npos);
}

TEST_F(Quantised, DivisorsAreNotZero) {
  config = compressed("nvfp4-pack-quantized", Json::object());
  tensors["a.weight_packed"] = bytes_of("U8", {1, 32}, std::vector<uint8_t>(32, 0x21));
  tensors["a.weight_scale"] = bytes_of("F8_E4M3", {1, 4}, {0x38, 0x40, 0x30, 0x38});
  tensors["a.weight_global_scale"] = floats({1}, {4});
  tensors["a.input_global_scale"] = floats({1}, {2});
  open();
  const Nvfp4Scales& factors = checkpoint.nvfp4.at(weights->find("a.weight"));
  EXPECT_EQ(factors.weight, 0.25F);
  EXPECT_EQ(factors.input, 0.5F);
  for (const char* name : {"a.weight_global_scale", "a.input_global_scale"}) {
    for (const float divisor : {0.0F, 1e-40F}) {
      const RawTensor good = tensors[name];
      tensors[name] = floats({1}, {divisor});
      EXPECT_NE(refusal().find(std::string("tensor '") + name + "' is a divisor, but it is 0"),
                std::string::npos);
      tensors[name] = good;
    }
  }
}

TEST_F(Quantised, NamesUnsupportedQuantisation) {
  tensors["a.weight"] = floats({1}, {1});
  for (const char* method : {"awq", "bitsandbytes", "hqq", ""}) {
    config = {{"quant_method", method}};
    EXPECT_NE(refusal().find(std::string("quantised by '") + method + "' cannot be converted"),
              std::string::npos);
  }
  config = 3;
  EXPECT_NE(refusal().find("\"quantization_config\": not a JSON object"), std::string::npos);
  config = {{"quant_method", "mxfp4"}};
  EXPECT_EQ(refusal(), "") << "the family handles MXFP4";
}

}  // namespace
}  // namespace billow::convert
