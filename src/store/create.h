// Creates a model from an uploaded GGUF file, from safetensors files that are converted to GGUF, or
// from another model. A request can add its own texts and parameters. Thread-safe: each request may
// run on any thread in parallel with other requests on the same store.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/model.h"
#include "store/store.h"

namespace billow::store {

struct NamedBlob {
  std::string path;    // relative path at the client
  std::string digest;  // "sha256:..."
  float scale = 1.0f;  // for adapters: factor for the scale in the file
};

// A client's unchecked request. create_model() checks everything. An empty field was not given.
struct CreateRequest {
  std::string model;
  std::string from;
  std::string remote_host;
  std::optional<std::vector<NamedBlob>> files;  // with `from`: projectors, in place of its own
  std::vector<NamedBlob> adapters;
  std::vector<NamedBlob> draft_files;
  std::string draft;  // name of a stored model that drafts, in place of draft_files
  std::string quantize;
  std::string draft_quantize;
  std::string template_text;
  std::string system;
  std::vector<std::string> licenses;
  std::string parameters_json;  // JSON object of options
  std::optional<std::vector<Message>> messages;
  std::string renderer;
  std::string parser;
  std::string requires_version;
  std::string info_json;    // JSON object with a description that the files do not have
  bool keep_files = false;  // keep uploaded files that no model needs any more
};

struct DetectedTemplate {
  std::string name;
  std::string text;
  std::vector<std::string> stop;
};

// Safetensors files and their descriptions, to be converted to a GGUF file. The result is `part` of
// the model, or an adapter if `base` is set.
struct Conversion {
  enum class Part : uint8_t { kModel, kModelWithProjector, kProjector };
  struct File {
    std::string name;  // relative path at the client
    std::string path;  // path of the file's bytes
  };
  std::string model;  // name of the new model
  std::vector<File> files;
  std::string weight_type;   // in any case; empty: the converter's default
  Part part = Part::kModel;  // kModelWithProjector: another conversion makes the projector
  std::string base = "";     // GGUF file of the adapter's base model
  float scale = 1.0f;        // for adapters: factor for the adapter's effect
};

// A request to quantize weights to another type.
struct Quantization {
  std::string path;  // path of the GGUF file
  std::string type;  // type name in the request
};

// A file of the web that a model is created from.
struct WebFile {
  std::string name;  // last part of the address
  std::string url;
};

struct CreateHooks {
  std::function<void(const std::string& status)> progress;
  // Throws if the creation must end. Called often while a file is written, on any thread.
  std::function<void()> check;
  // Returns the Go template that is equivalent to a Jinja template, if one is known.
  std::function<std::optional<DetectedTemplate>(std::string_view jinja)> detect_template;
  // Throws Error if the text is not a Go template. The error text follows "template error: ".
  std::function<void(const std::string& text)> check_template;
  // Writes the converted GGUF file to the sink. Without this hook, safetensors are refused.
  std::function<void(const Conversion& conversion, const ByteSink& sink)> convert;
  // Returns whether the files have a projector that `convert` can make. Without this hook, they
  // have none.
  std::function<bool(const Conversion& conversion)> has_projector;
  // Returns the files for `from` if it is the address of a GGUF file, all files of a split. Returns
  // no files if `from` is the name of a model.
  std::function<std::vector<WebFile>(const std::string& from)> web_files;
  // Fetches a web file and writes it to the sink, on any thread. Set if web_files is set.
  std::function<void(const WebFile& file, const ByteSink& sink)> fetch;
  // Pulls the model `from` if the store does not have it. Throws Error if the model cannot be
  // pulled. Without this hook, a missing model is not found.
  std::function<void(const Name& name)> pull;
  // Returns whether `convert` supports the weight type.
  std::function<bool(std::string_view name)> has_weight_type;
  // Writes the GGUF file of the quantized model to the sink. Without this hook, weights are not
  // quantized, and a request for another type is refused.
  std::function<void(const Quantization& quantization, const ByteSink& sink)> quantize;
  // Throws Error with the reason if the GGUF file `draft` cannot draft for the model `weights`.
  // Both are paths of blobs. Without this hook, drafts are not checked.
  std::function<void(const std::string& draft, const std::string& weights)> check_draft;
  // Returns whether `quantize` supports the type.
  std::function<bool(std::string_view name)> has_quantization;
};

// Creates a model and returns its name as spelled in the store. Throws Error: kInvalidInput if the
// request is wrong, kNotFound if a blob or `from` is missing, kUnsupported if a feature is not
// supported. Before the status "writing manifest", only unused blobs change. At the end, unused
// files of the creation are removed: files that were uploaded, fetched or converted and that no
// model needs. This also happens after an error once the creation has begun.
Name create_model(Store& store, const CreateRequest& request, const CreateHooks& hooks);

}  // namespace billow::store
