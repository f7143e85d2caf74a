#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/file_work.h"
#include "api/ollama/errors.h"
#include "api/ollama/generation.h"
#include "api/ollama/models.h"
#include "api/ollama/progress.h"
#include "api/ollama/requested_name.h"
#include "api/ollama/transfer_steps.h"
#include "api/quantize_work.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "convert/convert.h"
#include "gguf/file.h"
#include "http/status.h"
#include "prompt/go_template.h"
#include "prompt/named_templates.h"
#include "quantize/file_type.h"
#include "registry/web_file.h"
#include "store/create.h"
#include "tokenizer/same_vocabulary.h"

namespace billow::api::ollama {
namespace {

using http::Method;

store::Digest requested_digest(const Call& call) {
  const auto digest = store::Digest::parse(call.request().parameters.at("digest"));
  if (!digest) throw http::StatusError(400, "invalid digest format");
  return *digest;
}

void test_blob(const store::Store& store, Call& call) {
  // A client sends a damaged blob again if it counts as missing.
  call.respond({.status = store.has_whole_blob(requested_digest(call)) ? 200 : 404});
}

// Returns the size of the body; if it is unknown, a size that no blob has.
uint64_t body_size(const Call& call) {
  const std::string text(call.request().headers.get("Content-Length"));
  uint64_t n_bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n_bytes);
  const bool is_known = error == std::errc() && end == text.data() + text.size() && n_bytes > 0;
  return is_known ? n_bytes : std::numeric_limits<uint64_t>::max();
}

void put_blob(store::Store& store, Call& call) {
  const store::Digest digest = requested_digest(call);
  const auto body = [&](std::span<std::byte> part) {
    return call.read_body({reinterpret_cast<char*>(part.data()), part.size()});
  };
  const bool is_damaged = store.has_blob(digest) && !store.has_whole_blob(digest);
  const bool is_new =
      is_damaged ? store.add_blob(digest, body, body_size(call)) : store.add_blob(digest, body);
  call.respond({.status = is_new ? 201 : 200});
}

// Parses an object of relative paths and digests; nullopt if the field is missing.
std::optional<std::vector<store::NamedBlob>> blobs_of(const Fields& fields, const char* name) {
  const Json* value = fields.value(name);
  if (!value) return std::nullopt;
  if (!value->is_object()) fields.refuse(name, *value, "map[string]string");
  std::vector<store::NamedBlob> blobs;
  for (const auto& [path, digest] : value->items()) {
    if (!digest.is_string() && !digest.is_null()) fields.refuse(name, digest, "string");
    blobs.push_back({path, digest.is_null() ? std::string() : digest.get<std::string>()});
  }
  return blobs;
}

// Applies "adapter_scales", an object of adapter names and numbers.
void set_scales(const Fields& fields, std::vector<store::NamedBlob>& adapters) {
  constexpr const char* kName = "adapter_scales";
  const Json* value = fields.object(kName);
  if (!value) return;
  for (const auto& [name, scale] : value->items()) {
    const auto adapter = std::ranges::find(adapters, name, &store::NamedBlob::path);
    if (adapter == adapters.end())
      throw http::StatusError(400, "adapter_scales: there is no adapter \"" + name + "\"");
    if (!scale.is_number()) fields.refuse(kName, scale, "map[string]float");
    adapter->scale = scale.get<float>();
  }
}

// Parses one text or a list of texts.
std::vector<std::string> licenses_of(const Fields& fields) {
  const Json* value = fields.value("license");
  if (!value || !value->is_string()) return fields.texts("license");
  const auto license = value->get<std::string>();
  return license.empty() ? std::vector<std::string>() : std::vector{license};
}

std::optional<std::vector<store::Message>> messages_of(const Fields& fields) {
  if (!fields.has("messages")) return std::nullopt;
  std::vector<store::Message> messages;
  for (const Fields& message : fields.objects("messages")) {
    messages.push_back({lower_case(message.text("role")), message.text("content"),
                        message.text("thinking"), images_of(message)});
  }
  return messages;
}

std::string object_text(const Fields& fields, const char* name) {
  const Json* value = fields.object(name);
  return value ? to_text(*value) : "";
}

store::CreateRequest create_request_of(const Fields& fields) {
  store::CreateRequest request;
  request.model = requested_model(fields);
  if (store::parse_name(request.model)) (void)parse_new(request.model, "");  // checks the tag
  request.from = without_local(fields.text("from"));
  request.remote_host = fields.text("remote_host");
  request.files = blobs_of(fields, "files");
  request.adapters = blobs_of(fields, "adapters").value_or(std::vector<store::NamedBlob>());
  set_scales(fields, request.adapters);
  request.draft_files = blobs_of(fields, "draft_files").value_or(std::vector<store::NamedBlob>());
  request.draft = fields.text("draft");
  request.quantize = fields.text("quantize");
  if (request.quantize.empty()) request.quantize = fields.text("quantization");
  request.draft_quantize = fields.text("draft_quantize");
  request.template_text = fields.text("template");
  request.system = fields.text("system");
  request.licenses = licenses_of(fields);
  request.parameters_json = object_text(fields, "parameters");
  request.messages = messages_of(fields);
  request.renderer = fields.text("renderer");
  request.parser = fields.text("parser");
  request.requires_version = fields.text("requires");
  request.info_json = object_text(fields, "info");
  request.keep_files = fields.flag("keep_files").value_or(false);
  return request;
}

// Returns the request, and whether its answer is a stream.
std::pair<store::CreateRequest, bool> decode_create(const Fields& fields) {
  return {create_request_of(fields), fields.flag("stream").value_or(true)};
}

std::optional<store::DetectedTemplate> detect_template(std::string_view jinja) {
  const prompt::NamedTemplate* named = prompt::detect_named_template(jinja);
  if (!named) return std::nullopt;
  return store::DetectedTemplate{.name = std::string(named->name),
                                 .text = std::string(named->source),
                                 .stop = {named->stops.begin(), named->stops.end()}};
}

// Reports a step with one line per percent. The digest is a dummy: clients show a progress bar only
// for steps with a digest.
class PercentLines {
 public:
  PercentLines(Progress& progress, std::string status)
      : progress_(progress), status_(std::move(status)) {}

