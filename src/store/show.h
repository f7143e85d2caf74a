// What `show` tells of a model, as JSON in the form of Ollama's /api/show. Pure functions of their
// arguments and, for what lies in GGUF files, of those; any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "gguf/file.h"
#include "store/model.h"

namespace billow::store {

// All metadata but general.name and tokenizer.chat_template, and general.parameter_count; arrays
// with elements are null unless `verbose`.
Json model_info(const gguf::File& file, bool verbose);
// [{"name", "type", "shape"}], the row length first.
Json tensor_list(const gguf::File& file);
// A line for each value of an object of options: the key padded to 30 columns, a blank, the value,
// strings in quotes as Go writes them.
std::string parameters_text(const std::string& params_json);
// A Modelfile that makes the model. It has the template that is used, unless the GGUF file brings
// it along.
std::string modelfile_text(const Model& model, const PromptTraits& traits);

struct ShowOptions {
  bool verbose = false;
  std::string system;        // shown in the place of the model's, where given
  std::string options_json;  // merged into the parameters of the Modelfile, not of the reply
};
// The whole reply. Throws Error (kInvalidInput) when the options are of wrong types.
Json show_json(const Model& model, const PromptTraits& traits, const ShowOptions& options);

// {"parent_model", "format", "family" ...}
Json details_json(const Details& details);

// What a listing of loaded models shows of a model, as compact JSON: {"digest", "details",
// "weights"}, the digests in hexadecimal. A loaded model keeps it, since the stored one may be
// deleted or replaced meanwhile.
std::string loaded_label(const Model& model);
// RFC 3339 with what there is of nanoseconds, in the machine's time zone.
std::string local_time_text(Time time);
// Of a time that may lie farther ahead; `rest` is less than a second.
std::string local_time_text(std::chrono::sys_seconds seconds, std::chrono::nanoseconds rest);

}  // namespace billow::store
