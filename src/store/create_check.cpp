#include "store/create_check.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/digest.h"
#include "store/modelfile.h"

namespace billow::store {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidInput, message);
}
[[noreturn]] void not_yet(const std::string& message) {
  throw Error(ErrorCode::kUnsupported, message);
}

void check_path(const std::string& path) {
  const auto is_bad = [](std::string_view element) {
    return element.empty() || element == "." || element == ".." ||
           element.find('\0') != std::string_view::npos;
  };
  std::string_view rest = path;
  for (;;) {
    const size_t slash = rest.find('/');
    if (is_bad(rest.substr(0, slash))) refuse("file path must be relative");
    if (slash == std::string_view::npos) return;
    rest.remove_prefix(slash + 1);
  }
}

void check_blobs(const std::vector<NamedBlob>& blobs) {
  for (const NamedBlob& blob : blobs) {
    check_path(blob.path);
    if (!Digest::parse(blob.digest)) refuse("invalid digest format");
  }
}

void check_quantize(const CreateRequest& request, const CreateHooks& hooks) {
  if (!request.draft_quantize.empty() && request.draft_files.empty() && request.draft.empty()) {
    refuse("--draft-quantize requires a DRAFT model");
  }
  if (!request.draft_quantize.empty())
    not_yet("--draft-quantize is not supported yet: give a DRAFT that is quantized");
  if (request.draft_files.size() > 1)
    not_yet("a draft model of several files is not supported yet: give one GGUF file");
  if (!request.draft.empty() && !request.draft_files.empty())
    refuse("draft and draft_files cannot be combined; give one of them");
  if (request.quantize.empty()) return;
  if (makes_weights_of(request, hooks)) return;
  if (!hooks.has_quantization || !hooks.has_quantization(request.quantize)) {
    refuse("unsupported quantization type " + request.quantize +
           " - supported types are F32, F16, Q4_K_S, Q4_K_M, Q8_0");
  }
  if (!hooks.quantize) not_yet("quantization is not supported here");
}

}  // namespace

Error with_name_of_file(const Error& error, const std::string& path, const std::string& name) {
  std::string why = error.what();
  if (why.starts_with(path)) why = name + why.substr(path.size());
  return Error(error.code(), why);
}

bool is_safetensors(const NamedBlob& blob) { return blob.path.ends_with(".safetensors"); }

bool is_converted(const CreateRequest& request) {
  return request.from.empty() && request.files &&
         std::ranges::any_of(*request.files, is_safetensors);
}

bool makes_weights_of(const CreateRequest& request, const CreateHooks& hooks) {
  return is_converted(request) && hooks.has_weight_type && hooks.has_weight_type(request.quantize);
}

void check_create(const CreateRequest& request, const CreateHooks& hooks) {
  if (request.files) check_blobs(*request.files);
  check_blobs(request.adapters);
  check_blobs(request.draft_files);
  if (!request.remote_host.empty()) {
    if (!request.draft_files.empty() || !request.draft.empty())
      refuse("DRAFT cannot be used with remote models");
    not_yet("remote models are not supported yet");
  }
  if (request.from.empty() && !request.files) refuse("neither 'from' or 'files' was specified");
  if (request.from.empty() && request.files->empty()) refuse("no files provided to convert");
  check_quantize(request, hooks);
  if (!request.requires_version.empty() && !is_version(request.requires_version)) {
    refuse(std::string(kVersionFault));
  }
  for (const Message& message : request.messages.value_or(std::vector<Message>{})) {
    if (!is_role(message.role)) refuse(std::string(kRoleFault));
  }
}

}  // namespace billow::store
