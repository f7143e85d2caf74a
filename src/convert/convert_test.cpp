#include "convert/convert.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "base/error.h"
#include "convert/sample_model.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::convert {
namespace {

using tokenizer::TokenId;

std::vector<std::byte> converted_bytes(const std::vector<SourceFile>& files,
                                       const Options& options = {},
                                       std::vector<std::string>* notes = nullptr) {
  std::vector<std::byte> bytes;
  const Listener listener{.note =
                              [&](const std::string& line) {
                                if (notes) notes->push_back(line);
                              },
                          .progress = {}};
  convert(files, options, listener, [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

class Convert : public testing::Test {
 protected:
  gguf::File make(const Options& options = {}) {
    notes.clear();
    bytes = converted_bytes(model.files(), options, &notes);
    return gguf::File::parse(bytes, "converted");
  }

  std::string refusal(const Options& options = {}) {
    try {
      converted_bytes(model.files(), options);
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      return error.what();
    }
    return "";
  }

  // Expects that tensor `name` of the file equals tensor `source`, from `begin` on.
  void expect_same(const gguf::File& file, const std::string& name, const std::string& source,
                   quant::Type type, uint64_t begin = 0) {
    const gguf::TensorInfo* tensor = file.find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    const SampleTensor& sample = model.tensors.at(source);
    ASSERT_EQ(tensor->type, static_cast<uint32_t>(type)) << name;
    ASSERT_EQ(tensor->n_elements() + begin, sample.n()) << name;
    ASSERT_EQ(tensor->shape[0], sample.shape.back()) << name;
    ASSERT_EQ(tensor->n_dims, sample.shape.size()) << name;
    std::vector<float> values(tensor->n_elements());
    quant::row(type).decode(tensor->data.data(), values.size(), values.data());
    const float step = type == quant::Type::kQ8_0 ? 0.01F : 0.0F;
    for (uint64_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], sample_value(source, begin + i), step) << name << " " << i;
    }
    ++n_checked;
  }

  // Checks the rows "source name -> GGUF name". Matrices have `type`; all others are F32.
  void expect_all(const gguf::File& file,
                  const std::vector<std::pair<std::string, std::string>>& rows, quant::Type type) {
    for (const auto& [source, name] : rows) {
      for (const char* part : {".weight", ".bias"}) {
        if (!model.tensors.contains(source + part)) continue;
        const bool is_matrix = model.tensors.at(source + part).shape.size() == 2;
        expect_same(file, name + part, source + part, is_matrix ? type : quant::Type::kF32);
      }
    }
  }

  void expect_bert_layers(const gguf::File& file, const std::string& prefix, quant::Type type) {
    for (const char* i : {"0", "1"}) {
      const std::string from = prefix + "encoder.layer." + i;
      const std::string to = std::string("blk.") + i;
      expect_all(file,
                 {{from + ".attention.self.query", to + ".attn_q"},
                  {from + ".attention.self.key", to + ".attn_k"},
                  {from + ".attention.self.value", to + ".attn_v"},
                  {from + ".attention.output.dense", to + ".attn_output"},
                  {from + ".attention.output.LayerNorm", to + ".attn_output_norm"},
                  {from + ".intermediate.dense", to + ".ffn_up"},
                  {from + ".output.dense", to + ".ffn_down"},
                  {from + ".output.LayerNorm", to + ".layer_output_norm"}},
                 type);
    }
    expect_all(file,
               {{prefix + "embeddings.word_embeddings", "token_embd"},
                {prefix + "embeddings.LayerNorm", "token_embd_norm"}},
               type);
  }

  SampleModel model;
  std::vector<std::byte> bytes;
  std::vector<std::string> notes;
  size_t n_checked = 0;
};

TEST_F(Convert, BertHasTensorsOfSource) {
  make_bert(model);
  const gguf::File file = make({.name = "tiny"});
  expect_bert_layers(file, "", quant::Type::kF16);
  expect_same(file, "token_types.weight", "embeddings.token_type_embeddings.weight",
              quant::Type::kF32);
  expect_same(file, "position_embd.weight", "embeddings.position_embeddings.weight",
              quant::Type::kF32);
  EXPECT_EQ(n_checked, file.tensors().size());
  EXPECT_EQ(n_checked, 5 + 2 * 16u);
}

TEST_F(Convert, BertHasRequiredKeys) {
  make_bert(model);
  model.texts["sentence_bert_config.json"] = R"({"max_seq_length": 8, "do_lower_case": false})";
  const gguf::File file = make({.name = "tiny"});
  EXPECT_EQ(file.get_string("general.architecture"), "bert");
  EXPECT_EQ(file.get_string("general.type"), "model");
  EXPECT_EQ(file.get_string("general.name"), "tiny");
  EXPECT_EQ(file.get_uint("general.file_type"), 1u);
  EXPECT_EQ(file.get_uint("general.quantization_version"), 2u);
  EXPECT_EQ(file.get_uint("bert.block_count"), 2u);
  EXPECT_EQ(file.get_uint("bert.context_length"), 16u);
  EXPECT_EQ(file.get_uint("bert.embedding_length"), 32u);
  EXPECT_EQ(file.get_uint("bert.feed_forward_length"), 48u);
  EXPECT_EQ(file.get_uint("bert.attention.head_count"), 4u);
  EXPECT_FLOAT_EQ(static_cast<float>(file.require_float("bert.attention.layer_norm_epsilon")),
                  1e-5F);
  EXPECT_EQ(file.get_bool("bert.attention.causal"), false);
  EXPECT_EQ(file.get_uint("bert.pooling_type"), 1u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.token_type_count"), 2u);
  EXPECT_EQ(file.get_string("tokenizer.ggml.model"), "bert");
  const auto& tokens = file.get_string_array("tokenizer.ggml.tokens")->strings;
  EXPECT_EQ(tokens,
            (std::vector<std::string_view>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁hello",
                                           "▁world", "s", "▁,", "▁cafe", "▁#", "▁[PAD11]"}));
  std::string types;
  const gguf::Array* numbers = file.get_array("tokenizer.ggml.token_type");
  for (uint64_t i = 0; i < numbers->n; ++i) types += std::to_string(numbers->integer(i));
  EXPECT_EQ(types, "333331111115");
  EXPECT_EQ(file.get_uint("tokenizer.ggml.bos_token_id"), 2u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.cls_token_id"), 2u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.eos_token_id"), 3u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.seperator_token_id"), 3u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.unknown_token_id"), 1u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.padding_token_id"), 0u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.mask_token_id"), 4u);
  EXPECT_EQ(file.get_bool("tokenizer.ggml.add_sep_token"), false);
  EXPECT_EQ(file.get_bool("tokenizer.ggml.normalizer.lowercase"), true);
  EXPECT_EQ(file.find("tokenizer.ggml.normalizer.strip_accents"), nullptr);
  EXPECT_EQ(notes,
            std::vector<std::string>{"the model's own library limits texts to 8 tokens; this "
                                     "file allows 16"});
  const auto reader = tokenizer::Tokenizer::load(file);
  EXPECT_EQ(reader.encode("Hello,  WORLDS Café x"), (std::vector<TokenId>{2, 5, 8, 6, 7, 9, 1, 3}));
}

