// Compares with tests/golden/mixtures.json. tests/quantize/mixture_models.py makes that file with
// llama-quantize.
#include "quantize/mixture.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/test_source_dir.h"
#include "base/text.h"
#include "gguf/tensor_type.h"

namespace billow::quantize {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kF16 = 1;

Json golden() {
  std::ifstream file(source_dir() + "/tests/golden/mixtures.json");
  return Json::parse(file);
}

struct Model {
  ModelFacts facts;
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
};

Model model_of(const Json& json) {
  Model model;
  model.facts = {json.at("architecture"), json.at("n_blocks"), json.at("n_heads"),
                 json.at("n_kv_heads"), json.at("n_experts")};
  for (const Json& tensor : json.at("tensors")) model.names.push_back(tensor.at(0));
  for (size_t i = 0; i < model.names.size(); ++i) {
    Tensor tensor = {.name = model.names[i]};
    const Json& shape = json.at("tensors").at(i).at(1);
    for (size_t d = 0; d < shape.size(); ++d) tensor.shape[d] = shape.at(d);
    tensor.type = shape.size() > 1 ? kF16 : kF32;
    model.tensors.push_back(tensor);
  }
  return model;
}

MixtureOptions options_for(std::string_view type, bool importance = true) {
  MixtureOptions options;
  options.file_type = find_file_type(type);
  if (importance) options.has_importance = [](std::string_view) { return true; };
  return options;
}

std::string letters_of(const Model& model, const MixtureOptions& options,
                       const std::map<std::string, std::string>& letters) {
  std::string text;
  for (const Decision& decision : plan_mixture(model.facts, model.tensors, options)) {
    text += letters.at(lower_case(gguf::tensor_type_name(decision.type)));
  }
  return text;
}

TEST(MixtureTest, MatchesLlamaQuantizeForAllTypesAndShapes) {
  const Json all = golden();
  std::map<std::string, std::string> letters;
  for (const auto& [letter, name] : all.at("letters").items()) {
    letters[lower_case(name.get<std::string>())] = letter;
  }
  size_t n = 0;
  for (const Json& json : all.at("models")) {
    const Model model = model_of(json);
    for (const auto& [type, keys] : json.at("decisions").items()) {
      for (const auto& [key, expected] : keys.items()) {
        SCOPED_TRACE(type);
        SCOPED_TRACE(key);
        SCOPED_TRACE(json.at("name").get<std::string>());
        const MixtureOptions options = options_for(type, key == "with");
        if (expected.is_null()) {
          EXPECT_THROW(plan_mixture(model.facts, model.tensors, options), Error);
        } else {
          EXPECT_EQ(letters_of(model, options, letters), expected.get<std::string>());
          ++n;
        }
      }
    }
  }
  EXPECT_GT(n, 700u);
}

TEST(MixtureTest, OrdersTensorsLikeLlamaQuantize) {
  const Json all = golden();
  for (const Json& json : all.at("models")) {
    const Model model = model_of(json);
    const auto decisions = plan_mixture(model.facts, model.tensors, options_for("Q8_0"));
    for (size_t place = 0; place < decisions.size(); ++place) {
      EXPECT_EQ(json.at("order").at(decisions[place].tensor), place) << json.at("name");
    }
  }
}

class OptionsTest : public ::testing::Test {
 protected:
  std::map<std::string, std::string> types(const MixtureOptions& options) const {
    std::map<std::string, std::string> found;
    for (const Decision& decision : plan_mixture(facts, tensors, options)) {
      found[std::string(tensors[decision.tensor].name)] = gguf::tensor_type_name(decision.type);
    }
    return found;
  }
  std::string refusal(const MixtureOptions& options) const {
    try {
      plan_mixture(facts, tensors, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  ModelFacts facts = {"llama", 8, 4, 1, 0};
  std::vector<Tensor> tensors = {{"output.weight", {512, 2, 1, 1}, kF16},
                                 {"token_embd.weight", {512, 2, 1, 1}, kF16},
                                 {"blk.0.attn_q.weight", {512, 2, 1, 1}, kF16},
                                 {"blk.0.ffn_down.weight", {512, 2, 1, 1}, kF16},
                                 {"blk.0.attn_norm.weight", {512, 1, 1, 1}, kF32}};
};

TEST_F(OptionsTest, PureGivesOneTypeToAllMatrices) {
  MixtureOptions options = options_for("Q4_K_M");
  options.pure = true;
  for (const auto& [name, type] : types(options)) {
    EXPECT_EQ(type, name == "blk.0.attn_norm.weight" ? "F32" : "Q4_K") << name;
  }
}

TEST_F(OptionsTest, OutputAndEmbeddingTypesCanBeChosen) {
  MixtureOptions options = options_for("Q4_K_M");
  options.output_type = quant::Type::kQ8_0;
  options.embedding_type = quant::Type::kF16;
  auto found = types(options);
  EXPECT_EQ(found["output.weight"], "Q8_0");
  EXPECT_EQ(found["token_embd.weight"], "F16");
  options.leave_output = true;
  EXPECT_EQ(types(options)["output.weight"], "F16");
}

TEST_F(OptionsTest, FirstMatchingPatternDecides) {
  MixtureOptions options = options_for("Q4_K_M");
  options.patterns.push_back({"ffn_", std::regex("ffn_"), quant::Type::kQ5_0});
  options.patterns.push_back({"blk", std::regex("blk"), quant::Type::kQ6_K});
  auto found = types(options);
  EXPECT_EQ(found["blk.0.ffn_down.weight"], "Q5_0");
  EXPECT_EQ(found["blk.0.attn_q.weight"], "Q6_K");
  EXPECT_EQ(found["blk.0.attn_norm.weight"], "F32");
  EXPECT_EQ(found["token_embd.weight"], "Q4_K");
}

TEST_F(OptionsTest, RefusesTypesWithoutTheirImportanceMatrix) {
  EXPECT_NE(refusal(options_for("IQ2_XS", false)).find("IQ2_XS needs an importance matrix"),
            std::string::npos);
  MixtureOptions options = options_for("IQ2_XS");
  options.has_importance = [](std::string_view name) { return name != "blk.0.attn_q.weight"; };
  EXPECT_EQ(
      refusal(options),
      "the importance matrix has no entry for tensor 'blk.0.attn_q.weight', which IQ2_XS needs");
  EXPECT_NE(refusal(options_for("Q2_K_S", false)), "none");
  EXPECT_EQ(refusal(options_for("Q2_K", false)), "none");
}

TEST_F(OptionsTest, QuantisedSourcesAreRefusedUnlessAllowed) {
  tensors[2].type = static_cast<uint32_t>(quant::Type::kQ5_0);
  EXPECT_NE(
      refusal(options_for("Q4_K_M")).find("'blk.0.attn_q.weight' is quantised already (Q5_0)"),
      std::string::npos);
  EXPECT_EQ(refusal(options_for("Q5_0")), "none") << "a tensor that has the type already is copied";
  MixtureOptions options = options_for("Q4_K_M");
  options.allow_requantize = true;
  EXPECT_EQ(types(options)["blk.0.attn_q.weight"], "Q4_K");
}

TEST_F(OptionsTest, RefusesOptionsWithoutEffect) {
  MixtureOptions options = options_for("F16");
  options.patterns.push_back({"ffn_", std::regex("ffn_"), quant::Type::kQ5_0});
  EXPECT_NE(refusal(options), "none");
  MixtureOptions copy = options_for("COPY");
  EXPECT_EQ(types(copy)["blk.0.attn_q.weight"], "F16");
  copy.pure = true;
  EXPECT_NE(refusal(copy), "none");
}

TEST_F(OptionsTest, RefusesRowsThatFitNoType) {
  tensors[2].shape[0] = 48;
  EXPECT_EQ(refusal(options_for("Q1_0")),
            "tensor 'blk.0.attn_q.weight' has rows of 48 elements, which Q1_0 cannot hold");
}

TEST(FileTypeTest, FindsNamesInAnyCaseAndByAlias) {
  EXPECT_EQ(find_file_type("q4_k"), find_file_type("Q4_K_M"));
  EXPECT_EQ(find_file_type("iq2_xxs")->number, 19u);
  EXPECT_EQ(find_file_type("Q9_K"), nullptr);
  for (const std::string_view name : file_type_names()) EXPECT_NE(find_file_type(name), nullptr);
  EXPECT_EQ(find_target("q6_k"), quant::Type::kQ6_K);
  EXPECT_FALSE(find_target("Q8_K"));
  EXPECT_FALSE(find_target("NVFP4"));
}

}  // namespace
}  // namespace billow::quantize
