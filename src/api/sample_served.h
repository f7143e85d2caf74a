// For tests: a store with small models that have a vocabulary and templates, and its catalog. Not
// thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/catalog.h"
#include "base/test_folder.h"
#include "gguf/writer.h"
#include "store/create.h"
#include "store/digest.h"
#include "store/store.h"
#include "tokenizer/sample_vocabularies.h"

namespace billow::api {

struct Sample {
  std::string name = "m";
  std::string go{};     // template
  std::string jinja{};  // of the GGUF file
  std::string system{};
  std::string params_json{};
  std::vector<store::Message> messages{};
  size_t max_context = 2048;
  std::string architecture = "llama";
  bool add_bos = false;  // the vocabulary adds a BOS to every prompt
  std::string rerank{};  // the GGUF file's template for pairs
  std::string renderer{};
  std::string parser{};
  // a Go template that was detected from the Jinja one, not given by a user
  std::string detected{};
};

class SampleStore {
 public:
  SampleStore()
      : store(folder_.path()),
        catalog(store, [this](const std::string& path, const scheduler::EngineChoice&,
                              std::stop_token) { return describe(path); }) {}

  void add(const Sample& sample) {
    gguf::Writer writer = tokenizer::sample_bpe();
    const std::string& prefix = sample.architecture;
    writer.set_string("general.architecture", prefix);
    writer.set_uint("general.file_type", 7);
    writer.set_uint(prefix + ".context_length", static_cast<uint32_t>(sample.max_context));
    writer.set_uint(prefix + ".embedding_length", 6);
    if (sample.add_bos) writer.set_bool("tokenizer.ggml.add_bos_token", true);
    if (!sample.rerank.empty()) writer.set_string("tokenizer.chat_template.rerank", sample.rerank);
    if (!sample.jinja.empty()) writer.set_string("tokenizer.chat_template", sample.jinja);
    static const std::vector<std::byte> data(96, std::byte{0x5a});
    writer.add_tensor("token_embd.weight", 0, std::vector<uint64_t>{6, 4}, data);
    const std::vector<std::byte> bytes = writer.to_bytes();
    const store::Digest digest = store::digest_of(bytes);
    size_t at = 0;
    store.add_blob(digest, [&](std::span<std::byte> part) {
      const size_t n = std::min(part.size(), bytes.size() - at);
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), n, part.begin());
      at += n;
      return n;
    });
    store::CreateRequest request;
    request.model = sample.name;
    request.files = {{"m.gguf", digest.text()}};
    request.template_text = sample.go;
    request.system = sample.system;
    request.renderer = sample.renderer;
    request.parser = sample.parser;
    request.parameters_json = sample.params_json;
    if (!sample.messages.empty()) request.messages = sample.messages;
    facts.max_context = sample.max_context;
    store::CreateHooks hooks;
    hooks.detect_template = [&](std::string_view) -> std::optional<store::DetectedTemplate> {
      if (sample.detected.empty()) return std::nullopt;
      return store::DetectedTemplate{.name = "detected", .text = sample.detected, .stop = {}};
    };
    create_model(store, request, hooks);
  }

 private:
  scheduler::ModelFacts describe(const std::string&) {
    ++n_described;
    return facts;
  }
  TestFolder folder_;

 public:
  scheduler::ModelFacts facts{
      .architecture = "llama",
      .max_context = 2048,
      .embedding_length = 6,
      .is_embedding = false,
      .memory = {.weight_bytes = 1000, .scratch = {{2048, 100}}, .kv_groups = {{10, 0}}}};
  int n_described = 0;
  store::Store store;
  Catalog catalog;
};

// A template that writes one line per message, like "user: hi", and "assistant:" at the end.
inline constexpr const char* kLines =
    "{{ range .Messages }}{{ .Role }}: {{ .Content }}\n{{ end }}assistant:";

}  // namespace billow::api