TEST_F(Convert, WeightsHaveRequestedType) {
  make_bert(model);
  const struct {
    const char* name;
    uint32_t file_type;
  } cases[] = {{"F32", 0}, {"f16", 1}, {"q8_0", 7}, {"BF16", 32}};
  for (const auto& test : cases) {
    const quant::Type type = find_weight_type(test.name).value();
    const gguf::File file = make({.name = "", .weight_type = type});
    EXPECT_EQ(file.get_uint("general.file_type"), test.file_type);
    EXPECT_EQ(file.find("general.name"), nullptr);
    expect_same(file, "blk.0.attn_q.weight", "encoder.layer.0.attention.self.query.weight", type);
    expect_same(file, "position_embd.weight", "embeddings.position_embeddings.weight",
                quant::Type::kF32);
    expect_same(file, "blk.0.attn_q.bias", "encoder.layer.0.attention.self.query.bias",
                quant::Type::kF32);
    // Rows of 48 are not whole Q8_0 groups.
    expect_same(file, "blk.0.ffn_down.weight", "encoder.layer.0.output.dense.weight",
                type == quant::Type::kQ8_0 ? quant::Type::kF16 : type);
  }
  EXPECT_FALSE(find_weight_type("q4_K_M"));
  EXPECT_FALSE(find_weight_type(""));
}

