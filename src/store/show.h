// Builds the reply of `show` for a model, as JSON in the form of Ollama's /api/show. Functions read
// only their arguments, the GGUF files and the time zone. Thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "gguf/file.h"
#include "store/model.h"

namespace billow::store {

// Returns general.parameter_count and all metadata except general.name and tokenizer.chat_template.
// Arrays with elements are null unless `verbose`.
Json model_info(const gguf::File& file, bool verbose);
// Returns [{"name", "type", "shape"}], with the row length first.
Json tensor_list(const gguf::File& file);
// Returns a line for each value of an object of options: the key padded to 30 columns, a space, and
// the value. Strings are in quotes as Go writes them.
std::string parameters_text(const std::string& params_json);
// Returns a Modelfile that creates the model. The Modelfile has the used template, unless this
// template is in the GGUF file.
std::string modelfile_text(const Model& model, const PromptTraits& traits);

struct ShowOptions {
  bool verbose = false;
  std::string system;        // if given, replaces the model's system text
  std::string options_json;  // merged into the Modelfile's parameters, but not into the reply's
};
// Returns the whole reply. Throws Error (kInvalidInput) if options have wrong types.
Json show_json(const Model& model, const PromptTraits& traits, const ShowOptions& options);

// Returns {"parent_model", "format", "family" ...}.
Json details_json(const Details& details);

// Returns the data that a listing of loaded models shows for a model, as compact JSON: {"digest",
// "details", "weights"}. Digests are hexadecimal. A loaded model keeps this text, because the
// stored model may be deleted or replaced.
std::string loaded_label(const Model& model);
// Returns RFC 3339 text in the machine's time zone, without trailing zeros of the nanoseconds.
std::string local_time_text(Time time);
// The same for times that Time cannot hold. `rest` is less than a second.
std::string local_time_text(std::chrono::sys_seconds seconds, std::chrono::nanoseconds rest);

}  // namespace billow::store
