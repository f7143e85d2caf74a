// Numbers of weights that the new file cannot have.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "convert/convert.h"
#include "convert/sample_model.h"
#include "quant/type.h"

namespace billow::convert {
namespace {

constexpr const char* kQuery = "encoder.layer.1.attention.self.query.weight";

class Numbers : public testing::Test {
 protected:
  Numbers() { make_bert(model); }

  // Changes the last number of a tensor. No other tensor changes. REQUIRES: all later tensors, in
  // the order of names, have its dtype.
  void set_last_number(const std::string& name, float value) {
    const quant::TypeRow* type = quant::find_type(model.tensors.at(name).dtype);
    const size_t n_bytes = quant::row_bytes(type->type, 1);
    std::string file = safetensors_bytes(model.tensors);
    size_t at = file.size() - n_bytes;
    for (auto later = model.tensors.upper_bound(name); later != model.tensors.end(); ++later)
      at -= later->second.n() * n_bytes;
    type->encode(&value, 1, reinterpret_cast<std::byte*>(file.data() + at));
    model.texts["model.safetensors"] = file;
  }

  std::string refusal_as(quant::Type type) {
    try {
      convert(model.files(), {.name = "", .weight_type = type}, {}, [](auto) {});
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      return error.what();
    }
    return "";
  }

  SampleModel model;
};

TEST_F(Numbers, RefusesNumbersThatAreNotFinite) {
  for (const char* dtype : {"F32", "F16", "BF16"}) {
    for (auto& [name, tensor] : model.tensors)
      if (tensor.dtype != "I64") tensor.dtype = dtype;
    for (const float odd : {-std::numeric_limits<float>::infinity(), std::nanf("")}) {
      for (const quant::Type type :
           {quant::Type::kF32, quant::Type::kF16, quant::Type::kBF16, quant::Type::kQ8_0}) {
        set_last_number(kQuery, odd);
        EXPECT_EQ(refusal_as(type),
                  "tensor 'blk.1.attn_q.weight' has numbers that are not finite; the model is "
                  "damaged, so get its files again")
            << dtype;
        set_last_number("encoder.layer.1.output.LayerNorm.bias", odd);
        EXPECT_EQ(refusal_as(type).find("tensor 'blk.1.layer_output_norm.bias' has numbers"), 0u)
            << dtype;
        set_last_number("pooler.dense.weight", odd);
        EXPECT_EQ(refusal_as(type), "") << "the tensor is not converted";
      }
    }
  }
}

TEST_F(Numbers, RefusesNumbersBeyondItsType) {
  set_last_number(kQuery, 1e9F);
  EXPECT_EQ(
      refusal_as(quant::Type::kQ8_0),
      "tensor 'blk.1.attn_q.weight' has numbers that are too large for Q8_0; use F32 or BF16");
  EXPECT_EQ(refusal_as(quant::Type::kBF16), "");
  set_last_number(kQuery, 70000);
  EXPECT_EQ(refusal_as(quant::Type::kF16),
            "tensor 'blk.1.attn_q.weight' has numbers that are too large for F16; use F32 or BF16");
  EXPECT_EQ(refusal_as(quant::Type::kF32), "");
  set_last_number("pooler.dense.weight", 70000);
  EXPECT_EQ(refusal_as(quant::Type::kF16), "") << "the tensor is not converted";
  set_last_number(kQuery, std::numeric_limits<float>::max());
  EXPECT_EQ(refusal_as(quant::Type::kBF16),
            "tensor 'blk.1.attn_q.weight' has numbers that are too large for BF16; use F32");
  EXPECT_EQ(refusal_as(quant::Type::kF32), "");
}

}  // namespace
}  // namespace billow::convert