TEST_F(Convert, F16AndSplitFilesGiveSameResult) {
  make_bert(model);
  const std::vector<std::byte> wanted = converted_bytes(model.files());
  for (const char* dtype : {"F16", "BF16"}) {
    for (auto& [name, tensor] : model.tensors) {
      if (tensor.dtype != "I64") tensor.dtype = dtype;
    }
    EXPECT_EQ(converted_bytes(model.files()), wanted) << dtype;
  }
  SampleTensors parts[2];
  Json map;
  for (const auto& [name, tensor] : model.tensors) {
    const bool second = name.starts_with("encoder.layer.1");
    parts[second][name] = tensor;
    map[name] = second ? "model-2.safetensors" : "model-1.safetensors";
  }
  const SampleTensors all = std::exchange(model.tensors, {});
  model.texts["model-1.safetensors"] = safetensors_bytes(parts[0]);
  EXPECT_EQ(refusal(), "tensor 'encoder.layer.1.attention.self.query.weight' is missing");
  model.texts["model.safetensors.index.json"] = Json{{"weight_map", map}}.dump();
  EXPECT_EQ(refusal(),
            "model.safetensors.index.json: its file 'model-2.safetensors' is missing; send it too");
  model.texts["model-2.safetensors"] = safetensors_bytes(parts[1]);
  EXPECT_EQ(converted_bytes(model.files()), wanted);
  model.texts["model-2.safetensors"] = safetensors_bytes(all);
  EXPECT_TRUE(refusal().ends_with("' appears twice")) << refusal();
}

TEST_F(Convert, AcceptsOldNamesAndPrefixes) {
  make_bert(model);
  SampleTensors renamed;
  for (const auto& [name, tensor] : model.tensors) {
    std::string old_name = "bert." + name;
    if (const size_t at = old_name.find("LayerNorm."); at != std::string::npos) {
      old_name =
          old_name.substr(0, at) + "LayerNorm." + (old_name.ends_with("weight") ? "gamma" : "beta");
    }
    renamed[old_name] = tensor;
  }
  renamed["cls.predictions.bias"] = {{12}, "F32"};
  renamed["cls.seq_relationship.weight"] = {{2, 32}, "F32"};
  model.tensors = renamed;
  const gguf::File file = make();
  expect_same(file, "token_embd_norm.weight", "bert.embeddings.LayerNorm.gamma", quant::Type::kF32);
  EXPECT_EQ(file.tensors().size(), 5 + 2 * 16u);
}

