#include "convert/dense_modules.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "convert/sample_model.h"
#include "gguf/file.h"

namespace billow::convert {
namespace {

constexpr uint64_t kWidth = 8;
constexpr uint64_t kInner = 12;

std::string layer_bytes(uint64_t n_out, uint64_t n_in) {
  return safetensors_bytes({{"linear.weight", {{n_out, n_in}, "F32"}}});
}

// Makes a folder with two layers after the pooling.
void make_modules(SampleModel& model) {
  model.texts["modules.json"] = R"([{"path": "", "type": "x.Transformer"},
    {"path": "1_Pooling", "type": "x.Pooling"}, {"path": "2_Dense", "type": "x.Dense"},
    {"path": "3_Dense", "type": "x.Dense"}, {"path": "4_Normalize", "type": "x.Normalize"}])";
  for (const char* folder : {"2_Dense", "3_Dense"})
    model.texts[std::string(folder) + "/config.json"] =
        R"({"bias": false, "activation_function": "torch.nn.modules.linear.Identity"})";
  model.texts["2_Dense/model.safetensors"] = layer_bytes(kInner, kWidth);
  model.texts["3_Dense/model.safetensors"] = layer_bytes(kWidth, kInner);
}

std::vector<PlannedTensor> add(SampleModel& model, gguf::Writer& writer) {
  std::vector<PlannedTensor> plan;
  const std::vector<SourceFile> files = model.files();
  add_dense_modules(Sources(files), "arch", kWidth, plan, writer);
  return plan;
}

TEST(DenseModules, TwoLayersBecomeTensorsAndKeys) {
  SampleModel model;
  make_modules(model);
  gguf::Writer writer;
  const std::vector<PlannedTensor> plan = add(model, writer);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].name, "dense_2.weight");
  EXPECT_EQ(plan[0].n_rows, kInner);
  EXPECT_EQ(plan[0].row_len, kWidth);
  EXPECT_EQ(plan[1].name, "dense_3.weight");
  EXPECT_EQ(plan[1].n_rows, kWidth);
  EXPECT_EQ(plan[1].row_len, kInner);
  for (uint64_t i = 0; i < kInner * kWidth; ++i)
    ASSERT_EQ(plan[1].values[i], sample_value("linear.weight", i));
  const std::vector<std::byte> bytes = writer.to_bytes();
  const gguf::File file = gguf::File::parse(bytes, "made");
  EXPECT_EQ(file.get_uint("arch.dense_2_feat_in"), kWidth);
  EXPECT_EQ(file.get_uint("arch.dense_2_feat_out"), kInner);
  EXPECT_EQ(file.get_uint("arch.dense_3_feat_in"), kInner);
  EXPECT_EQ(file.get_uint("arch.dense_3_feat_out"), kWidth);
}

TEST(DenseModules, AcceptsModelWithoutModules) {
  SampleModel model;
  gguf::Writer writer;
  EXPECT_TRUE(add(model, writer).empty());
  model.texts["modules.json"] = R"([{"path": "1_Pooling", "type": "x.Pooling"}])";
  EXPECT_TRUE(add(model, writer).empty());
  EXPECT_EQ(writer.n_tensor_bytes(), 0u);
}

TEST(DenseModules, RefusesUnsupportedModules) {
  using Change = std::function<void(SampleModel&)>;
  const std::pair<Change, std::string> cases[] = {
      {[](auto& m) { m.texts["modules.json"] = R"([{"path": "2_Dense", "type": "x.Dense"}])"; },
       "modules.json: 1 modules 'Dense' are not supported, only two"},
      {[](auto& m) { m.texts.erase("2_Dense/config.json"); },
       "2_Dense/config.json is missing, but modules.json names its folder"},
      {[](auto& m) { m.texts.erase("3_Dense/model.safetensors"); },
       "3_Dense/model.safetensors is missing, but modules.json names its folder"},
      {[](auto& m) { m.texts["2_Dense/config.json"] = R"({"bias": true})"; },
       "2_Dense/config.json: a bias is not supported"},
      {[](auto& m) { m.texts["3_Dense/config.json"] = R"({"activation_function": "x.Tanh"})"; },
       "3_Dense/config.json: the activation 'x.Tanh' is not supported"},
      {[](auto& m) { m.texts["3_Dense/model.safetensors"] = layer_bytes(kWidth, kInner + 1); },
       "3_Dense/model.safetensors: two dense layers must have 8 inputs and outputs"},
      {[](auto& m) { m.texts["3_Dense/model.safetensors"] = layer_bytes(kWidth + 1, kInner); },
       "3_Dense/model.safetensors: two dense layers must have 8 inputs and outputs"},
      {[](auto& m) { m.texts["2_Dense/model.safetensors"] = layer_bytes(70000, 1); },
       "2_Dense/model.safetensors: there is no matrix 'linear.weight'"},
      {[](auto& m) {
         m.texts["2_Dense/model.safetensors"] =
             safetensors_bytes({{"linear.weight", {{kWidth}, "F32"}}});
       },
       "2_Dense/model.safetensors: there is no matrix 'linear.weight'"},
      {[](auto& m) {
         m.texts["2_Dense/model.safetensors"] = safetensors_bytes(
             {{"linear.weight", {{kInner, kWidth}, "F32"}}, {"linear.bias", {{kInner}, "F32"}}});
       },
       "2_Dense/model.safetensors: tensor 'linear.bias' is not supported"},
      {[](auto& m) {
         m.texts["2_Dense/model.safetensors"] =
             safetensors_bytes({{"linear.weight", {{kInner, kWidth}, "I64"}}});
       },
       "2_Dense/model.safetensors: tensor 'linear.weight' is of the type I64"},
      {[](auto& m) { m.texts["2_Dense/model.safetensors"] = "x"; },
       "2_Dense/model.safetensors: too short for a safetensors file"},
      {[](auto& m) { m.texts["modules.json"] = "{}"; }, "modules.json: not a JSON array"},
  };
  for (const auto& [change, begin] : cases) {
    SampleModel model;
    make_modules(model);
    change(model);
    gguf::Writer writer;
    try {
      add(model, writer);
      ADD_FAILURE() << begin;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(begin)) << error.what();
    }
  }
}

}  // namespace
}  // namespace billow::convert
