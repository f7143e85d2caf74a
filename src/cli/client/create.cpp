// billow create: creates a model on the server from a Modelfile and the files that it names.
#include "cli/client/create.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/regular_file.h"
#include "cli/client/command_line.h"
#include "cli/client/create_plan.h"
#include "cli/client/format.h"
#include "cli/client/interrupt_watch.h"
#include "cli/client/kept_files.h"
#include "cli/client/session.h"
#include "cli/client/show_text.h"
#include "cli/client/status_line.h"
#include "cli/client/transfer.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "store/digest.h"
#include "store/folder.h"
#include "store/gguf_facts.h"
#include "store/name.h"

namespace billow::cli {
namespace {

constexpr uint64_t kMaxModelfileBytes = 64 << 20;
constexpr const char* kDefaultFile = "Modelfile";

struct Options {
  std::string file;
  std::string quantize;
  std::string draft_quantize;
  bool keep_files = false;
  bool experimental = false;  // accepted without effect
};

struct Source {
  std::string text;
  std::string folder;  // base of relative paths
};

Source read_source(const std::string& file) {
  if (file == "-") {
    return {{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}, "."};
  }
  const std::string path = file.empty() ? kDefaultFile : expanded_path(file, ".");
  const bool exists = store::file_status(path).has_value() && !store::is_folder(path);
  if (exists && store::begins_as_gguf(path)) {
    throw Error(ErrorCode::kInvalidInput, path + " is a model, not a Modelfile; write 'FROM " +
                                              path + "' in a Modelfile, or try 'billow run " +
                                              path + "'");
  }
  if (const auto content = store::read_file(path, kMaxModelfileBytes)) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return {content->bytes, folder.empty() ? "." : folder};
  }
  if (file.empty()) return {"FROM .\n", "."};
  throw Error(ErrorCode::kNotFound, file + ": there is no such Modelfile");
}

// Hashes a file, sends it if the server does not have it, and returns its digest. If the file
// changes during the upload, the server refuses it, because the digest differs.
std::string send_file(ApiClient& client, const LocalFile& file, StatusLine& status) {
  const std::string hashing = "hashing " + file.name;
  const std::string digest = store::digest_of_file(file.path, [&](uint64_t done, uint64_t total) {
                               status.show(hashing, done, total);
                             }).text();
  const std::string blob = "/api/blobs/" + digest;
  if (client.has(blob)) return digest;
  const RegularFile content(file.path);
  const std::string copying = "copying file " + digest;
  uint64_t n_sent = 0;
  status.show(copying, 0, content.size_bytes());
  client.upload(blob, content.size_bytes(), [&](std::span<char> buffer) -> size_t {
    const size_t n = content.read_at(n_sent, std::as_writable_bytes(buffer));
    if (n == 0)
      throw Error(ErrorCode::kIo, file.path + ": the file became shorter during the upload");
    n_sent += n;
    status.show(copying, n_sent, content.size_bytes());
    return n;
  });
  return digest;
}

void add_files(Json& request, const char* field, ApiClient& client,
               const std::vector<LocalFile>& files, StatusLine& status) {
  for (const LocalFile& file : files) {
    request[field][file.name] = send_file(client, file, status);
    if (file.scale != 1.0f) request["adapter_scales"][file.name] = file.scale;
  }
}

// The model exists already, so an error of /api/show is ignored.
void warn_of_template(ApiClient& client, const std::string& model) {
  try {
    const ModelFacts facts = model_facts(client.post("/api/show", {{"model", model}}));
    std::fputs(template_warning(model, facts).c_str(), stderr);
  } catch (const ApiError&) {
    return;
  }
}

CreatePlan planned(const Source& source) {
  return plan_create(store::parse_modelfile(source.text), source.folder,
                     [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
}

// Returns whether the server lacks a file that it had a moment ago. While files are hashed and
// sent, the end of another creation may remove those that it shares with this one. The error is a
// response, or in the stream if the server has already reported a step.
bool is_file_gone(const ApiError& error) {
  const std::string_view text = error.what();
  return text.find(": blob sha256:") != std::string_view::npos &&
         text.ends_with(" does not exist; upload it first");
}

// Sends the files of a plan and creates the model. Adds the fields of `extra` to the request.
void send_plan_once(ApiClient& client, const std::string& model, const CreatePlan& plan,
                    const Json& extra) {
  StatusLine status;
  status.show("gathering model components");
  Json request = {{"model", model}};
  request.update(Json::parse(plan.request));
  add_files(request, "files", client, plan.files, status);
  add_files(request, "adapters", client, plan.adapters, status);
  add_files(request, "draft_files", client, plan.draft_files, status);
  request.update(extra);
  const InterruptWatch watch([&client] { client.cancel(); });
  const bool is_complete = client.stream("/api/create", request, [&](const Json& object) {
    show_step(object, status);
    return true;
  });
  if (!is_complete) end_with(exit_status_of(SIGINT));
  status.finish();
}

void send_plan(ApiClient& client, const std::string& model, const CreatePlan& plan,
               const Json& extra) {
  constexpr int kMaxAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    try {
      return send_plan_once(client, model, plan, extra);
    } catch (const ApiError& error) {
      if (attempt == kMaxAttempts || !is_file_gone(error)) throw;
    }
  }
}

void create(const Options& options, const std::string& model) {
  if (!store::parse_name(model)) {
    throw Error(ErrorCode::kInvalidInput, "invalid model name: " + model);
  }
  const CreatePlan plan = planned(read_source(options.file));
  const auto client = connected_client();
  Json extra = Json::object();
  if (!options.quantize.empty()) extra["quantize"] = options.quantize;
  if (!options.draft_quantize.empty()) extra["draft_quantize"] = options.draft_quantize;
  if (options.keep_files) extra["keep_files"] = true;
  send_plan(*client, model, plan, extra);
  warn_of_template(*client, model);
}

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

// Returns whether the server has the model, and created it after the last change of the files. A
// file that was renamed to its path later counts as changed, whatever its age. A server of another
// machine has another clock, and its model may be from files of a third machine: then false, so
// that the digests of the files decide.
bool has_newer(ApiClient& client, const std::string& model, const CreatePlan& plan) {
  if (!is_this_machine(client.endpoint().host)) return false;
  try {
    const Json shown = client.post("/api/show", {{"model", model}});
    const auto made = parse_time(text_field(shown, "modified_at"));
    return made && std::ranges::all_of(plan.files, [&](const LocalFile& file) {
             const auto status = store::file_status(file.path);
             if (!status) return false;
             const auto last = std::max(status->modified, status->changed);
             return std::chrono::floor<WallTime::duration>(last) < *made;
           });
  } catch (const ApiError& error) {
    if (error.status() != 404) throw;
    return false;
  }
}

}  // namespace

std::string keep_model(ApiClient& client, const std::string& path) {
  const std::string expanded = expanded_path(path, ".");
  if (!store::file_status(expanded) && !store::is_folder(expanded))
    throw Error(ErrorCode::kNotFound, path + ": there is no such file or folder");
  const CreatePlan plan = planned({"FROM " + expanded + "\n", "."});
  const std::string name = kept_name(expanded);
  // The model may come from other files, if a folder was renamed or a link has another target.
  const KeptFiles files(kept_files_folder(), client.endpoint().url() + " " + name, plan.files);
  if (files.are_stored() && has_newer(client, name, plan)) return name;
  send_plan(client, name, plan, Json::object());
  files.store();
  return name;
}

std::string keep_web_model(ApiClient& client, const std::string& url) {
  const std::string name = kept_name_of_address(url);
  try {
    client.post("/api/show", {{"model", name}});
  } catch (const ApiError& error) {
    if (error.status() != 404) throw;
    send_plan(client, name, planned({"FROM " + url + "\n", "."}), Json::object());
  }
  return name;
}

void add_create(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = add_client_command(
      app,
      {.name = "create",
       .description = "Create a model from a Modelfile",
       .arguments = "MODEL",
       .min = 1,
       .max = 1},
      [options](const std::vector<std::string>& words) { create(*options, words[0]); });
  command.add_option("-f,--file", options->file,
                     "The Modelfile, or - for standard input (default: the file Modelfile; without "
                     "it, the weights in the current folder)");
  command.add_option("-q,--quantize", options->quantize,
                     "Quantize the weights to this type, for example q4_K_M");
  command.add_option("--draft-quantize", options->draft_quantize,
                     "Quantize the draft model to this type");
  command.add_flag(
      "--keep-files", options->keep_files,
      "Keep uploaded files on the server that the model does not need, such as converted files");
  command.add_flag("--experimental", options->experimental)->group("");
}

}  // namespace billow::cli