TEST_F(Convert, XlmRobertaDropsPaddingPositions) {
  model.add_unigram();
  model.add_bert("roberta.", 18, 1);
  model.config["architectures"] = {"XLMRobertaModel"};
  model.config["pad_token_id"] = 1;
  model.add_pooling(R"({"pooling_mode_cls_token": true})");
  const gguf::File file = make();
  expect_bert_layers(file, "roberta.", quant::Type::kF16);
  const gguf::TensorInfo* positions = file.find_tensor("position_embd.weight");
  ASSERT_NE(positions, nullptr);
  ASSERT_EQ(positions->n_elements(), 16 * 32u);
  for (size_t i = 0; i < 16 * 32u; ++i) {
    float value = 0;
    std::memcpy(&value, positions->data.data() + 4 * i, sizeof value);
    ASSERT_EQ(value, sample_value("roberta.embeddings.position_embeddings.weight", 2 * 32 + i));
  }
  EXPECT_EQ(file.get_string("general.architecture"), "bert");
  EXPECT_EQ(file.get_uint("bert.context_length"), 16u);
  EXPECT_EQ(file.get_uint("bert.pooling_type"), 2u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.token_type_count"), 1u);
  EXPECT_EQ(file.get_string("tokenizer.ggml.model"), "t5");
  EXPECT_EQ(file.get_string("tokenizer.ggml.pre"), "default");
  EXPECT_EQ(file.get_uint("tokenizer.ggml.bos_token_id"), 0u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.padding_token_id"), 1u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.eos_token_id"), 2u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.seperator_token_id"), 2u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.unknown_token_id"), 3u);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.mask_token_id"), 9u);
  for (const char* flag : {"add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix",
                           "remove_extra_whitespaces"}) {
    EXPECT_EQ(file.get_bool(std::string("tokenizer.ggml.") + flag), true) << flag;
  }
  const gguf::Array* scores = file.get_array("tokenizer.ggml.scores");
  EXPECT_EQ(scores->number(5), -4.5);
  EXPECT_EQ(file.get_array("tokenizer.ggml.token_type")->integer(3), 2);
  EXPECT_EQ(file.get_array("tokenizer.ggml.token_type")->integer(9), 3);
  const auto reader = tokenizer::Tokenizer::load(file);
  EXPECT_EQ(reader.encode("  hello  worlds "), (std::vector<TokenId>{0, 5, 6, 7, 8, 2}));
}

TEST_F(Convert, KeepsCharsmapBytes) {
  const std::string charsmap("\4\0\0\0\1\2\3\4abc\0", 12);
  model.add_unigram(charsmap);
  model.add_bert("", 18, 1);
  model.config["architectures"] = {"XLMRobertaModel"};
  const gguf::File file = make();
  const gguf::Array* found = file.get_array("tokenizer.ggml.precompiled_charsmap");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size()),
            charsmap);
  EXPECT_EQ(file.get_uint("bert.pooling_type"), 1u);
  EXPECT_EQ(notes, std::vector<std::string>{"no file defines the pooling: using the mean"});
}

TEST_F(Convert, RerankersKeepHeads) {
  for (const bool is_roberta : {false, true}) {
    model.tensors.clear();
    model.config = Json::object();
    if (is_roberta) {
      model.add_unigram();
      model.add_bert("roberta.", 18, 1);
      model.linear("classifier.dense", 32, 32);
      model.linear("classifier.out_proj", 1, 32);
      model.config["architectures"] = {"XLMRobertaForSequenceClassification"};
      model.config["id2label"] = {{"0", "LABEL_0"}};
    } else {
      model.add_word_pieces();
      model.add_bert("bert.", 16, 2);
      model.linear("bert.pooler.dense", 32, 32);
      model.linear("classifier", 3, 32);
      model.config["architectures"] = {"BertForSequenceClassification"};
      model.config["id2label"] = {{"0", "no"}, {"2", "yes"}, {"1", "perhaps"}};
    }
    const gguf::File file = make();
    EXPECT_EQ(file.get_uint("bert.pooling_type"), 4u);
    expect_all(file,
               is_roberta
                   ? std::vector<std::pair<std::string, std::string>>{{"classifier.dense", "cls"},
                                                                      {"classifier.out_proj",
                                                                       "cls.output"}}
                   : std::vector<std::pair<std::string, std::string>>{{"bert.pooler.dense", "cls"},
                                                                      {"classifier", "cls.output"}},
               quant::Type::kF16);
    const auto& labels = file.get_string_array("bert.classifier.output_labels")->strings;
    EXPECT_EQ(labels, is_roberta ? std::vector<std::string_view>{"LABEL_0"}
                                 : (std::vector<std::string_view>{"no", "perhaps", "yes"}));
    EXPECT_EQ(file.tensors().size(), 5 + 2 * 16 + 4u);
  }
  EXPECT_EQ(n_checked, 8u);
}

