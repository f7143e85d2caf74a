#include "store/create.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "store/sample_gguf.h"
#include "store/sample_model.h"

namespace billow::store {
namespace {

// Builds requests in the form that a client sends.
class Create : public testing::Test {
 protected:
  CreateRequest of_file(const gguf::Writer& writer, const std::string& name = "m") {
    CreateRequest request;
    request.model = name;
    request.files = {{{"model.gguf", add_gguf(store, writer).text()}}};
    return request;
  }

  CreateRequest of_model(const std::string& from, const std::string& name) {
    CreateRequest request;
    request.model = name;
    request.from = from;
    return request;
  }

  Model make(const CreateRequest& request) {
    statuses.clear();
    CreateHooks with = hooks;
    with.progress = [&](const std::string& status) { statuses.push_back(status); };
    auto model = load_model(store, create_model(store, request, with));
    EXPECT_TRUE(model);
    EXPECT_EQ(unsound_model(store), "");
    return *model;
  }

  std::string refusal(const CreateRequest& request) {
    try {
      create_model(store, request, hooks);
    } catch (const Error& error) {
      code = error.code();
      return error.what();
    }
    return "";
  }

  TestFolder folder;
  Store store{folder.path()};
  CreateHooks hooks;
  std::vector<std::string> statuses;
  ErrorCode code = ErrorCode::kIo;
};

TEST_F(Create, AGgufFileBecomesAModel) {
  const CreateRequest request = of_file(sample_gguf());
  const Model model = make(request);
  EXPECT_EQ(display_name(model.stored.name), "m:latest");
  EXPECT_EQ(model.config.model_format, "gguf");
  EXPECT_EQ(model.config.model_family, "llama");
  EXPECT_EQ(model.config.model_families, std::vector<std::string>{"llama"});
  EXPECT_EQ(model.config.model_type, "24");
  EXPECT_EQ(model.config.file_type, "Q4_K_M");
  EXPECT_EQ(model.config.context_length, 2048u);
  EXPECT_EQ(model.config.embedding_length, 6u);
  const std::string weights = (*request.files)[0].digest;
  EXPECT_EQ(model.config.diff_ids, std::vector<std::string>{weights});
  EXPECT_EQ(model.params_json, "{}");
  const std::string config = model.stored.manifest.config.digest.text();
  EXPECT_EQ(statuses, (std::vector<std::string>{"parsing GGUF", "using existing layer " + weights,
                                                "creating new layer " + config, "writing manifest",
                                                "success"}));
  make(request);
  EXPECT_EQ(statuses[2], "using existing layer " + config);
}

TEST_F(Create, TextsAndParametersBecomeLayers) {
  CreateRequest request = of_file(sample_gguf());
  request.template_text = "{{ .Prompt }}";
  request.system = "Be brief.";
  request.licenses = {"MIT", "Apache"};
  request.parameters_json = R"({"temperature":0.5,"stop":["a"],"seed":null})";
  request.messages = {{{"user", "Hi"}, {"assistant", "Hello"}}};
  request.renderer = "r";
  request.parser = "p";
  request.requires_version = "0.14.0";
  request.info_json =
      R"({"parameter_size":"9B","context_length":77,"capabilities":["vision"],"other":{}})";
  const Model model = make(request);
  EXPECT_EQ(model.template_text, "{{ .Prompt }}");
  EXPECT_EQ(model.system, "Be brief.");
  EXPECT_EQ(model.licenses, (std::vector<std::string>{"MIT", "Apache"}));
  EXPECT_EQ(model.params_json, R"({"temperature":0.5,"stop":["a"]})");
  ASSERT_EQ(model.messages.size(), 2u);
  EXPECT_EQ(model.messages[1].content, "Hello");
  EXPECT_EQ(model.config.renderer, "r");
  EXPECT_EQ(model.config.parser, "p");
  EXPECT_EQ(model.config.requires_version, "0.14.0");
  EXPECT_EQ(model.details.parameter_size, "9B");
  EXPECT_EQ(model.details.context_length, 77u);
  EXPECT_EQ(model.config.capabilities, std::vector<std::string>{"vision"});
  EXPECT_EQ(statuses.size(), 1u + 7 + 1 + 2);
}

TEST_F(Create, AModelInheritsFromAnother) {
  CreateRequest base = of_file(sample_gguf(), "base");
  base.template_text = "T";
  base.system = "S";
  base.licenses = {"MIT"};
  base.parameters_json = R"({"temperature":0.5,"top_k":3})";
  base.messages = {{{"user", "Hi"}}};
  base.renderer = "r";
  base.requires_version = "0.14.0";
  make(base);
  const Model same = make(of_model("BASE", "same"));
  EXPECT_EQ(same.template_text, "T");
  EXPECT_EQ(same.system, "S");
  EXPECT_EQ(same.params_json, R"({"temperature":0.5,"top_k":3})");
  EXPECT_EQ(same.messages.size(), 1u);
  EXPECT_EQ(same.config.renderer, "r");
  EXPECT_EQ(same.config.requires_version, "0.14.0");
  EXPECT_EQ(statuses.front().substr(0, 20), "using existing layer");
  CreateRequest request = of_model("base", "other");
  request.template_text = "T2";
  request.system = "S2";
  request.licenses = {"Apache"};
  request.parameters_json = R"({"temperature":1,"stop":["x"]})";
  request.messages = {{{"user", "A"}, {"assistant", "B"}}};
  request.parser = "p";
  const Model other = make(request);
  EXPECT_EQ(other.template_text, "T2");
  EXPECT_EQ(other.system, "S2");
  EXPECT_EQ(other.licenses, (std::vector<std::string>{"MIT", "Apache"}));
  EXPECT_EQ(other.params_json, R"({"temperature":1,"top_k":3,"stop":["x"]})");
  EXPECT_EQ(other.messages.size(), 2u);
  EXPECT_EQ(other.config.renderer, "r");
  EXPECT_EQ(other.config.parser, "p");
  EXPECT_EQ(other.weights, same.weights);
  EXPECT_EQ(other.stored.manifest.layers.size(), 7u);
}

TEST_F(Create, CreatingAgainReplacesTheModelAndRemovesUnusedBlobs) {
  CreateRequest request = of_file(sample_gguf());
  request.system = "old";
  make(request);
  request.system = "new";
  EXPECT_EQ(make(request).system, "new");
  EXPECT_FALSE(store.has_blob(digest_of("old")));
  request = of_model("m", "M");  // from itself, with another spelling
  request.system = "newest";
  EXPECT_EQ(display_name(make(request).stored.name), "m:latest");
  EXPECT_EQ(store.list().size(), 1u);
}

TEST_F(Create, ProjectorsAndAdaptersFollowTheWeights) {
  CreateRequest request = of_file(sample_gguf());
  gguf::Writer projector = sample_gguf("clip");
  gguf::Writer adapter = sample_gguf();
  adapter.set_string("general.type", "adapter");
  request.files->insert(request.files->begin(), {"mmproj.gguf", add_gguf(store, projector).text()});
  request.adapters = {{"lora.gguf", add_gguf(store, adapter).text()}};
  const Model model = make(request);
  EXPECT_EQ(model.config.model_family, "llama");
  EXPECT_EQ(model.config.model_families, (std::vector<std::string>{"llama", "clip"}));
  ASSERT_EQ(model.projectors.size(), 1u);
  ASSERT_EQ(model.adapters.size(), 1u);
  EXPECT_EQ(model.stored.manifest.layers[0].media_type, kModelLayer);
  EXPECT_TRUE(model.projector_facts->has_vision);
}

TEST_F(Create, AKnownJinjaTemplateAddsItsGoTemplateAndStops) {
  gguf::Writer writer = sample_gguf();
  writer.set_string("tokenizer.chat_template", "jinja");
  hooks.detect_template = [](std::string_view jinja) -> std::optional<DetectedTemplate> {
    if (jinja != "jinja") return std::nullopt;
    return DetectedTemplate{"chatml", "{{ .Go }}", {"<|im_end|>"}};
  };
  CreateRequest request = of_file(writer);
  request.parameters_json = R"({"seed":8})";
  const Model model = make(request);
  EXPECT_EQ(model.template_text, "{{ .Go }}");
  EXPECT_EQ(model.params_json, R"({"stop":["<|im_end|>"],"seed":8})");
  EXPECT_EQ(children(folder.path() + "/blobs").size(), model.stored.manifest.layers.size() + 1);
  EXPECT_EQ(statuses[1], "using autodetected template chatml");
  request = of_file(writer, "own");
  request.parameters_json = R"({"stop":["mine"]})";
  EXPECT_EQ(make(request).params_json, R"({"stop":["mine"]})");
  request.template_text = "T";
  EXPECT_EQ(make(request).template_text, "T");
  writer.set_string("tokenizer.chat_template", "another");
  EXPECT_EQ(make(of_file(writer)).template_text, "");
}

TEST_F(Create, SomeArchitecturesHaveADefaultRenderer) {
  const Model gemma = make(of_file(sample_gguf("gemma4")));
  EXPECT_EQ(gemma.config.renderer, "gemma4");
  EXPECT_EQ(gemma.config.parser, "gemma4");
  EXPECT_EQ(gemma.params_json, R"({"stop":["<turn|>"]})");
  EXPECT_EQ(make(of_file(sample_gguf("laguna"))).config.parser, "laguna");
  EXPECT_EQ(make(of_file(sample_gguf("nemotron_h_moe"))).config.renderer, "nemotron-3-nano");
  CreateRequest request = of_file(sample_gguf("gemma4"));
  request.template_text = "T";
  EXPECT_EQ(make(request).config.renderer, "");
}

TEST_F(Create, RefusesWrongRequests) {
  const std::string digest = add_gguf(store, sample_gguf()).text();
  const std::string text_digest = store.add_layer(kSystemLayer, "no GGUF").digest.text();
  const std::string broken = add_file(store, std::as_bytes(std::span("GGUF\1", 5))).text();
  const auto file = [](const std::string& path, const std::string& of) {
    return [=](CreateRequest& request) { request.files = {{{path, of}}}; };
  };
  const struct {
    std::function<void(CreateRequest&)> change;
    std::string message;
  } cases[] = {
      {[](auto& request) { request.model = "a b"; }, "invalid model name"},
      {[](auto& request) { request.model = ""; }, "invalid model name"},
      {[](auto& request) { request.files.reset(); }, "neither 'from' or 'files' was specified"},
      {[](auto& request) { request.files->clear(); }, "no files provided to convert"},
      {file("/etc/passwd", digest), "file path must be relative"},
      {file("a/../b.gguf", digest), "file path must be relative"},
      {file("", digest), "file path must be relative"},
      {file("a//b", digest), "file path must be relative"},
      {file("a/", digest), "file path must be relative"},
      {file("a.gguf", "sha256:1"), "invalid digest format"},
      {file("a.gguf", text_digest), "a.gguf: supplied file was not in GGUF format"},
      {file("a.bin", text_digest), "a.bin: unknown type"},
      {[&](auto& request) { request.adapters = {{"a", digest}}; },
       "a: this GGUF file is not an adapter: its kind is \"model\""},
      {[](auto& request) { request.quantize = "Q3"; },
       "unsupported quantization type Q3 - supported types are F32, F16, Q4_K_S, Q4_K_M, Q8_0"},
      {[](auto& request) { request.draft_quantize = "Q8_0"; },
       "--draft-quantize requires a DRAFT model"},
      {[](auto& request) { request.parameters_json = R"({"num_ctx":"x"})"; },
       "option \"num_ctx\" must be of type integer"},
      {[](auto& request) { request.messages = {{{"badguy", ""}}}; },
       "message role must be one of \"system\", \"user\", or \"assistant\""},
      {[](auto& request) { request.requires_version = "x"; },
       "requires must be a valid semver (e.g. 0.14.0)"},
      {[](auto& request) { request.info_json = R"({"context_length":"x"})"; },
       "info: \"context_length\" must be a whole number that is not negative"},
      {[](auto& request) { request.template_text = "{{"; }, "template error: unclosed"},
  };
  hooks.check_template = [](const std::string& text) {
    if (text == "{{") throw Error(ErrorCode::kInvalidInput, "unclosed");
  };
  for (const auto& test : cases) {
    CreateRequest request = of_file(sample_gguf());
    request.keep_files = true;
    test.change(request);
    EXPECT_EQ(refusal(request), test.message);
    EXPECT_EQ(code, ErrorCode::kInvalidInput) << test.message;
  }
  CreateRequest request = of_file(sample_gguf());
  request.files = {{{"a.gguf", broken}}};
  EXPECT_NE(refusal(request), "");
  EXPECT_EQ(code, ErrorCode::kInvalidInput);
  request.files = {{{"a.gguf", digest_of("absent").text()}}};
  EXPECT_NE(refusal(request).find("upload it first"), std::string::npos);
  EXPECT_EQ(code, ErrorCode::kNotFound);
  EXPECT_EQ(refusal(of_model("absent", "m")), "model 'absent' not found");
  EXPECT_EQ(refusal(of_model("a b", "m")), "invalid model name");
  EXPECT_TRUE(store.list().empty());
}

// A quantizer that returns a model of another type and records the requests.
struct SampleQuantizer {
  std::vector<std::byte> made;
  std::vector<Quantization> asked;