  void report(uint64_t n_done, uint64_t n_total) {
    if (n_total == 0 || n_done * 100 / n_total == percent_) return;
    percent_ = n_done * 100 / n_total;
    progress_.report(Json{{"status", status_},
                          {"digest", "0000000000000000000"},
                          {"total", n_total},
                          {"completed", n_done}});
  }

 private:
  Progress& progress_;
  std::string status_;
  uint64_t percent_ = 0;
};

bool has_projector(const store::Conversion& conversion) {
  std::vector<convert::SourceFile> files;
  for (const auto& file : conversion.files) files.push_back({file.name, file.path});
  return convert::has_projector(files);
}

void convert_model(const std::string& program, const store::Conversion& conversion,
                   const store::ByteSink& sink, Progress& progress, std::stop_token stop) {
  using enum store::Conversion::Part;
  const bool is_projector = conversion.part == kProjector;
  PercentLines lines(progress, !conversion.base.empty() ? "converting adapter"
                               : is_projector           ? "converting projector"
                                                        : "converting model");
  std::vector<std::string> arguments = {"--name=" + conversion.model};
  if (is_projector) arguments.push_back("--only-mmproj");
  if (conversion.part == kModelWithProjector) arguments.push_back("--with-mmproj");
  if (!conversion.weight_type.empty()) arguments.push_back("--outtype=" + conversion.weight_type);
  for (const auto& file : conversion.files)
    arguments.push_back("--file=" + file.name + "\n" + file.path);
  if (!conversion.base.empty()) arguments.push_back("--base=" + conversion.base);
  if (conversion.scale != 1.0f)
    arguments.push_back("--scale=" + fmt::format("{}", conversion.scale));
  run_file_work(
      program,
      {.command = "convert",
       .arguments = std::move(arguments),
       .listener = {
           .progress = [&](uint64_t n_done, uint64_t n_total) { lines.report(n_done, n_total); },
           .note = [&](const std::string& line) { progress.report_status(line); }},
       .stop = std::move(stop)},
      sink);
}

std::vector<store::WebFile> web_files_of(const std::string& from) {
  std::vector<store::WebFile> files;
  if (!registry::is_file_address(from)) return files;
  for (const std::string& url : registry::file_addresses(from))
    files.push_back({registry::file_name_of(url), url});
  return files;
}

void quantize_model(const std::string& program, const store::Quantization& quantization,
                    const store::ByteSink& sink, Progress& progress, std::stop_token stop) {
  PercentLines lines(progress, "quantizing model to " + quantization.type);
  quantize_file(
      program,
      {.path = quantization.path,
       .type = quantization.type,
       .progress = [&](uint64_t n_done, uint64_t n_total) { lines.report(n_done, n_total); },
       .stop = std::move(stop)},
      sink);
}

void check_draft(const std::string& draft, const std::string& weights) {
  const std::string why = tokenizer::vocabulary_difference(gguf::File::open_header(draft),
                                                           gguf::File::open_header(weights));
  if (why.empty()) return;
  throw Error(ErrorCode::kInvalidInput, "it cannot draft for the model: " + why +
                                            "; a draft model needs the same vocabulary");
}

void create(store::Store& store, registry::Client& client, const std::string& program, Call& call) {
  const auto [request, stream] =
      decode_create(Fields::parse(call.take_body().text, "CreateRequest"));
  Progress progress(call, stream);
  store::CreateHooks hooks{
      .progress = [&](const std::string& status) { progress.report_status(status); },
      .check = [&] { progress.check(); },
      .detect_template = detect_template,
      .check_template = [](const std::string& text) { prompt::GoTemplate{text}; },
      .convert = {},
      .has_projector = has_projector,
      .web_files = web_files_of,
      .fetch =
          [&](const store::WebFile& file, const store::ByteSink& sink) {
            PercentLines lines(progress, "pulling " + file.name);
            client.fetch_file(
                file.url, sink,
                [&](uint64_t n_done, uint64_t n_total) { lines.report(n_done, n_total); },
                call.stop());
          },
      .pull =
          [&](const store::Name& name) {
            client.pull(name, name.scheme == "http", listener_of(progress), call.stop());
          },
      .has_weight_type =
          [](std::string_view name) { return convert::find_weight_type(name).has_value(); },
      .quantize = {},
      .check_draft = check_draft,
      .has_quantization =
          [](std::string_view name) { return quantize::find_file_type(name) != nullptr; }};
  if (!program.empty()) {
    hooks.convert = [&](const store::Conversion& conversion, const store::ByteSink& sink) {
      convert_model(program, conversion, sink, progress, call.stop());
    };
    hooks.quantize = [&](const store::Quantization& quantization, const store::ByteSink& sink) {
      quantize_model(program, quantization, sink, progress, call.stop());
    };
  }
  progress.run([&] {
    const store::Name name = store::create_model(store, request, hooks);
    call.set_model(store::display_name(name));
  });
}

}  // namespace

std::vector<Route> create_routes(store::Store& store, registry::Client& client,
                                 const std::string& program) {
  return {
      {.methods = {Method::kHead},
       .pattern = "/api/blobs/:digest",
       .handler = [&store](Call& call) { test_blob(store, call); }},
      {.methods = {Method::kPost},
       .pattern = "/api/blobs/:digest",
       .handler = [&store](Call& call) { put_blob(store, call); },
       .streams_body = true,
       .writes_store = true},
      {.methods = {Method::kPost},
       .pattern = "/api/create",
       .handler = [&store, &client, program](Call& call) { create(store, client, program, call); },
       .writes_store = true},
  };
}

}  // namespace billow::api::ollama