TEST_F(Convert, NomicBertHasOwnLayers) {
  model.add_word_pieces();
  model.add_nomic();
  model.add_pooling(R"({"pooling_mode": "mean"})");
  const gguf::File file = make();
  for (const char* i : {"0", "1"}) {
    const std::string from = std::string("encoder.layers.") + i;
    const std::string to = std::string("blk.") + i;
    expect_all(file,
               {{from + ".attn.Wqkv", to + ".attn_qkv"},
                {from + ".attn.out_proj", to + ".attn_output"},
                {from + ".norm1", to + ".attn_output_norm"},
                {from + ".mlp.fc11", to + ".ffn_up"},
                {from + ".mlp.fc12", to + ".ffn_gate"},
                {from + ".mlp.fc2", to + ".ffn_down"},
                {from + ".norm2", to + ".layer_output_norm"}},
               quant::Type::kF16);
  }
  EXPECT_EQ(n_checked, 18u);
  EXPECT_EQ(file.tensors().size(), 18 + 4u);
  EXPECT_EQ(file.get_string("general.architecture"), "nomic-bert");
  EXPECT_EQ(file.get_uint("nomic-bert.context_length"), 2048u);
  EXPECT_EQ(file.get_uint("nomic-bert.feed_forward_length"), 48u);
  EXPECT_EQ(file.get_float("nomic-bert.rope.freq_base"), 1000.0);
  EXPECT_EQ(file.get_uint("nomic-bert.pooling_type"), 1u);
  EXPECT_EQ(file.get_bool("nomic-bert.attention.causal"), false);
}

TEST_F(Convert, RobertaHasBytePairs) {
  model.tokenizer = Json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<s>", "special": true},
                     {"id": 1, "content": "<pad>", "special": true},
                     {"id": 2, "content": "</s>", "special": true},
                     {"id": 3, "content": "<unk>", "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
    "model": {"type": "BPE", "vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5,
              "ab": 6, "Ġ": 7}, "merges": ["a b", ["Ġ", "ab"]]}})");
  model.config["vocab_size"] = 8;
  model.add_bert("", 18, 1);
  model.config["architectures"] = {"RobertaModel"};
  const gguf::File file = make();
  EXPECT_EQ(file.get_string("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.get_string("tokenizer.ggml.pre"), "roberta-bpe");
  EXPECT_EQ(file.get_string_array("tokenizer.ggml.merges")->strings,
            (std::vector<std::string_view>{"a b", "Ġ ab"}));
  EXPECT_EQ(tokenizer::Tokenizer::load(file).encode("ab a"), (std::vector<TokenId>{0, 6, 7, 4, 2}));
}

TEST_F(Convert, ReadsVocabularyOfLines) {
  make_bert(model);
  const std::vector<std::byte> wanted = converted_bytes(model.files());
  model.tokenizer = nullptr;
  EXPECT_EQ(refusal(),
            "tokenizer.json and vocab.txt are missing; send one of them with the weights");
  model.texts["vocab.txt"] =
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\r\nworld\n##s\n,\ncafe\n#\n";
  model.texts["tokenizer_config.json"] = R"({"do_lower_case": true, "cls_token": "[CLS]",
    "sep_token": {"content": "[SEP]"}, "strip_accents": null})";
  EXPECT_EQ(converted_bytes(model.files()), wanted);
  model.texts["tokenizer_config.json"] = R"({"do_lower_case": false})";
  const gguf::File file = make();
  EXPECT_EQ(tokenizer::Tokenizer::load(file).encode("Hello hello"),
            (std::vector<TokenId>{2, 1, 5, 3}));
}

TEST_F(Convert, ReadsLongestWordOfTokenizer) {
  make_bert(model);
  EXPECT_EQ(make().find("tokenizer.ggml.max_input_chars_per_word"), nullptr);
  model.tokenizer["model"]["max_input_chars_per_word"] = 100;
  EXPECT_EQ(make().find("tokenizer.ggml.max_input_chars_per_word"), nullptr);
  model.tokenizer["model"]["max_input_chars_per_word"] = 5;
  const gguf::File file = make();
  EXPECT_EQ(tokenizer::Tokenizer::load(file).encode("hello hellos"),
            (std::vector<TokenId>{2, 5, 1, 3}));
}