  void add_to(CreateHooks& hooks) {
    hooks.has_quantization = [](std::string_view name) { return name == "q4_K_M"; };
    hooks.quantize = [this](const Quantization& quantization, const ByteSink& sink) {
      asked.push_back(quantization);
      sink(made);
    };
  }
};

// Returns a sample with this general.file_type.
gguf::Writer sample_of_type(uint32_t file_type) {
  gguf::Writer writer = sample_gguf();
  writer.set_uint("general.file_type", file_type);
  return writer;
}

TEST_F(Create, WeightsAreQuantized) {
  SampleQuantizer quantizer{.made = sample_of_type(15).to_bytes(), .asked = {}};
  quantizer.add_to(hooks);
  CreateRequest request = of_file(sample_of_type(1));
  const Digest uploaded = Digest::parse(request.files->front().digest).value();
  request.quantize = "q4_K_M";
  const Model model = make(request);
  ASSERT_EQ(quantizer.asked.size(), 1u);
  EXPECT_EQ(quantizer.asked[0].path, store.blob_path(uploaded));
  EXPECT_EQ(quantizer.asked[0].type, "q4_K_M");
  EXPECT_EQ(statuses[1], "quantizing F16 model to q4_K_M");
  EXPECT_EQ(model.config.file_type, "Q4_K_M");
  EXPECT_EQ(model.stored.manifest.layers[0].digest,
            digest_of(std::span<const std::byte>(quantizer.made)));
  EXPECT_FALSE(store.has_blob(uploaded)) << "no model needs it";

  // If the source is a stored model, its weights stay, because that model needs them.
  request = of_file(sample_of_type(1), "f16");
  make(request);
  CreateRequest from = of_model("f16", "small");
  from.quantize = "q4_K_M";
  make(from);
  EXPECT_EQ(quantizer.asked.size(), 2u);
  EXPECT_TRUE(store.has_blob(uploaded));

  // Weights that already have the type stay unchanged.
  from = of_model("small", "again");
  from.quantize = "q4_K_M";
  make(from);
  EXPECT_EQ(quantizer.asked.size(), 2u);
}

TEST_F(Create, QuantizedWeightsAreNotQuantizedAgain) {
  SampleQuantizer quantizer{.made = {}, .asked = {}};
  quantizer.add_to(hooks);
  CreateRequest request = of_file(sample_of_type(7));
  request.quantize = "q4_K_M";
  EXPECT_EQ(refusal(request),
            "quantization is only supported for F16, F32 and BF16 models: this one is in Q8_0");
  EXPECT_EQ(code, ErrorCode::kInvalidInput);
}

TEST_F(Create, AFailedQuantizationLeavesNoFiles) {
  SampleQuantizer quantizer{.made = {}, .asked = {}};
  quantizer.add_to(hooks);
  hooks.quantize = [](const Quantization& quantization, const ByteSink& sink) {
    sink(std::vector<std::byte>(100));
    throw Error(ErrorCode::kUnsupported, quantization.path + ": a tensor is odd");
  };
  CreateRequest request = of_file(sample_of_type(1));
  request.quantize = "q4_K_M";
  EXPECT_EQ(refusal(request), "the model: a tensor is odd");
  EXPECT_EQ(code, ErrorCode::kUnsupported);
  EXPECT_TRUE(children(folder.path() + "/blobs").empty());
}

TEST_F(Create, ConvertedWeightsAreQuantizedIfTheConverterLacksTheType) {
  const std::string weights = store.add_layer(kSystemLayer, "weights").digest.text();
  SampleQuantizer quantizer{.made = sample_of_type(15).to_bytes(), .asked = {}};
  quantizer.add_to(hooks);
  const std::vector<std::byte> converted = sample_of_type(1).to_bytes();
  std::string weight_type = "none";
  hooks.has_weight_type = [](std::string_view name) { return name == "q8_0"; };
  hooks.convert = [&](const Conversion& conversion, const ByteSink& sink) {
    weight_type = conversion.weight_type;
    sink(converted);
  };
  CreateRequest request;
  request.model = "m";
  request.files = {{{"model.safetensors", weights}}};
  request.quantize = "q4_K_M";
  const Model model = make(request);
  EXPECT_EQ(weight_type, "");
  EXPECT_EQ(model.config.file_type, "Q4_K_M");
  EXPECT_FALSE(store.has_blob(digest_of(std::span<const std::byte>(converted))))
      << "it was only an intermediate file";
}

TEST_F(Create, AFileOfTheWebIsFetched) {
  const std::vector<std::byte> bytes = sample_gguf().to_bytes();
  std::vector<std::string> fetched;
  hooks.web_files = [](const std::string& from) {
    if (!from.starts_with("https:")) return std::vector<WebFile>{};
    return std::vector<WebFile>{{"x.gguf", from}};
  };
  hooks.fetch = [&](const WebFile& file, const ByteSink& sink) {
    fetched.push_back(file.url);
    sink(bytes);
  };
  CreateRequest request = of_model("https://h/x.gguf", "m");
  request.system = "S";
  const Model model = make(request);
  EXPECT_EQ(fetched, std::vector<std::string>{"https://h/x.gguf"});
  EXPECT_EQ(statuses[0], "pulling x.gguf");
  EXPECT_EQ(model.details.parent_model, "https://h/x.gguf");
  EXPECT_EQ(model.system, "S");
  EXPECT_EQ(model.config.model_family, "llama");
  make(of_model("m", "other"));
  EXPECT_EQ(fetched.size(), 1u) << "a name is not an address";
}

TEST_F(Create, AFileOfTheWebThatIsNotAModelLeavesNoFiles) {
  hooks.web_files = [](const std::string& from) { return std::vector<WebFile>{{"x.gguf", from}}; };
  hooks.fetch = [](const WebFile&, const ByteSink& sink) {
    sink(std::as_bytes(std::span(std::string_view("GGUF and nothing more"))));
  };
  EXPECT_NE(refusal(of_model("https://h/x.gguf", "m")), "");
  EXPECT_TRUE(children(folder.path() + "/blobs").empty());
}

TEST_F(Create, SafetensorsAreConverted) {
  const std::string weights = store.add_layer(kSystemLayer, "weights").digest.text();
  const std::string text = store.add_layer(kSystemLayer, "text").digest.text();
  const std::vector<std::byte> made = sample_gguf("bert").to_bytes();
  Conversion seen;
  hooks.has_weight_type = [](std::string_view name) { return name == "q8_0"; };
  hooks.convert = [&](const Conversion& conversion, const ByteSink& sink) {
    seen = conversion;
    sink(std::span(made).first(100));
    sink(std::span(made).subspan(100));
  };
  CreateRequest request;
  request.model = "m";
  request.files = {{{"model.safetensors", weights}, {"1_Pooling/config.json", text}}};
  request.quantize = "q8_0";
  request.keep_files = true;
  request.system = "S";
  const Model model = make(request);
  EXPECT_EQ(seen.model, "m:latest");
  EXPECT_EQ(seen.weight_type, "q8_0");
  ASSERT_EQ(seen.files.size(), 2u);
  EXPECT_EQ(seen.files[1].name, "1_Pooling/config.json");
  EXPECT_EQ(read_test_file(seen.files[1].path), "text");
  const Digest digest = digest_of(std::span<const std::byte>(made));
  EXPECT_EQ(model.stored.manifest.layers[0].digest, digest);
  EXPECT_EQ(model.stored.manifest.layers[0].media_type, kModelLayer);
  EXPECT_EQ(model.stored.manifest.layers[0].size_bytes, made.size());
  EXPECT_EQ(digest_of_file(store.blob_path(digest)), digest);
  EXPECT_EQ(model.config.model_family, "bert");
  EXPECT_EQ(model.system, "S");
  EXPECT_EQ(statuses[0], "converting model");
  EXPECT_EQ(statuses[1], "verifying conversion");
  EXPECT_EQ(statuses[2], "creating new layer " + digest.text());
  make(request);
  EXPECT_EQ(statuses[2], "using existing layer " + digest.text());
  EXPECT_TRUE(store.has_blob(*Digest::parse(weights)));
  request.keep_files = false;
  make(request);
  EXPECT_FALSE(store.has_blob(*Digest::parse(weights))) << "the model does not need it";
  EXPECT_TRUE(store.has_blob(digest));
}

// Splits sample_gguf() into two parts: the first has the keys and no tensor, the second has the
// tensors.
TEST_F(Create, FilesOfASplitAreJoined) {
  const std::vector<std::byte> whole_bytes = sample_gguf().to_bytes();
  const gguf::File whole = gguf::File::parse(whole_bytes, "whole");
  const auto part = [&](int32_t number, bool has_tensors) {
    gguf::Writer writer;
    if (number == 0)
      for (const gguf::Entry& entry : whole.metadata()) writer.set(entry.key, entry.value);
    writer.set_int("split.no", number);
    writer.set_int("split.count", 2);
    writer.set_int("split.tensors.count", static_cast<int32_t>(whole.tensors().size()));
    for (const gguf::TensorInfo& tensor : whole.tensors())
      if (has_tensors)
        writer.add_tensor(tensor.name, tensor.type, std::span(tensor.shape).first(tensor.n_dims),
                          tensor.data);
    return add_gguf(store, writer).text();
  };
  const std::string first = part(0, false);
  const std::string second = part(1, true);
  CreateRequest request;
  request.model = "m";
  request.files = {{{"m-00002-of-00002.gguf", second}, {"m-00001-of-00002.gguf", first}}};
  request.keep_files = true;
  const Model model = make(request);
  EXPECT_EQ(statuses[0], "joining 2 files");
  EXPECT_EQ(model.stored.manifest.layers[0].digest,
            digest_of(std::span<const std::byte>(whole_bytes)));
  request.files->pop_back();
  EXPECT_TRUE(refusal(request).starts_with("m-00002-of-00002.gguf: the first file says"))
      << refusal(request);
  request.files = {{{"m-00001-of-00002.gguf", first}}};
  EXPECT_TRUE(refusal(request).starts_with("m-00001-of-00002.gguf: the model has 2 files, not 1"))
      << refusal(request);
  request.files = {{{"m-00001-of-00002.gguf", first}, {"n-00002-of-00002.gguf", second}}};
  EXPECT_EQ(refusal(request),
            "m-00001-of-00002.gguf and n-00002-of-00002.gguf: these are parts of different models");
  request.files = {{{"m-00001-of-00002.gguf", first}, {"m-00002-of-00002.gguf", second}}};
  request.keep_files = false;
  make(request);
  EXPECT_FALSE(store.has_blob(*Digest::parse(first)));
  EXPECT_FALSE(store.has_blob(*Digest::parse(second)));
  EXPECT_EQ(unsound_model(store), "");
}

TEST_F(Create, AFailedConversionLeavesNoFiles) {
  const std::string weights = store.add_layer(kSystemLayer, "weights").digest.text();
  hooks.convert = [](const Conversion&, const ByteSink& sink) {
    sink(std::as_bytes(std::span("GGUF", 4)));
    throw Error(ErrorCode::kInvalidInput, "no good");
  };
  CreateRequest request;
  request.model = "m";
  request.files = {{{"model.safetensors", weights}}};
  EXPECT_EQ(refusal(request), "no good");
  EXPECT_TRUE(children(folder.path() + "/blobs").empty());
  ASSERT_EQ(store.add_layer(kSystemLayer, "weights").digest.text(), weights);
  for (const char* path : {"../model.safetensors", "/model.safetensors", "a//model.safetensors"}) {
    request.files = {{{path, weights}}};
    EXPECT_EQ(refusal(request), "file path must be relative") << path;
  }
  request.files = {{{"model.safetensors", weights}, {"config.json", digest_of("absent").text()}}};
  EXPECT_NE(refusal(request).find("config.json: blob sha256:"), std::string::npos);
  EXPECT_EQ(code, ErrorCode::kNotFound);
  request.quantize = "q4_K_M";
  hooks.has_quantization = [](std::string_view) { return true; };
  EXPECT_EQ(refusal(request), "quantization is not supported here");
  EXPECT_TRUE(store.list().empty());
}

TEST_F(Create, ADraftModelIsKeptInheritedAndReplaced) {
  std::vector<std::pair<std::string, std::string>> checked;
  hooks.check_draft = [&](const std::string& draft, const std::string& weights) {
    checked.emplace_back(draft, weights);
  };
  CreateRequest request = of_file(sample_gguf());
  request.keep_files = true;
  request.draft_files = *request.files;
  create_model(store, request, hooks);
  const auto made = load_model(store, parse_name(request.model).value());
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->draft, made->weights);
  ASSERT_EQ(checked.size(), 1u);
  EXPECT_EQ(checked.front(), (std::pair{made->draft, made->weights}));
  EXPECT_NE(made->config.draft_json.find("\"model_format\":\"gguf\""), std::string::npos);
  CreateRequest heir;
  heir.model = "heir";
  heir.from = request.model;
  create_model(store, heir, hooks);
  EXPECT_EQ(load_model(store, parse_name("heir").value())->draft, made->draft);
  heir.draft_files = request.draft_files;
  create_model(store, heir, hooks);
  const auto again = load_model(store, parse_name("heir").value());
  EXPECT_EQ(
      std::ranges::count_if(again->stored.manifest.layers,
                            [](const Layer& layer) { return layer.media_type == kDraftLayer; }),
      1);
}

TEST_F(Create, AStoredModelCanDraft) {
  CreateRequest request = of_file(sample_gguf(), "large");
  request.keep_files = true;
  const std::string weights = make(of_file(sample_gguf(), "small")).weights;
  request.draft = "absent";
  EXPECT_EQ(refusal(request), "DRAFT absent: no such file or model");
  request.draft = "small";
  EXPECT_EQ(make(request).draft, weights);
  request.draft_files = *request.files;
  EXPECT_EQ(refusal(request), "draft and draft_files cannot be combined; give one of them");
}

TEST_F(Create, ADraftModelThatCannotDraftIsRefused) {
  hooks.check_draft = [](const std::string&, const std::string&) {
    throw Error(ErrorCode::kInvalidInput, "token 3 is not the same");
  };
  CreateRequest request = of_file(sample_gguf());
  request.keep_files = true;
  request.draft_files = *request.files;
  EXPECT_EQ(refusal(request), request.files->front().path + ": token 3 is not the same");
  EXPECT_TRUE(store.list().empty());
}

TEST_F(Create, RefusesUnsupportedFeatures) {
  const std::string text = store.add_layer(kSystemLayer, "no GGUF").digest.text();
  const struct {
    std::function<void(CreateRequest&)> change;
    std::string begin;
  } cases[] = {
      {[&](auto& request) { request.files = {{{"a.safetensors", text}}}; },
       "conversion of safetensors is not supported here"},
      {[&](auto& request) { request.adapters = {{"a.safetensors", text}}; },
       "conversion of safetensors is not supported here"},
      {[](auto& request) { request.files->push_back(request.files->front()); },
       "a model of several weight files is not supported yet"},
      {[](auto& request) {
         request.draft_files = *request.files;
         request.draft_quantize = "Q8_0";
       },
       "--draft-quantize is not supported yet"},
      {[](auto& request) {
         request.draft_files = {request.files->front(), request.files->front()};
       },
       "a draft model of several files is not supported yet"},
      {[](auto& request) { request.remote_host = "h"; }, "remote models are not supported yet"},
  };
  for (const auto& test : cases) {
    CreateRequest request = of_file(sample_gguf());
    request.keep_files = true;
    test.change(request);
    EXPECT_TRUE(refusal(request).starts_with(test.begin)) << test.begin;
    EXPECT_EQ(code, ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace billow::store
