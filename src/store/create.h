// Makes a model out of a GGUF file that was uploaded as a blob, out of safetensors files that are
// converted to one, or out of another model, with texts and parameters of its own. One request may
// run on any thread beside others of the same store.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/model.h"
#include "store/store.h"

namespace billow::store {

struct NamedBlob {
  std::string path;    // relative, as the client calls it
  std::string digest;  // "sha256:..."
  float scale = 1.0f;  // of an adapter: times what its file says
};

// What a client asks for, as it came: everything is checked by create_model. Empty is not given.
struct CreateRequest {
  std::string model;
  std::string from;
  std::string remote_host;
  std::optional<std::vector<NamedBlob>> files;
  std::vector<NamedBlob> adapters;
  std::vector<NamedBlob> draft_files;
  std::string quantize;
  std::string draft_quantize;
  std::string template_text;
  std::string system;
  std::vector<std::string> licenses;
  std::string parameters_json;  // an object of options
  std::optional<std::vector<Message>> messages;
  std::string renderer;
  std::string parser;
  std::string requires_version;
  std::string info_json;    // an object that describes the model beyond what its files say
  bool keep_files = false;  // also those that no model needs any more
};

struct DetectedTemplate {
  std::string name;
  std::string text;
  std::vector<std::string> stop;
};

// Safetensors files, and what describes them, that are to become a GGUF file: of a model, or of an
// adapter where `base` is set.
struct Conversion {
  struct File {
    std::string name;  // relative, as the client calls it
    std::string path;  // where its bytes lie
  };
  std::string model;  // what it is to be called
  std::vector<File> files;
  std::string weight_type;  // of any case; empty: as the converter likes it best
  std::string base = "";    // path of the GGUF file that the adapter was made for
  float scale = 1.0f;       // of an adapter: a factor for all that it adds
};

// Weights that are to become weights of another type.
struct Quantization {
  std::string path;  // of the GGUF file
  std::string type;  // as the request names it
};

// A file of the web that a model is made of.
struct WebFile {
  std::string name;  // the last part of the address
  std::string url;
};

struct CreateHooks {
  std::function<void(const std::string& status)> progress;
  // The Go template that does what a Jinja template does, if one is known.
  std::function<std::optional<DetectedTemplate>(std::string_view jinja)> detect_template;
  // Throws Error when the text is no Go template; its message is given behind "template error: ".
  std::function<void(const std::string& text)> check_template;
  // Hands the GGUF file to the sink. Without it safetensors are refused.
  std::function<void(const Conversion& conversion, const ByteSink& sink)> convert;
  // The files that `from` means where it is the address of a GGUF file, all of a split; none where
  // it is the name of a model.
  std::function<std::vector<WebFile>(const std::string& from)> web_files;
  // Hands such a file to the sink, on any thread. Set where web_files is.
  std::function<void(const WebFile& file, const ByteSink& sink)> fetch;
  // Fetches the model `from` that is not in the store. Throws Error where it cannot be had. Without
  // it such a model is not found.
  std::function<void(const Name& name)> pull;
  // Whether `convert` can make weights of the type.
  std::function<bool(std::string_view name)> has_weight_type;
  // Hands the GGUF file of the quantised model to the sink. Without it weights stay as they are,
  // and a request for another type is refused.
  std::function<void(const Quantization& quantization, const ByteSink& sink)> quantize;
  // Throws Error where the GGUF file `draft` cannot draft for the model `weights`, with what is
  // wrong with it. Paths of blobs. Without it nothing is checked.
  std::function<void(const std::string& draft, const std::string& weights)> check_draft;
  // Whether `quantize` knows the type.
  std::function<bool(std::string_view name)> has_quantization;
};

// Returns the name as it is spelled in the store. Throws Error: kInvalidInput for a request that is
// wrong, kNotFound for a blob or `from` that is not there,
// kUnsupported for what cannot be made yet. Until "writing manifest" nothing but unused blobs has
// changed. Files that were uploaded for it and that no model needs, such as those that were
// converted, are removed at its end, also where it fails once their making has begun.
Name create_model(Store& store, const CreateRequest& request, const CreateHooks& hooks);

}  // namespace billow::store