TEST_F(Convert, ReadsPoolingOfModel) {
  make_bert(model);
  const auto pooling = [&](const char* description) {
    model.texts["1_Pooling/config.json"] = description;
    return make().get_uint("bert.pooling_type");
  };
  EXPECT_EQ(pooling(R"({"pooling_mode_lasttoken": true})"), 3u);
  EXPECT_EQ(pooling(R"({"pooling_mode": "cls"})"), 2u);
  model.texts["1_Pooling/config.json"] = R"({"pooling_mode_max_tokens": true})";
  EXPECT_EQ(refusal(),
            "1_Pooling/config.json: pooling by max is not supported (known: mean, cls, "
            "lasttoken; one of them)");
  model.texts["1_Pooling/config.json"] =
      R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})";
  EXPECT_NE(refusal().find("more than one way"), std::string::npos);
  model.texts.erase("1_Pooling/config.json");
  EXPECT_EQ(refusal(),
            "1_Pooling/config.json is missing, but modules.json names it; send it with "
            "the weights");
  model.texts["modules.json"] =
      R"([{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])";
  EXPECT_EQ(refusal(), "modules.json: a module 'Dense' is not supported");
}

TEST_F(Convert, RefusesUnsupportedModels) {
  using Change = std::function<void(SampleModel&)>;
  const std::pair<Change, std::string> cases[] = {
      {[](auto& m) { m.config["architectures"] = {"OddForCausalLM"}; },
       "config.json: models of the class 'OddForCausalLM' cannot be converted (the nearest "
       "language models: "},
      {[](auto& m) { m.config.erase("architectures"); },
       "config.json: \"architectures\" must name the model's class"},
      {[](auto& m) { m.config["hidden_size"] = -1; }, "config.json: \"hidden_size\" must be"},
      {[](auto& m) { m.config["hidden_size"] = 64; },
       "tensor 'embeddings.word_embeddings.weight' does not have the shape 12 x 64"},
      {[](auto& m) { m.config["num_hidden_layers"] = 4000000; },
       "config.json: \"num_hidden_layers\" is more than 1024"},
      {[](auto& m) { m.config["num_hidden_layers"] = 1; },
       "tensor 'encoder.layer.1.attention.output.LayerNorm.bias' has no known use"},
      {[](auto& m) { m.config["num_attention_heads"] = 5; },
       "config.json: \"num_attention_heads\" does not divide"},
      {[](auto& m) { m.config["hidden_act"] = "relu"; },
       "config.json: \"hidden_act\": 'relu' is not supported"},
      {[](auto& m) { m.config["position_embedding_type"] = "relative_key"; },
       "config.json: \"position_embedding_type\": 'relative_key' is not supported"},
      {[](auto& m) { m.config["layer_norm_eps"] = 0; }, "config.json: \"layer_norm_eps\" must be"},
      {[](auto& m) { m.texts["config.json"] = "{"; }, "config.json: malformed JSON"},
      {[](auto& m) { m.texts["config.json"] = "[]"; }, "config.json: not a JSON object"},
      {[](auto& m) { m.texts["config.json"] = ""; }, "config.json: malformed JSON"},
      {[](auto& m) { m.tensors["extra"] = {{3}, "F32"}; }, "tensor 'extra' has no known use"},
      {[](auto& m) { m.tensors["encoder.layer.0.output.dense.bias"].dtype = "I64"; },
       "tensor 'encoder.layer.0.output.dense.bias' is of the type I64, which cannot be converted"},
      {[](auto& m) { m.tensors.erase("embeddings.word_embeddings.weight"); },
       "tensor 'embeddings.word_embeddings.weight' is missing"},
      {[](auto& m) { m.texts["model.safetensors"] = "x"; },
       "model.safetensors: too short for a safetensors file"},
      {[](auto& m) { m.tokenizer["model"]["vocab"]["more"] = 12; },
       "tokenizer.json: token 12 has no row in the embedding table, which has 12"},
      {[](auto& m) { m.tokenizer["model"]["type"] = "WordLevel"; },
       "tokenizer.json: a vocabulary of the kind 'WordLevel' cannot be converted"},
      {[](auto& m) { m.tokenizer["normalizer"]["handle_chinese_chars"] = false; },
       "tokenizer.json: \"normalizer\": \"handle_chinese_chars\": false is not supported"},
      {[](auto& m) { m.tokenizer["normalizer"] = {{"type", "NFKC"}}; },
       "tokenizer.json: the normalizer 'NFKC' is not supported"},
      {[](auto& m) { m.tokenizer["post_processor"]["single"].erase(0); },
       "tokenizer.json: \"post_processor\": only texts between one token and another"},
      {[](auto& m) { m.tokenizer["added_tokens"][0].erase("content"); },
       "tokenizer.json: \"added_tokens\": \"content\" is missing"},
  };
  for (const auto& [change, begin] : cases) {
    SampleModel changed;
    make_bert(changed);
    change(changed);
    try {
      converted_bytes(changed.files());
      ADD_FAILURE() << begin;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(begin)) << error.what();
    }
  }
}

TEST_F(Convert, ReportsProgress) {
  make_bert(model);
  std::vector<std::pair<uint64_t, uint64_t>> steps;
  const Listener listener{.note = {}, .progress = [&](uint64_t n_done, uint64_t n_total) {
                            steps.emplace_back(n_done, n_total);
                          }};
  convert(model.files(), {}, listener, [](auto) {});
  ASSERT_GT(steps.size(), 37u);
  EXPECT_EQ(steps.back().first, steps.back().second);
  for (size_t i = 1; i < steps.size(); ++i) EXPECT_GE(steps[i].first, steps[i - 1].first);
  EXPECT_THROW(convert(model.files(), {}, {}, [](auto) -> void { throw 7; }), int);
}

// The expected ids are those of Hugging Face's tokenizers for this model.
TEST(ConvertRealModel, MiniLmTokenizesLikeItsOwnLibrary) {
  const char* models = std::getenv("BILLOW_TEST_MODELS");
  const char* home = std::getenv("HOME");
  const std::string folder =
      (models ? std::string(models) : std::string(home ? home : "") + "/.cache/billow/models") +
      "/all-minilm-l6-v2/";
  if (!std::filesystem::exists(folder + "model.safetensors")) {
    GTEST_SKIP() << "there is no model in " << folder;
  }
  std::vector<SourceFile> files;
  for (const char* name :
       {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"}) {
    files.push_back({name, folder + name});
  }
  const std::vector<std::byte> bytes = converted_bytes(files);
  const gguf::File file = gguf::File::parse(bytes, "converted");
  EXPECT_EQ(file.tensors().size(), 101u);
  EXPECT_EQ(file.get_uint("bert.pooling_type"), 1u);
  const auto reader = tokenizer::Tokenizer::load(file);
  const std::pair<const char*, std::vector<TokenId>> cases[] = {
      {"", {101, 102}},
      {"Hello, world!", {101, 7592, 1010, 2088, 999, 102}},
      {"Café naïve", {101, 7668, 15743, 102}},
      {"12345 running", {101, 13138, 19961, 2770, 102}},
      {"unbelievably", {101, 4895, 8671, 2666, 3567, 6321, 102}},
      {"東京", {101, 1879, 1755, 102}},
      {"a\tb\n c", {101, 1037, 1038, 1039, 102}},
      {"The quick brown fox jumps over the lazy dog.",
       {101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, 102}}};
  for (const auto& [text, ids] : cases) EXPECT_EQ(reader.encode(text), ids) << text;
}

}  // namespace
}  // namespace billow::convert
